"""Evidence of the planted items of an `expected.jsonl` in a store: their conversations, battles, decisions, images."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import polars as pl

from schemas.errors import BadInput
from tasks.demo.records import PlantedFact
from tasks.storage.tables import Store

LinePlace = tuple[str, int]
"""Log file, line number."""

_CONV_ID = r"^(.+?)(?:-[0-9a-f]{8})?$"
"""A conversation_id is the server's conv_id; later conversations with the same conv_id have eight digits appended."""


def read_facts(expected: Path) -> dict[str, list[PlantedFact]]:
    """Planted facts by kind, in file order. Raises BadInput for a line that is not a JSON object with `kind`."""
    facts_by_kind: dict[str, list[PlantedFact]] = {}
    with expected.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                fact = json.loads(line)
                facts_by_kind.setdefault(fact["kind"], []).append(fact)
            except (ValueError, KeyError, TypeError):
                raise BadInput(f"{str(expected)!r}, line {number}: give a JSON object with `kind`") from None
    return facts_by_kind


class Evidence:
    """Lookups of planted items; each table is read once, and only the rows of planted items are kept in memory."""

    def __init__(self, store: Store, facts: Iterable[PlantedFact], logs: Path) -> None:
        self._store, self._logs = store, logs
        self._facts = list(facts)
        # An id is one conversation or battle that a fact names.
        self._planted = {fact[key] for fact in self._facts for key in ("conversation_id", "battle") if key in fact}

    @cached_property
    def _conversations(self) -> dict[str, list[PlantedFact]]:
        columns = ["conversation_id", "turns", "num_turns", "image_ids", "image_problems", "tstamp"]
        rows_by_conv_id: dict[str, list[PlantedFact]] = {}
        for part in self._store.read_parts("conversations", columns):
            named = part.with_columns(conv_id=pl.col("conversation_id").str.extract(_CONV_ID))
            for row in named.filter(pl.col("conv_id").is_in(self._planted)).sort("tstamp").iter_rows(named=True):
                rows_by_conv_id.setdefault(row["conv_id"], []).append(row)
        return rows_by_conv_id

    def conversations(self, fact: PlantedFact) -> list[PlantedFact]:
        """The conversations with the fact's conv_id, earliest first."""
        return self._conversations.get(fact.get("conversation_id", ""), [])

    @cached_property
    def _decisions(self) -> dict[tuple[str, str], PlantedFact]:
        columns = ["item_kind", "item_id", "keep", "reasons", "tags", "duplicate_of", "preset_dataset"]
        planted = pl.col("item_id").str.extract(_CONV_ID).is_in(self._planted)
        rows = self._store.read("decisions", columns).filter(planted)
        return {(row["item_kind"], row["item_id"]): row for row in rows.iter_rows(named=True)}

    def decision(self, fact: PlantedFact) -> PlantedFact:
        """The decision on the fact's battle or conversation; empty when there is none."""
        kind, key = ("battle", "battle") if "battle" in fact else ("conversation", "conversation_id")
        return self._decisions.get((kind, fact[key]), {})

    def kept(self, fact: PlantedFact) -> bool:
        """Whether the conversation or battle is released."""
        return bool(self.decision(fact).get("keep"))

    def removed(self, fact: PlantedFact, *reasons: str) -> bool:
        """Whether the item has a decision and is not released, or is tagged with one of the reasons."""
        decision = self.decision(fact)
        return bool(decision) and (not decision["keep"] or not set(reasons).isdisjoint(decision["tags"]))

    @cached_property
    def _battles(self) -> dict[str, PlantedFact]:
        rows = self._store.read("battles").filter(pl.col("battle_id").is_in(self._planted))
        return {row["battle_id"]: row for row in rows.iter_rows(named=True)}

    def battle(self, fact: PlantedFact) -> PlantedFact:
        """The fact's vote; empty when there is none."""
        return self._battles.get(fact.get("battle", ""), {})

    def failure(self, fact: PlantedFact) -> PlantedFact:
        """The prompt of the conversation as one that several people saw fail; empty when it is none."""
        failures = self._store.read("failures").filter(conversation_id=fact["conversation_id"])
        return failures.row(0, named=True) if failures.height else {}

    @cached_property
    def rejected_lines(self) -> set[LinePlace]:
        """(file, line number) of every rejected line."""
        return set(self._store.read("rejects", ["source", "line"]).drop_nulls("line").iter_rows())

    @cached_property
    def quarantined(self) -> set[str]:
        """Quarantined conv_ids and image names."""
        return set(self._store.read("quarantine", ["key"])["key"])

    @cached_property
    def opened_images(self) -> set[str]:
        """Logged names of the image files that were opened."""
        return {name.partition(".")[0] for name in self._store.read("image_files", ["name"])["name"]}

    @cached_property
    def _near(self) -> set[frozenset[str]]:
        return {frozenset(pair) for pair in self._store.read("near_images", ["image_a", "image_b"]).iter_rows()}

    def same_image(self, fact: PlantedFact, other: PlantedFact) -> bool:
        """Whether the first images of two conversations are equal or near-duplicates of each other."""
        first, second = self._first_image(fact), self._first_image(other)
        return None not in (first, second) and (first == second or frozenset((first, second)) in self._near)

    def _first_image(self, fact: PlantedFact) -> str | None:
        rows = self.conversations(fact)
        return rows[0]["image_ids"][0] if rows and rows[0]["image_ids"] else None

    def stored_images(self, fact: PlantedFact) -> list[bytes]:
        """The stored image files of a conversation."""
        image_ids = [image_id for row in self.conversations(fact) for image_id in row["image_ids"]]
        contents: list[bytes] = []
        for part in self._store.read_parts("images", ["image_id", "bytes"]) if image_ids else ():
            contents += part.filter(pl.col("image_id").is_in(image_ids))["bytes"].to_list()
        return contents

    def count(self, where: pl.Expr) -> int:
        """Number of conversations of the whole store that meet a condition."""
        columns = ["turns", "image_ids", "image_problems"]
        return sum(part.filter(where).height for part in self._store.read_parts("conversations", columns))

    def ratings(self) -> dict[str, PlantedFact]:
        """Model -> its row of the board without suspects, or without any the overall one; empty before ratings."""
        rows = self._store.read("ratings").filter(pl.col("slice").is_in(["overall", "without_suspects"])).sort("slice")
        return {row["model"]: row for row in rows.iter_rows(named=True)}

    def suspects(self) -> dict[str, str] | None:
        """Voter -> the model that the votes pull; None before models were rated."""
        if self._store.read("ratings").is_empty():
            return None
        return dict(self._store.read("suspects").select("judge", "model").iter_rows())

    def places(self, fact: PlantedFact) -> Sequence[LinePlace]:
        """(file, line number) of a planted line, from its number or the hash of its bytes."""
        if "line" in fact:
            return [(fact["file"], fact["line"])]
        return self._places_by_hash.get((fact["file"], fact["sha256"]), [])

    @cached_property
    def _places_by_hash(self) -> dict[tuple[str, str], list[LinePlace]]:
        planted_keys = {(fact["file"], fact["sha256"]) for fact in self._facts if fact["kind"] == "bad_line"}
        places: dict[tuple[str, str], list[LinePlace]] = {}
        for name in sorted({file for file, _ in planted_keys if (self._logs / file).is_file()}):
            with (self._logs / name).open("rb") as lines:
                for number, line in enumerate(lines, 1):
                    key = (name, hashlib.sha256(line.rstrip(b"\r\n")).hexdigest())
                    if key in planted_keys:
                        places.setdefault(key, []).append((name, number))
        return places
