"""The prompts of a benchmark with their images: the public or the hidden split of a store, or those of a release."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import polars as pl
import pyarrow.parquet as pq

from schemas.errors import BadInput
from tasks.bench.draw import HIDDEN_PREFIX, draw_name, drawn_prompts
from tasks.product import KeyedItems
from tasks.storage.content_id import ID_DIGITS, combined_id, text_id
from tasks.storage.queries.bench import FAILURES
from tasks.storage.queries.released import kept_conversations
from tasks.storage.queries.signals import StoredImages, Versions, signal_values
from tasks.storage.tables import Store

Images = tuple[tuple[str, bytes], ...]
"""(png or jpeg, encoded image without metadata), in the order of the prompt."""
MESSAGE_SEPARATOR = "\n\n"
"""Separator of the user's messages."""


_DRAWN_FAILURES = """
    -- a row is one failure of the released set on which nobody asks a prompt of the hidden split
    SELECT conversation_id, document_id FROM failures ANTI JOIN hidden_documents USING (document_id) WHERE drawn
"""


@dataclass(frozen=True)
class BenchQuestion:
    """One prompt of a benchmark."""

    question_id: str
    """Id of the conversation it comes from, as in a release."""
    prompt: str
    """The user's messages, joined by blank lines."""
    image_ids: tuple[str, ...]
    """Names of its images, in order."""
    places: tuple[int, ...] = ()
    """Characters of the prompt before each image; empty where all stand before it, or a place is unknown."""

    @property
    def document_id(self) -> str:
        """Content id of prompt and images, the same in a store and in a release."""
        return combined_id("document", [text_id(self.prompt), *(name[:ID_DIGITS] for name in self.image_ids)])


@dataclass(frozen=True)
class Bench:
    """One draw of a benchmark."""

    draw: str
    """Version of a release, or a hash of the store's draw."""
    questions: Sequence[BenchQuestion]
    """Sorted by question_id."""
    images: Callable[[BenchQuestion], Images]
    """Reads the images of a question. Thread-safe."""


def bench_of_store(store: Store, *, hidden: bool) -> Bench:
    """The public split, or the hidden one. Raises BadInput when there is none, or when it cannot be sent whole."""
    drawn = drawn_prompts(store, hidden)
    if drawn.is_empty():
        raise BadInput(f"store {store.root!r} has no {'hidden' if hidden else 'public'} benchmark; run `curate sample`")
    return _bench(store, draw_name(drawn, hidden), drawn)


def bench_of_items(store: Store, name: str, items: KeyedItems) -> Bench:
    """The kept items of a benchmark made on demand."""
    rows = items.conversations.rename({"conversation_id": "question_id"})
    return _bench(store, f"{name}-{draw_name(rows, hidden=False)}", rows)


def bench_of_failures(store: Store) -> Bench:
    """The drawn prompts that people saw models fail, but for those of the hidden split. Raises BadInput without any."""
    drawn = store.ask(_DRAWN_FAILURES)
    rows = kept_conversations(store).join(drawn, on=["conversation_id", "document_id"], how="semi")
    if rows.is_empty():
        raise BadInput(
            f"--bench {FAILURES!r}: store {store.root!r} has no prompt that two people voted both bad; "
            "`curate sample` finds them, and `--set bench.failure_judges_min=1` takes one person's word"
        )
    rows = rows.rename({"conversation_id": "question_id"})
    return _bench(store, f"{FAILURES}-{draw_name(rows, hidden=False)}", rows)


def _bench(store: Store, draw: str, rows: pl.DataFrame) -> Bench:
    """The benchmark of some conversations."""
    questions = [_question(*row) for row in rows.select(_COLUMNS).sort("question_id").iter_rows()]
    return bench_of_questions(store, draw, questions)


def bench_of_questions(store: Store, draw: str, questions: Sequence[BenchQuestion]) -> Bench:
    """A benchmark of questions whose images are in the store. Raises BadInput when one is lost."""
    stored = StoredImages(store, "images", "redacted_images")
    for question in questions:
        if lost := next((image_id for image_id in question.image_ids if image_id not in stored.part_of), None):
            raise BadInput(
                f"question {question.question_id!r}: its image {lost!r} is lost; without it the answers would be "
                "guesses. Put the store's copy back, or draw the benchmark again with `curate sample`"
            )

    def images(question: BenchQuestion) -> Images:
        return tuple((image.format, image.bytes) for image in map(stored.__getitem__, question.image_ids))

    return Bench(draw, questions, images)


def prompts_of_draw(store: Store, draw: str) -> list[str]:
    """The question ids of a draw, sorted; empty when it is not the store's present one, or of a release."""
    hidden = draw.startswith(HIDDEN_PREFIX)
    try:
        drawn = drawn_prompts(store, hidden)
    except BadInput:  # some of its prompts are not kept any more
        return []
    return sorted(drawn["question_id"]) if draw_name(drawn, hidden) == draw else []


_COLUMNS = ("question_id", "turns", "image_ids")


def _question(question_id: str, turns: list[dict[str, Any]], image_ids: list[str]) -> BenchQuestion:
    prompt = MESSAGE_SEPARATOR.join(turn["content"] for turn in turns if turn["role"] == "user")
    return BenchQuestion(question_id, prompt, tuple(image_ids), image_places(turns, len(image_ids)))


def texts_of_images(store: Store, versions: Versions) -> Callable[[Sequence[str]], str]:
    """A function that gives the text read in some images, in order; empty where none was read."""
    read = dict(signal_values(store, "image_text", versions["image_text"], ["text"]).iter_rows())
    return lambda image_ids: "\n".join(read.get(image_id) or "" for image_id in image_ids).strip()


def bench_of_release(folder: Path) -> Bench:
    """The benchmark of a release. Raises BadInput when it has none, or an image of it has no bytes."""
    files = sorted((folder / "bench" / "data").glob("train-*.parquet"))
    try:
        draw = str(json.loads((folder / "manifest.json").read_bytes())["version"])
    except (OSError, ValueError, KeyError):
        files = []
    if not files:
        raise BadInput(
            f"--bench-release {str(folder)!r} is not a release with a benchmark: it has no manifest, or no bench"
        )
    questions, place = [], dict[str, tuple[Path, int]]()
    for file in files:
        for number in range(pq.ParquetFile(file).num_row_groups):
            for row in _group(file, number, ("question_id", "turns", "images")):
                for image in row["images"]:
                    if not image["bytes"]:
                        raise BadInput(
                            f"question {row['question_id']!r}: the release has no bytes of its image {image['path']!r}"
                        )
                names = [image["path"] for image in row["images"]]
                questions.append(_question(row["question_id"], row["turns"], names))
                place[row["question_id"]] = (file, number)
    if not questions:
        raise BadInput(f"--bench-release {str(folder)!r} has an empty benchmark; give a release with prompts in it")
    return Bench(draw, sorted(questions, key=lambda question: question.question_id), _of_release(place))


def _group(file: Path, number: int, columns: Sequence[str]) -> list[dict[str, Any]]:
    return cast(list[dict[str, Any]], pq.ParquetFile(file).read_row_group(number, columns=list(columns)).to_pylist())


def _of_release(place: dict[str, tuple[Path, int]]) -> Callable[[BenchQuestion], Images]:
    lock = threading.Lock()

    @lru_cache(3)
    def images(file: Path, number: int) -> dict[str, Images]:
        rows = _group(file, number, ("question_id", "images"))
        return {
            row["question_id"]: tuple(
                ("png" if i["path"].endswith(".png") else "jpeg", i["bytes"]) for i in row["images"]
            )
            for row in rows
        }

    def of(question: BenchQuestion) -> Images:
        with lock:
            return images(*place[question.question_id])[question.question_id]

    return of


def image_places(turns: Sequence[Mapping[str, Any]], images: int, numbered: bool = False) -> tuple[int, ...]:
    """Characters of the joined user messages before each image, by the image's index in the conversation.

    Empty where all images stand before the first word, or where the place of one is unknown. `numbered`: several
    messages begin with their number, as in `(2) `. An image that is shown again counts where it is shown first.
    """
    user_turns, start = [turn for turn in turns if turn["role"] == "user"], 0
    place_of_image: dict[int, int] = {}
    for number, turn in enumerate(user_turns, 1):
        start += len(f"({number}) ") if numbered and len(user_turns) > 1 else 0
        for image in turn.get("images") or ():
            place_of_image.setdefault(image["image"], start + image["character"])
        start += len(turn["content"]) + len(MESSAGE_SEPARATOR)
    places = [place_of_image[index] for index in range(images) if index in place_of_image]
    return tuple(places) if len(places) == images and any(places) else ()
