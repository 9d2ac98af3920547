"""Finds the rows of any dataset that contain a benchmark question."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from schemas.benches.bench import Overlap, OverlapCount
from schemas.errors import BadInput
from tasks.bench.contamination.alike import documents_of
from tasks.bench.contamination.guard import public_prompts
from tasks.bench.contamination.outside import OutsideRow, read_outside
from tasks.bench.contamination.prompt_index import DISTINCTIVE_WORDS, PromptIndex, words_of_each
from tasks.storage.parquet import read_parquet_groups
from tasks.storage.tables import Store

CAPTIONS = "captions"
_ORDER = ("exact", "normalised", "near")


def questions_of_store(store: Store, items: pl.Series, hidden_texts: pl.DataFrame) -> pl.DataFrame:
    """question_id, split, prompt and image of every benchmark question of a store.

    `items`: conversations that are items of written or generated benchmarks. `hidden_texts`: item_id and text of the
    captions and references that are in no release; their split is captions, that of others is public or hidden.
    """
    bench = pl.DataFrame({"conversation_id": public_prompts(store, items)}).with_columns(split=pl.lit("public"))
    hidden = store.read("hidden").filter("drawn").select("document_id", split=pl.lit("hidden"))
    conversations = store.read("conversations")
    asked = [conversations.join(bench, on="conversation_id"), conversations.join(hidden, on="document_id")]
    rows = pl.concat([frame.select(*conversations.columns, "split") for frame in asked])
    first = rows.sort("tstamp", "conversation_id").unique("document_id", keep="first", maintain_order=True)
    splits = first.select("document_id", "split", question_id="conversation_id")
    questions = documents_of(first).join(splits, on="document_id", maintain_order="left")
    secret = hidden_texts.select(question_id="item_id", split=pl.lit(CAPTIONS), prompt="text", image=pl.lit(""))
    return pl.concat([questions.select(secret.columns), secret])


def questions_of_release(folder: Path) -> pl.DataFrame:
    """The same columns from a release, which has no hidden split. Raises BadInput when it has no benchmark."""
    files = sorted((folder / "bench" / "data").glob("train-*.parquet"))
    if not files:
        raise BadInput(f"{str(folder)!r} is not a release with a benchmark: it has no bench/data/train-*.parquet")
    content = pl.element().struct.field("content")
    return pl.concat(
        group.select(
            "question_id",
            split=pl.lit("public"),
            prompt=pl.col("turns").list.eval(content).list.join("\n\n"),
            image=pl.col("images").list.first().struct.field("path").str.split(".").list.first().fill_null(""),
        )
        for file in files
        for group in read_parquet_groups(file, ["question_id", "turns", "images"])
    )


class Checker:
    """Finds and counts the questions of `bench` (question_id, split, prompt, image) in a dataset."""

    def __init__(self, bench: pl.DataFrame, overlap_min: float) -> None:
        self._bench = bench.with_columns(words=words_of_each(bench["prompt"]).list.len()).to_dicts()
        self._index = PromptIndex(bench["prompt"], overlap_min)
        self._rows = 0
        self._matches = dict.fromkeys(_ORDER, 0)
        self._short = 0
        self._questions: set[str] = set()

    def overlaps(self, path: Path, column: str | None = None) -> Iterator[Overlap]:
        """Yield every match in row order. Memory does not grow with the dataset. Raises BadInput."""
        for rows in read_outside(path, column):
            yield from self._batch(rows)

    def _batch(self, rows: list[OutsideRow]) -> Iterator[Overlap]:
        """The best match of each row and question, in their order."""
        self._rows += len(rows)
        owner = pl.Series([place for place, row in enumerate(rows) for _ in row.texts], dtype=pl.UInt32)
        found = self._index.find(pl.Series([text for row in rows for text in row.texts], dtype=pl.String))
        found = found.with_columns(row=owner.gather(found["row"]), match=pl.col("match").cast(pl.Enum(_ORDER)))
        best = found.sort("row", "prompt", "match", -pl.col("overlap")).unique(
            ["row", "prompt"], keep="first", maintain_order=True
        )
        for place, number, match, overlap in best.iter_rows():
            row, question = rows[place], self._bench[number]
            same = question["image"] != "" and question["image"] in row.images
            contaminated = same or question["words"] >= DISTINCTIVE_WORDS
            if contaminated:
                self._matches[match] += 1
                self._questions.add(question["question_id"])
            else:
                self._short += 1
            yield Overlap(
                row=row.number,
                question_id=question["question_id"],
                split=question["split"],
                match=match,
                overlap=round(overlap, 4),
                same_image=same,
                contaminated=contaminated,
            )

    @property
    def counted(self) -> OverlapCount:
        """Counts of the matches found so far."""
        return OverlapCount(
            rows=self._rows,
            questions=len(self._bench),
            questions_found=len(self._questions),
            matches=dict(self._matches),
            short=self._short,
        )
