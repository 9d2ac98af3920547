"""Exports votes of a release as preferences for training: which votes train, which are held out, and what judges reach.

In: a release and a `PreferenceSelection`. Out: `train` and `test` files in the style of a trainer, images, a card, and
`counts.json`, in which every vote of the release is counted once. The release is read twice, a row group at a time: for
what is known of each vote, about 100 bytes, and for its texts and images. A further reason to leave a vote out is a
value of `LeftOut` and a line of `_reason`.
"""

import json
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from schemas.errors import BadInput
from schemas.items.test_sets import TEST_SET_MARK
from schemas.publication import PreferenceSelection, PreferenceStyle
from tasks.export.card import write_preferences_card
from tasks.export.preference_styles import STYLES, Preference, WrittenStyle, preference_dataset_info, texts_for_parts
from tasks.export.sft import (
    DATASET_INFO,
    IMAGES_FOLDER,
    TrainingExample,
    groups_with_images,
    keep_images,
    known_category,
)
from tasks.leaderboard.style_control import measured_covariates, style_differences, styleable
from tasks.providers.embedded.refusals import DecliningWords
from tasks.release.checks.footers import check_shards
from tasks.release.fetched import read_manifest
from tasks.release.gather import PUBLISHED_WINNERS
from tasks.runtime.progress import progress
from tasks.runtime.thinking import split_thinking
from tasks.storage.parquet import read_parquet_groups

TRAIN, TEST = "train", "test"
COUNTS = "counts.json"
EXAMPLES_A_GROUP = 512
"""Examples that are written as one row group."""
POINTS_A_LOG_ODD = 400 / math.log(10)
"""Points of a rating for a difference of one in log-odds."""
_STYLE = ("tokens", "headers", "list_items", "bold")
_COVARIATES = (*_STYLE, "entities")
_COLUMN_OF = {name: "assistant_tokens" if name == "tokens" else name for name in _COVARIATES}
"""Covariate -> its column in `conv_metadata`."""
_Row = Mapping[str, Any]


class LeftOut(StrEnum):
    """Reason for which a vote is no preference; the first that holds counts."""

    TEST_SET = "of published test sets"
    TIE = "ties"
    BOTH_BAD = "both answers bad"
    BENCHMARK = "prompts of the benchmark"
    NO_ANSWER = "without an answer to choose or to reject"
    HISTORIES = "histories of the two sides differ"
    IMAGE_IN_ANSWER = "images in an answer"
    EQUAL = "equal answers"
    REFUSAL = "an answer refuses"
    OTHER_CATEGORY = "prompts that are not of the category"
    WITH_IMAGES = "with images, of which only texts are exported"
    OTHER_SPLIT = "prompts of the other split"


class Baselines(NamedTuple):
    """Accuracy of judges that read nothing, on the held-out pairs; null without such pairs."""

    pairs: int
    longer: float | None
    """The longer answer is chosen; of equal lengths it is half."""
    style_pairs: int
    """Held-out pairs whose style is known."""
    style: float | None
    """A logistic regression on differences of length, Markdown and named entities, fitted on the training pairs."""


class ExportedPreferences(NamedTuple):
    """Rows, images, counts and accuracies of an export."""

    rows: Mapping[str, int]
    """Split -> rows."""
    images: int
    left_out: Mapping[str, int]
    """Reason -> votes, most first."""
    baselines: Baselines


def export_preferences(
    release: Path, out: Path, selection: PreferenceSelection, style: PreferenceStyle
) -> ExportedPreferences:
    """Write the export. The folder is renamed into place when complete.

    Raises BadInput when it exists, or no vote of the release is a preference.
    """
    manifest = read_manifest(release)
    check_shards(release, manifest)
    if out.exists():
        raise BadInput(f"{str(out)!r} exists already; give a folder that does not")
    written_style, votes = STYLES[style], _with_splits(_votes(release, STYLES[style], selection), selection)
    taken_votes = votes.filter(pl.col("split") != "")
    if taken_votes.is_empty():
        raise BadInput(f"{str(release)!r}: none of its {votes.height:,} votes is a preference ({_in_words(votes)})")
    staging = out.with_name(f".{out.name}.unfinished")
    shutil.rmtree(staging, ignore_errors=True)
    (staging / IMAGES_FOLDER).mkdir(parents=True)
    has_images = bool(taken_votes["has_images"].any())
    rows = _write(release, staging, written_style, votes["split"], has_images)
    if style is PreferenceStyle.LLAMA_FACTORY:
        info = preference_dataset_info([*rows], has_images)
        (staging / DATASET_INFO).write_text(json.dumps(info, indent=2) + "\n", encoding="utf-8")
    exported = ExportedPreferences(
        rows,
        sum(1 for _ in (staging / IMAGES_FOLDER).iterdir()),
        left_out_counts(votes),
        _baselines(taken_votes, selection.seed),
    )
    counts = {
        "votes": votes.height,
        "preferences": taken_votes.height,
        **exported._asdict(),
        "baselines": exported.baselines._asdict(),
    }
    (staging / COUNTS).write_text(json.dumps(counts, indent=2) + "\n", encoding="utf-8")
    write_preferences_card(release, staging, manifest.version, selection, style, exported, has_images)
    staging.rename(out)
    return exported


def left_out_counts(votes: pl.DataFrame) -> dict[str, int]:
    """Reason -> votes that are left out for it, most first."""
    counts = votes.filter(pl.col("reason") != "").group_by("reason").len("votes")
    return dict(counts.sort("votes", "reason", descending=[True, False]).iter_rows())


def _in_words(votes: pl.DataFrame) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in left_out_counts(votes).items()) or "it has none"


_VOTES = pl.Schema(
    {
        "place": pl.UInt32,
        "reason": pl.String,
        "voter": pl.UInt64,
        "prompt": pl.UInt64,
        "winner": pl.Int8,
        "has_images": pl.Boolean,
        **{f"{name}_{side}": pl.Int32 for name in _COVARIATES for side in "ab"},
    }
)
"""Facts of a vote. `place`: its number in the release; `voter` and `prompt`: hashes, of a vote without a voter
that of its prompt; `winner`: 1 left, -1 right, 0 neither."""


def _votes(release: Path, written: WrittenStyle, selection: PreferenceSelection) -> pl.DataFrame:
    """All votes of a release, with the reason for which each is left out, "" for none."""
    frames, place = [pl.DataFrame(schema=_VOTES)], 0
    takes_images = written.takes_images and not selection.text_only
    if selection.category is not None:
        known_category(release, "battle", selection.category)
    for rows in _groups(release, with_bytes=False):
        # A row is one vote of the release, by its place, also one that is left out.
        facts_of_votes = [
            _vote_facts(row, place + number, written.takes_both_bad, takes_images, selection)
            for number, row in enumerate(rows.iter_rows(named=True))
        ]
        frames.append(pl.DataFrame(facts_of_votes, schema=_VOTES))
        place += rows.height
    return pl.concat(frames)


def _groups(release: Path, with_bytes: bool) -> Iterator[pl.DataFrame]:
    """Row groups of the release's votes, in order."""
    columns = [
        "question_id", "model_a", "model_b", "winner", "judge", "conversation_a", "conversation_b", "language", "anony",
        "conv_metadata", "categories", "taxonomy", "in_bench",
    ]  # fmt: skip
    return groups_with_images(release, "battle", columns, with_bytes)


def _vote_facts(
    row: _Row, place: int, takes_both_bad: bool, takes_images: bool, selection: PreferenceSelection
) -> dict[str, Any]:
    prompt = _prompt_hash(row)
    voter = prompt if row["judge"] is None else _hash("voter", row["judge"])
    sides = {f"{name}_{side}": row["conv_metadata"][side][_COLUMN_OF[name]] for name in _COVARIATES for side in "ab"}
    winner = {PUBLISHED_WINNERS["model_a"]: 1, PUBLISHED_WINNERS["model_b"]: -1}.get(row["winner"], 0)
    reason = _reason(row, takes_both_bad, takes_images, selection)
    return {
        "place": place, "reason": reason, "voter": voter, "prompt": prompt, "winner": winner,
        "has_images": bool(row["images"]), **sides,
    }  # fmt: skip


def _hash(*parts: str) -> int:
    framed = "".join(f"{len(part)} {part}" for part in parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(framed, digest_size=8).digest(), "big")


def _prompt_hash(row: _Row) -> int:
    """Hash of the first question with its images, without case and spaces: later turns belong to it."""
    if not row["conversation_a"]:
        return _hash("prompt", "")
    question = row["conversation_a"][0]
    paths = [row["images"][place["image"]]["path"] for place in question["images"]]
    return _hash("prompt", " ".join(question["content"].casefold().split()), *paths)


def _reason(row: _Row, takes_both_bad: bool, takes_images: bool, selection: PreferenceSelection) -> str:
    """The first reason that holds; "" for a vote that trains."""
    if row["question_id"].startswith(TEST_SET_MARK) and not selection.test_sets:
        return LeftOut.TEST_SET
    if row["winner"] == PUBLISHED_WINNERS["tie"]:
        return LeftOut.TIE
    if row["winner"] == PUBLISHED_WINNERS["tie_bothbad"] and not takes_both_bad:
        return LeftOut.BOTH_BAD
    if row["in_bench"]:
        return LeftOut.BENCHMARK
    left_answer, right_answer = (_answered(row[f"conversation_{side}"]) for side in "ab")
    if left_answer is None or right_answer is None:
        return LeftOut.NO_ANSWER
    if left_answer.history != right_answer.history:
        return LeftOut.HISTORIES
    if left_answer.has_image or right_answer.has_image:
        return LeftOut.IMAGE_IN_ANSWER
    if " ".join(left_answer.text.split()) == " ".join(right_answer.text.split()):
        return LeftOut.EQUAL
    if row["categories"]["refusal"] or any(DecliningWords().refuses([left_answer.text, right_answer.text])):
        return LeftOut.REFUSAL
    if selection.category is not None and not row["categories"].get(selection.category):
        return LeftOut.OTHER_CATEGORY
    return "" if takes_images or not row["images"] else LeftOut.WITH_IMAGES


class _Answered(NamedTuple):
    history: list[dict[str, Any]]
    text: str
    has_image: bool


def _answered(messages: Sequence[_Row]) -> _Answered | None:
    """The messages before the last answer, and that answer, all without thinking.

    None unless users and the model take turns, and the last is an answer with words.
    """
    roles = [message["role"] for message in messages]
    if len(roles) % 2 or not roles or roles != ["user", "assistant"] * (len(roles) // 2):
        return None
    history = [
        dict(message) if message["role"] == "user" or message["images"]
        else {**message, "content": split_thinking(message["content"])[1]}
        for message in messages[:-1]
    ]  # fmt: skip
    answer = split_thinking(messages[-1]["content"])[1]
    return _Answered(history, answer, bool(messages[-1]["images"])) if answer.strip() else None


def _with_splits(votes: pl.DataFrame, selection: PreferenceSelection) -> pl.DataFrame:
    """The votes with their `split`, "" for one that is left out: voters are drawn, and a prompt stays on one side.

    Voters are taken in a drawn order while their votes fit into the share that is held out.

    Where both sides have votes on a prompt, those on the side with fewer of them are left out.
    """
    trains = votes.filter(reason="")
    limit, held_out, drawn_voters = selection.held_out * trains.height, 0, list[int]()
    counts = trains.group_by("voter").len("votes").iter_rows()
    for voter, of_voter in sorted(counts, key=lambda row: _hash("split", str(selection.seed), str(row[0]))):
        if held_out + of_voter <= limit:
            drawn_voters.append(voter)
            held_out += of_voter
    is_test = pl.col("voter").is_in(pl.Series(drawn_voters, dtype=pl.UInt64).implode())
    # A row is a vote that trains, with the votes on its prompt on either side.
    sided = trains.with_columns(is_test=is_test).with_columns(
        of_test=pl.col("is_test").sum().over("prompt"), of_all=pl.len().over("prompt")
    )  # fmt: skip
    prompt_in_test = pl.col("of_test") * 2 > pl.col("of_all")
    # A row is a vote that trains, and the file it goes to; "" where its prompt has more votes on the other side.
    splits = sided.select(
        "place", split=pl.when(pl.col("is_test") != prompt_in_test).then(pl.lit(""))
        .when("is_test").then(pl.lit(TEST)).otherwise(pl.lit(TRAIN)),
    )  # fmt: skip
    split_votes = votes.join(splits, on="place", how="left", maintain_order="left")
    on_other = pl.col("split") == ""
    return split_votes.with_columns(
        reason=pl.when(on_other).then(pl.lit(LeftOut.OTHER_SPLIT.value)).otherwise("reason"),
        split=pl.col("split").fill_null(""),
    )


def _baselines(taken: pl.DataFrame, seed: int) -> Baselines:
    """Accuracies on the held-out pairs, of what is fitted on the training pairs alone."""
    pairs = taken.filter(pl.col("winner") != 0)
    test = pairs.filter(split=TEST)
    lengths = test.drop_nulls(["tokens_a", "tokens_b"])
    gap = np.sign((lengths["tokens_a"] - lengths["tokens_b"]).to_numpy()) * lengths["winner"].to_numpy()
    longer = float(np.mean((gap + 1) / 2)) if len(gap) else None
    measured = styleable(pairs)
    is_test = (measured["split"] == TEST).to_numpy()
    wins = (measured["winner"] == 1).to_numpy()
    if not is_test.any() or len({*wins[~is_test]}) < 2:
        return Baselines(test.height, longer, int(is_test.sum()), None)
    from sklearn.linear_model import LogisticRegression  # slow to import

    differences = style_differences(measured, measured_covariates(measured), sides_drawn=False)
    model = LogisticRegression(fit_intercept=False, random_state=seed).fit(differences[~is_test], wins[~is_test])
    return Baselines(test.height, longer, int(is_test.sum()), float(model.score(differences[is_test], wins[is_test])))


def _write(release: Path, folder: Path, written: WrittenStyle, splits: pl.Series, has_images: bool) -> dict[str, int]:
    """Write all votes of a split and their images; `splits` has that of each vote of the release. Returns rows."""
    ratings, place = _ratings(release), 0
    rows = {split: 0 for split in (TRAIN, TEST) if (splits == split).any()}
    with ExitStack() as stack, progress("votes", int((splits != "").sum())) as advance:
        files = {split: stack.enter_context(_SplitFile(folder, split, written, has_images)) for split in rows}
        for group in _groups(release, with_bytes=True):
            sided = group.with_columns(split=splits.slice(place, group.height))
            place += group.height
            for row in sided.filter(pl.col("split") != "").iter_rows(named=True):
                preference = _preference(row, ratings)
                examples = written.rows(preference, keep_images(row["images"], folder))
                if not has_images and written.text_columns is not None:
                    examples = [texts_for_parts(example) for example in examples]
                files[row["split"]].add(examples, preference.about)
                rows[row["split"]] += len(examples)
                advance()
    return rows


def _ratings(release: Path) -> dict[str, float]:
    """Model -> its rating on the overall board."""
    board = release / "leaderboard" / "overall.parquet"
    frames = read_parquet_groups(board, ["slice", "model", "rating"]) if board.is_file() else iter(())
    rated = [rows.filter(slice="overall").drop_nulls("rating").select("model", "rating") for rows in frames]
    return dict(pl.concat(rated).iter_rows()) if rated else {}


def _preference(row: _Row, ratings: Mapping[str, float]) -> Preference:
    """A vote that trains."""
    chosen, rejected = "ba" if row["winner"] == PUBLISHED_WINNERS["model_b"] else "ab"
    answered = {side: _answered(row[f"conversation_{side}"]) for side in "ab"}
    models = {side: row[f"model_{side}"] for side in "ab"}
    points = [ratings.get(models[side]) for side in (chosen, rejected)]
    margin = 0.0 if None in points else (points[0] - points[1]) / POINTS_A_LOG_ODD  # type: ignore[operator]
    style = {side: row["conv_metadata"][side] for side in "ab"}
    about = {
        "id": row["question_id"],
        "model_chosen": models[chosen],
        "model_rejected": models[rejected],
        "margin": margin,
        "style_difference": {
            name: _difference(style[chosen][_COLUMN_OF[name]], style[rejected][_COLUMN_OF[name]]) for name in _STYLE
        },
        "category": row["taxonomy"]["question_category"],
        "tags": sorted(name for name, holds in row["categories"].items() if holds),
        "language": row["language"],
        "anonymous": row["anony"],
    }
    texts = {side: answered[side].text for side in "ab"}  # type: ignore[union-attr]  # `_reason` found both
    history = answered["a"].history  # type: ignore[union-attr]
    both_bad = row["winner"] == PUBLISHED_WINNERS["tie_bothbad"]
    return Preference(history, texts[chosen], texts[rejected], both_bad, about)


def _difference(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first - second


class _SplitFile:
    """The file of a split: Parquet, or JSON Lines with a line of `ABOUT` for each line in a file beside it."""

    def __init__(self, folder: Path, split: str, written: WrittenStyle, has_images: bool) -> None:
        columns = written.columns if has_images else written.text_columns or written.columns
        names = [name for name in columns.names if has_images or name != IMAGES_FOLDER] if columns else []
        self._schema = pa.schema([columns.field(name) for name in names]) if columns else None
        self._place, self._split = folder, split
        self._waiting = list[TrainingExample]()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if self._schema is not None:
            self._parquet = self._stack.enter_context(
                pq.ParquetWriter(self._place / f"{self._split}.parquet", self._schema)
            )
        else:
            names = (f"{self._split}.jsonl", f"{self._split}.about.jsonl")
            self._lines, self._about = (
                self._stack.enter_context((self._place / name).open("w", encoding="utf-8")) for name in names
            )
        return self

    def __exit__(self, *failed: object) -> None:
        self._flush()
        self._stack.close()

    def add(self, examples: list[TrainingExample], about: Mapping[str, Any]) -> None:
        """Write the rows of a vote."""
        if self._schema is None:
            self._lines.writelines(f"{json.dumps(example, ensure_ascii=False)}\n" for example in examples)
            self._about.writelines(f"{json.dumps(about, ensure_ascii=False)}\n" for _ in examples)
            return
        self._waiting += examples
        if len(self._waiting) >= EXAMPLES_A_GROUP:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._parquet.write_table(pa.Table.from_pylist(self._waiting, self._schema))
            self._waiting = []
