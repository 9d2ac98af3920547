"""Sections of a benchmark prompt of a release, from its files alone; of hidden items no captions and no reference."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from schemas.written import Split
from tasks.explore.bench.shown import named_letters, verdict_words
from tasks.explore.source import Part, Section, Text

WRITTEN, GENERATED, JUDGE = "written/items.parquet", "generated/items.parquet", "leaderboard/judge"
FILES = (WRITTEN, GENERATED, f"{JUDGE}/cards.parquet", f"{JUDGE}/answers.parquet", f"{JUDGE}/verdicts.parquet")


class BenchFiles:
    """The files of a release about the items of its benchmark, each read once. Those that it lacks are empty."""

    def __init__(self, read: Mapping[str, pl.DataFrame]) -> None:
        self._rows = read

    def benches(self) -> dict[str, str]:
        """Prompt -> the benchmark it was written or made for."""
        named = (self._rows[name] for name in (WRITTEN, GENERATED) if name in self._rows)
        return {prompt: bench for rows in named for prompt, bench in rows.select("question_id", "bench").iter_rows()}

    def sections(self, prompt: str) -> list[Section]:
        """What the release says about one prompt."""
        return [*self._written(prompt), *self._generated(prompt), *self._answers(prompt), *self._verdicts(prompt)]

    def _of(self, name: str, prompt: str) -> list[dict[str, Any]]:
        rows = self._rows.get(name)
        return [] if rows is None else rows.filter(question_id=prompt).to_dicts()

    def _written(self, prompt: str) -> Iterator[Section]:
        for row in self._of(WRITTEN, prompt):
            facts = {
                "Benchmark": row["bench"], "Family": row["family"], "Split": row["split"],
                "Licences": _each(row["licences"]), "Authors": _each(row["authors"]),
                "Taken from": row["origin"], "Objects": ", ".join(row["objects"]),
            }  # fmt: skip
            told = row["split"] == Split.VALIDATION.value
            captions = enumerate(row["captions"] or [] if told else [], 1)
            texts = [_text(f"Caption of image {n}", f"by {row['captions_by']}", text) for n, text in captions]
            texts += [_text("Reference", f"by {row['reference_by']}", row["reference"])] * bool(
                told and row["reference"]
            )
            yield Section("Written item", facts=[pair for pair in facts.items() if pair[1]], texts=texts)

    def _generated(self, prompt: str) -> Iterator[Section]:
        for row in self._of(GENERATED, prompt):
            facts = [
                ("Benchmark", row["bench"]), ("Capability", row["capability"]), ("Aspect", row["aspect"]),
                ("General aspect", row["general"]), ("Level", row["level"]), ("Asks for", row["kind"]),
                ("Alignment", f"{row['alignment']:.2f}"),
                ("Made by", f"author {row['author']}, pictures {row['pictures']}, viewer {row['viewer']}"),
            ]  # fmt: skip
            texts = [_text("Description", "what the image was to show", row["description"])] * bool(row["description"])
            unseen = ", ".join(dict.fromkeys(row["failed_elements"]))
            texts += [_text("Not seen in the image", "", unseen)] * bool(unseen)
            question = named_letters(row["question"], row["options"])
            yield Section(
                "Item made on demand", facts=facts, texts=[*texts, _text("Question", f"key {row['key']}", question)]
            )

    def _answers(self, prompt: str) -> Iterator[Section]:
        rows = sorted(self._of(f"{JUDGE}/answers.parquet", prompt), key=lambda row: (row["model"], row["answer_id"]))
        if rows:
            yield Section(
                "Answers", texts=[_text(row["model"], row["state"], row["content"]) for row in rows], beside=True
            )

    def _verdicts(self, prompt: str) -> Iterator[Section]:
        cards = self._of(f"{JUDGE}/cards.parquet", prompt)
        if not cards:
            return
        said = self._rows.get(f"{JUDGE}/verdicts.parquet")
        text_of = dict(said.select("verdict_id", "content").iter_rows()) if said is not None else {}
        yield Section(
            "Verdicts",
            texts=[
                _text(
                    verdict_words(card["label"], card["model_a"], card["model_b"]),
                    f"first {card['model_a']}, then {card['model_b']}",
                    text_of.get(card["verdict_id"], ""),
                )
                for card in sorted(cards, key=lambda card: (card["model_a"], card["model_b"], card["verdict_id"]))
            ],
            beside=True,
        )


def read_file(folder: Path, name: str) -> pl.DataFrame | None:
    """One of FILES; None when the release lacks it. Raises what pyarrow raises for a broken one."""
    return pl.DataFrame(pq.ParquetFile(folder / name).read()) if (folder / name).is_file() else None


def _each(texts: list[str]) -> str:
    return ", ".join(filter(None, texts))


def _text(label: str, note: str, text: str) -> Text:
    return Text(label, note, [Part(text)])
