"""Exports training data: conversations of the best models, in the style of a trainer, each image where it stood.

In: a release and an `SftSelection`. Out: `train` in the style of a trainer, images and a card. Of each row that may
be taken id, model, topic and size are held, to draw and to put in order. Images are read once, a row group at a time.
Examples are written in the drawn order, `ORDERED_BYTES` at a time; each slice reads the texts of the release.
"""

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from datasets import Features

from schemas.errors import BadInput, known_values
from schemas.items.conversation import Winner
from schemas.items.test_sets import TEST_SET_MARK
from schemas.publication import FileFormat, SftSelection, SftStyle
from schemas.rating import Rating
from schemas.release import ReleasedCategories
from tasks.export.card import write_sft_card
from tasks.ingest.log_line import MARK
from tasks.release.checks.footers import check_shards
from tasks.release.contents import IMAGE_NAME
from tasks.release.fetched import read_manifest
from tasks.release.gather import PUBLISHED_WINNERS
from tasks.release.shards import PLAIN_ROW_BYTES, feature_schema, shard_files
from tasks.runtime.progress import progress
from tasks.storage.parquet import compact, read_parquet_groups, read_parquet_schema, table_writer
from tasks.storage.queries.conversation_features import english_name
from tasks.storage.tables import frame_of

TrainingExample = dict[str, Any]
_MARKS = re.compile(
    r"<(\|?(?:image|video|audio|bbox|ref-object|start-image|cot-process|image_pad|video_pad|vision_start|vision_end)\|?)>"
)
"""Marks that LLaVA, LLaMA-Factory, ms-swift or a model's processor replace by something."""
ORDERED_BYTES = 64 * 1024 * 1024
"""Conversations, without their images, that are held to be put in order; a row group of a Parquet file."""
ROWS_AT_ONCE = 512
"""Rows of a slice that are made into examples at once."""


def messages_example(row: Mapping[str, Any], paths: Sequence[str]) -> TrainingExample:
    """An example with `messages` of typed parts, and `images`: a path for each image part, in order."""
    messages = []
    for turn, image_places in _shown(row, len(paths)):
        parts = [
            {"type": "image", "text": None} if isinstance(part, int) else {"type": "text", "text": without_marks(part)}
            for part in _parts(turn["content"], image_places)
        ]
        messages.append({"role": turn["role"], "content": parts or [{"type": "text", "text": ""}]})
    return {"id": row["conversation_id"], "messages": messages, "images": _in_order(row, paths), **_about(row)}


def as_text(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages without images, each content one text: templates of models of texts join a role and a text."""
    return [{**message, "content": "".join(part["text"] for part in message["content"])} for message in messages]


def llava_example(row: Mapping[str, Any], paths: Sequence[str]) -> TrainingExample:
    """An example with `conversations` and `image`: a path for each mark, in order."""
    speakers, turns = {"user": "human", "assistant": "gpt"}, _shown(row, len(paths))
    messages = [
        {"from": speakers[turn["role"]], "value": marked(turn["content"], image_places)} for turn, image_places in turns
    ]
    return {"id": row["conversation_id"], "image": _in_order(row, paths), "conversations": messages, **_about(row)}


def sharegpt_example(row: Mapping[str, Any], paths: Sequence[str]) -> TrainingExample:
    """An example with `conversations` and `images`: a path for each mark, in order."""
    example = llava_example(row, paths)
    return {"id": example.pop("id"), "images": example.pop("image"), **example}


def as_trainers_read(example: TrainingExample) -> TrainingExample:
    """`image` as LLaVA's trainers expect it: a path, a list for several images (LLaVA-NeXT), missing without images."""
    if "image" not in example:
        return example
    paths = example["image"]
    other_columns = {name: value for name, value in example.items() if name != "image"}
    return (
        other_columns
        if not paths
        else {"id": other_columns.pop("id"), "image": paths[0] if len(paths) == 1 else paths, **other_columns}
    )


def marked(text: str, shown: Sequence[Mapping[str, int]]) -> str:
    """The text with a mark for every image, on a line of its own at the beginning of a line and behind the text."""
    parts, marked_text = list(_parts(text, shown)), ""
    last_words = max((place for place, part in enumerate(parts) if isinstance(part, str)), default=-1)
    for place, part in enumerate(parts):
        if isinstance(part, str):
            marked_text += without_marks(part)
        elif not marked_text or marked_text.endswith("\n"):
            marked_text += f"{MARK}\n"
        else:
            marked_text += f"\n{MARK}" if place > last_words else MARK
    return marked_text if last_words == len(parts) - 1 else marked_text.removesuffix("\n")


def without_marks(text: str) -> str:
    """The text with marks that somebody typed spelled `< image >`, which no trainer replaces."""
    return _MARKS.sub(r"< \1 >", text)


def _parts(text: str, image_places: Sequence[Mapping[str, int]]) -> Iterator[str | int]:
    """Pieces of text, and the indexes of the images between them."""
    start = 0
    for image_place in image_places:
        if piece := text[start : image_place["character"]]:
            yield piece
        yield image_place["image"]
        start = max(start, image_place["character"])
    if piece := text[start:]:
        yield piece


def _shown(row: Mapping[str, Any], image_count: int) -> Iterator[tuple[Mapping[str, Any], list[Mapping[str, int]]]]:
    """Every turn and its images; an image that no turn shows stands before the first text."""
    placed_images = {image_place["image"] for turn in row["conversation"] for image_place in turn["images"]}
    unplaced = [{"image": image, "character": 0} for image in range(image_count) if image not in placed_images]
    for turn_number, turn in enumerate(row["conversation"]):
        yield (
            turn,
            [
                *([] if turn_number else unplaced),
                *(image_place for image_place in turn["images"] if image_place["image"] < image_count),
            ],
        )


def _in_order(row: Mapping[str, Any], paths: Sequence[str]) -> list[str]:
    """The path of every image of every turn, in order; one that is shown again is listed again."""
    return [paths[image_place["image"]] for _, image_places in _shown(row, len(paths)) for image_place in image_places]


def _about(row: Mapping[str, Any]) -> TrainingExample:
    return {"model": row["model"], "language": row["language"], "topic": row["topic"]}


STYLE_EXAMPLES: dict[SftStyle, Callable[[Mapping[str, Any], Sequence[str]], TrainingExample]] = {
    SftStyle.MESSAGES: messages_example,
    SftStyle.LLAVA: llava_example,
    SftStyle.SHAREGPT: sharegpt_example,
}


_COLUMNS = ["conversation_id", "model", "topic"]
_WORDS = pl.element().struct.field("content")
_OF_TEST_SET = pl.col("conversation_id").str.starts_with(TEST_SET_MARK)


def top_models(release: Path, models: pl.Series, count: int) -> list[str]:
    """The `count` best of these models on the overall leaderboard: by rank, then by votes. Raises BadInput for none."""
    board = release / "leaderboard" / "overall.parquet"
    rated = pl.concat(read_parquet_groups(board)) if board.is_file() else frame_of(Rating, [])
    overall = rated.filter(pl.col("slice") == "overall")  # the file has a row a model for each exclusion as well
    candidates = overall.filter(pl.col("model").is_in(models.implode()))
    if candidates.is_empty():
        raise BadInput(f"{str(release)!r}: no model of the overall leaderboard has a conversation to export")
    best = candidates.sort("rank", "battles", "model", descending=[False, True, False], nulls_last=True)
    return best["model"].head(count).to_list()


def _fit(release: Path, selection: SftSelection) -> pl.DataFrame:
    """conversation_id, model and topic of all rows of `chat` that may be taken, of any model. Keeps no texts.

    `row` is the number of the row in `chat`, `bytes` its size without images.
    """
    last_message, fit_groups = pl.col("conversation").list.last().struct, list[pl.DataFrame]()
    is_taken = (last_message.field("role") == "assistant") & (last_message.field("content").str.strip_chars() != "")
    if selection.category is not None:
        is_taken &= (
            pl.col("categories").struct.field(known_category(release, "chat", selection.category)).fill_null(False)
        )
    if not selection.test_sets:
        is_taken &= ~_OF_TEST_SET
    if not selection.all_answers:
        refused = pl.col("categories").struct.field("refusal").fill_null(False)
        is_taken &= ~refused & ~_talk("model", "conversation").is_in(_voted_bad(release).implode())
    # a conversation takes the bytes of all its messages, as a shard counts them
    text_bytes = pl.col("conversation").list.eval(_WORDS.str.len_bytes()).list.sum()
    row_bytes = (PLAIN_ROW_BYTES + text_bytes).alias("bytes")
    first = 0
    for shard in shard_files(release, "chat"):
        for group in read_parquet_groups(shard, [*_COLUMNS, "language", "conversation", "categories"]):
            # a row is one conversation of the row group; its number counts on over all groups and shards
            fit_rows = group.with_row_index("row", first).filter(is_taken)
            fit_groups.append(compact(fit_rows.select(*_COLUMNS, "language", "row", row_bytes)))
            first += group.height
    if not fit_groups:
        raise BadInput(f"{str(release)!r} has no conversation: its chat has no rows, so there is nothing to train on")
    chat = pl.concat(fit_groups)
    if selection.language is None:
        return chat.drop("language")
    names, languages = {selection.language, english_name(selection.language)}, sorted(set(chat["language"]))
    if names.isdisjoint(languages):
        raise BadInput(f"--language {known_values(selection.language, languages)}")
    return chat.filter(pl.col("language").is_in(names)).drop("language")


def known_category(release: Path, config: str, name: str) -> str:
    """The name, if rows of this configuration have such a category; those of an earlier layout lack the later ones.

    Raises BadInput.
    """
    shards = shard_files(release, config)
    fields = read_parquet_schema(shards[0]).field("categories").type if shards else ()
    names = [field.name for field in fields] or [*ReleasedCategories.model_fields]
    if name not in names:
        raise BadInput(f"--category {known_values(name, names)}")
    return name


def _talk(model: str, messages: str) -> pl.Expr:
    """A number for a model and all that was said: a battle names only the conversation of its left side."""
    return pl.concat_str(model, pl.col(messages).list.eval(_WORDS).list.join("\0"), separator="\0").hash()


def _voted_bad(release: Path) -> pl.Series:
    """Both sides of every battle whose vote says that both answers are bad, as `_talk`."""
    columns = ["winner", "model_a", "model_b", "conversation_a", "conversation_b"]
    # a row is one side of a battle that was voted bad on both
    bad = [
        group.filter(winner=PUBLISHED_WINNERS[Winner.BOTH_BAD]).select(
            _talk(f"model_{side}", f"conversation_{side}").alias("talk")
        )
        for shard in shard_files(release, "battle")
        for group in read_parquet_groups(shard, columns)
        for side in "ab"
    ]
    return pl.concat([pl.DataFrame(schema={"talk": pl.UInt64}), *bad])["talk"]


def select(release: Path, selection: SftSelection) -> pl.DataFrame:
    """Conversations to export, in order: those that end with an answer, as the selection says.

    Returns `place` (0, 1, …), `row`, `bytes` and `model` of each; see `_fit`.
    """
    fit = _fit(release, selection)
    rows = fit.filter(pl.col("model").is_in(top_models(release, fit["model"].unique(), selection.models)))
    drawn = [  # at random, but a conversation's place depends only on the seed and the conversation
        blake2b(f"{selection.seed} {conversation_id}".encode(), digest_size=16).digest()
        for conversation_id in rows["conversation_id"]
    ]
    # a row is one conversation of the chosen models, in the drawn order
    of_draw = rows.drop("conversation_id").with_columns(drawn=pl.Series(drawn, dtype=pl.Binary))
    shuffled_rows = of_draw.sort("drawn", maintain_order=True)
    chosen_places: list[int] = []
    of_model: Counter[str] = Counter()
    of_topic: Counter[str | None] = Counter()
    for place, (model, topic) in enumerate(shuffled_rows.select("model", "topic").iter_rows()):
        if len(chosen_places) == selection.conversations:
            break
        counts_and_limits = ((of_model[model], selection.per_model), (of_topic[topic], selection.per_topic))
        if any(most is not None and count >= most for count, most in counts_and_limits):
            continue
        chosen_places.append(place)
        of_model[model] += 1
        of_topic[topic] += 1
    chosen_rows = shuffled_rows.select("row", "bytes", "model")[pl.Series(chosen_places, dtype=pl.UInt32)]
    return compact(chosen_rows).with_row_index("place")


_SCHEMAS = yaml.safe_load(Path(__file__).with_name("sft.yaml").read_text(encoding="utf-8"))
STYLE_FEATURES = {style: Features.from_dict(_SCHEMAS[style]) for style in SftStyle}
"""Style -> the columns of its Parquet file."""
_TEXT_FEATURES = Features.from_dict(_SCHEMAS["messages without images"])
IMAGES_FOLDER = "images"
DATASET_INFO = "dataset_info.json"


def dataset_info(form: FileFormat) -> dict[str, Any]:
    """LLaMA-Factory's description of a folder: its data set `train`."""
    columns = {"messages": "conversations", "images": "images"}
    return {"train": {"file_name": f"train.{form}", "formatting": "sharegpt", "columns": columns}}


def export_sft(release: Path, out: Path, selection: SftSelection, style: SftStyle, form: FileFormat) -> dict[str, int]:
    """Write `out`/train.jsonl, .json or .parquet, `out`/images and a card.

    Returns counts of examples, images, and conversations of published test sets that were left out.

    The folder is renamed into place when complete. Raises BadInput when it exists, or nothing is selected.
    """
    manifest = read_manifest(release)
    check_shards(release, manifest)
    if out.exists():
        raise BadInput(f"{str(out)!r} exists already; give a folder that does not")
    chosen = select(release, selection)
    if chosen.is_empty():
        hint = "; published test sets are left out (--set test_sets=yes takes them)" if _of_test_sets(release) else ""
        raise BadInput(f"{str(release)!r}: no conversation of its best models ends with an answer{hint}")
    staging = out.with_name(f".{out.name}.unfinished")
    shutil.rmtree(staging, ignore_errors=True)
    (staging / IMAGES_FOLDER).mkdir(parents=True)
    _write_images(release, chosen, staging)
    images = sum(1 for _ in (staging / IMAGES_FOLDER).iterdir())
    # TRL takes rows with a column of images for a model of images alone, and datasets reads one kind of content a file.
    is_of_texts = style is SftStyle.MESSAGES and not images
    features = _TEXT_FEATURES if is_of_texts else STYLE_FEATURES[style]

    with progress("examples", chosen.height) as advance:

        def example(row: Mapping[str, Any]) -> TrainingExample:
            advance()
            example_of_row = STYLE_EXAMPLES[style](row, image_paths(row["images"]))
            return _without_images(example_of_row) if is_of_texts else example_of_row

        _write(_slices(release, chosen), example, features, staging / f"train.{form}")
    if style is SftStyle.SHAREGPT:
        (staging / DATASET_INFO).write_text(json.dumps(dataset_info(form), indent=2) + "\n", encoding="utf-8")
    models = Counter(chosen["model"])
    write_sft_card(release, staging, manifest.version, selection, style, form, models, images, is_of_texts)
    staging.rename(out)
    left_out = 0 if selection.test_sets else _of_test_sets(release)
    return {"examples": chosen.height, "images": images, "of_test_sets": left_out}


def _of_test_sets(release: Path) -> int:
    """Conversations of the release that come from published test sets."""
    groups = (group for shard in shard_files(release, "chat") for group in read_parquet_groups(shard, _COLUMNS[:1]))
    return sum(group.filter(_OF_TEST_SET).height for group in groups)


def groups_with_images(release: Path, config: str, columns: Sequence[str], with_bytes: bool) -> Iterator[pl.DataFrame]:
    """Row groups of a configuration, in order: these columns and `images`, without bytes with the paths alone."""
    for shard in shard_files(release, config):
        schema = pq.ParquetFile(shard).schema
        leaves = [schema.column(number).path for number in range(len(schema.names))]
        paths = [leaf for leaf in leaves if leaf.startswith("images.") and leaf.endswith(".path")]
        yield from read_parquet_groups(shard, [*columns, *(["images"] if with_bytes else paths)])


def _rows(release: Path, chosen: pl.DataFrame, columns: Sequence[str], with_bytes: bool) -> Iterator[pl.DataFrame]:
    """Columns, `images` and `place` of chosen conversations, a row group of the release at a time."""
    first = 0
    # a row is one conversation; chosen ones are found in their group by their numbers, and take their places along
    for group in groups_with_images(release, "chat", columns, with_bytes):
        in_group = chosen.filter(pl.col("row").is_between(first, first + group.height, closed="left"))
        yield group[in_group["row"] - first].with_columns(in_group["place"])
        first += group.height


def _slices(release: Path, chosen: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Chosen conversations in order, with the paths of their images; each slice takes about `ORDERED_BYTES`."""
    columns = ["conversation_id", "model", "language", "topic", "conversation"]
    # a row is a chosen conversation with its slice: the bytes of all conversations up to it, in units of a slice
    sliced = chosen.with_columns(slice=pl.col("bytes").cast(pl.UInt64).cum_sum() // ORDERED_BYTES)
    for chosen_of_slice in sliced.partition_by("slice", maintain_order=True):
        groups = _rows(release, chosen_of_slice, columns, with_bytes=False)
        # copies of the few rows that are chosen, so that the groups they were read in can go
        yield pl.concat(map(compact, groups)).sort("place")


def _write_images(release: Path, chosen: pl.DataFrame, folder: Path) -> None:
    with progress("conversations' images", chosen.height) as advance:
        for rows in _rows(release, chosen, ["conversation_id"], with_bytes=True):
            for row in rows.iter_rows(named=True):
                keep_images(row["images"], folder)
                advance()


def image_paths(images: Sequence[Mapping[str, Any]]) -> list[str]:
    """The paths of images relative to the export."""
    return [f"{IMAGES_FOLDER}/{image['path']}" for image in images]


def keep_images(images: list[dict[str, Any]], folder: Path) -> list[str]:
    """Write images that are not written yet; returns their paths relative to the export."""
    for image in images:
        if not IMAGE_NAME.fullmatch(image["path"]):  # names come from the release and become paths here
            raise BadInput(f"an image is named {image['path']!r}; `curate verify` says what is wrong with the release")
        target = folder / IMAGES_FOLDER / image["path"]
        if not target.exists():
            target.write_bytes(image["bytes"])
    return image_paths(images)


def _without_images(example: TrainingExample) -> TrainingExample:
    other_columns = {name: value for name, value in example.items() if name != "images"}
    return other_columns | {"messages": as_text(example["messages"])}


def _write(
    slices: Iterable[pl.DataFrame],
    example: Callable[[Mapping[str, Any]], TrainingExample],
    features: Features,
    target: Path,
) -> None:
    """Write the example of each row; a slice is a row group of a Parquet file."""
    if target.suffix == ".parquet":
        schema = feature_schema(features)
        with table_writer(target, schema) as file:
            for rows in slices:
                tables = [
                    pa.Table.from_pylist([example(row) for row in part.iter_rows(named=True)], schema)
                    for part in rows.iter_slices(ROWS_AT_ONCE)
                ]
                del rows  # before the next slice is read
                file.write_table(pa.concat_tables(tables).combine_chunks())
                del tables
        return
    opening, between, closing = ("[\n", ",\n", "\n]\n") if target.suffix == ".json" else ("", "\n", "\n")
    with target.open("w", encoding="utf-8") as stream:
        for number, line in enumerate(_lines(slices, example)):
            stream.write((between if number else opening) + line)
        stream.write(closing)


def _lines(slices: Iterable[pl.DataFrame], example: Callable[[Mapping[str, Any]], TrainingExample]) -> Iterator[str]:
    """The example of each row as JSON."""
    for rows in slices:
        for row in rows.iter_rows(named=True):
            yield json.dumps(as_trainers_read(example(row)), ensure_ascii=False)
        del rows  # before the next slice is read
