"""Every format is read from every kind of file that `--format list` names for it, and gives the same."""

import copy
import functools
import json
import operator
import random
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tasks.ingest.formats import BUILT_IN, format_rows
from tasks.ingest.log_line import Place
from tasks.ingest.read_logs import LogContent
from tasks.storage.keyed_ids import Pseudonyms
from tasks.storage.tables import Store
from tests import comparia, openwebui
from tests.tasks.ingest.foreign import put_rows
from tests.tasks.ingest.logs import ingested, rejected, texts
from tests.tasks.ingest.test_formats import PICTURED, ROWS
from tests.tasks.ingest.test_front_ends import WRITERS, drawn_tree
from tests.tasks.ingest.test_requests import FORMS
from tests.tasks.ingest.test_text_arenas import SETS

Row = dict[str, Any]


def rows_of_formats() -> dict[str, list[Row]]:
    """Name of a set -> its rows. Sets of one format have its name before a space."""
    # Of different seeds, because the older sets of one seed are about the same talks.
    older, other_votes, other_reactions = (comparia.older_sets(seed, pairs=6) for seed in range(3))
    feedback = openwebui.feedbacks()
    completions = [row(number) for number, (row, _) in enumerate(FORMS.values())]
    for row in feedback:
        row["meta"].pop("base_models")  # Parquet has no objects without fields
    for row in completions:
        row.pop("metadata", None)
    return {
        **{name: [row] for name, row in ROWS.items() if name not in PICTURED},
        **{name: [row(number) for number in range(4)] for name, (row, _, _) in SETS.items()},
        **{name: [write(drawn_tree(seed), f"{name}-{seed}") for seed in range(4)] for name, write in WRITERS.items()},
        "comparia": comparia.new_set(comparisons=3),
        "comparia-conversations": older.conversations,
        "comparia-votes": other_votes.votes,
        "comparia-reactions": other_reactions.reactions,
        "openwebui-feedback": feedback,
        **{f"openai-messages {number}": [row] for number, row in enumerate(completions)},
    }


def as_json(rows: list[Row]) -> list[Row]:
    """The rows with times as texts."""
    written: list[Row] = json.loads(json.dumps(rows, default=datetime.isoformat))
    return written


def as_csv(rows: list[Row]) -> list[Row]:
    """The rows with lists and objects as JSON."""
    return [{name: _cell(value) for name, value in row.items()} for row in as_json(rows)]


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | Mapping) else value


SPELLED: dict[str, Callable[[list[Row]], list[Row]]] = {
    "jsonl": as_json, "array": as_json, "parquet": list, "arrow": list, "csv": as_csv,
}  # fmt: skip
"""Kind of file -> rows as it can hold them."""


@pytest.fixture(scope="module")
def read_from(tmp_path_factory) -> Callable[[str], Store]:
    """The store of a folder with a file of this kind for each set of a format that is read from it."""
    stores: dict[str, Store] = {}

    def read(kind: str) -> Store:
        if kind not in stores:
            folder: Path = tmp_path_factory.mktemp(kind)
            of_csv = {row["format"] for row in format_rows() if "CSV" in row["files"]}
            for name, rows in rows_of_formats().items():
                if kind != "csv" or name in of_csv:
                    put_rows(folder / "data" / name, SPELLED[kind](rows), kind)
            stores[kind] = ingested(folder / "data", folder / "store")
        return stores[kind]

    return read


def told(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """Name of a set -> the models, texts and lost parts of its conversations."""
    of_sets: dict[str, list[tuple[Any, ...]]] = {}
    for row in store.read("conversations").to_dicts():
        said = (row["model"], texts(row), row["unread_parts"])
        of_sets.setdefault(row["source"].partition("/")[0], []).append(said)
    return {name: sorted(rows) for name, rows in of_sets.items()}


@pytest.mark.parametrize("kind", ["array", "parquet", "arrow", "csv"])
def test_every_format_gives_the_same_conversations_from_each_kind_of_file(read_from, kind):
    expected, found = told(read_from("jsonl")), told(read_from(kind))
    assert set(rejected(read_from(kind)).values()) <= {"part_not_read"}
    assert found == {name: rows for name, rows in expected.items() if name in found}
    assert kind == "csv" or found.keys() == expected.keys()


@pytest.mark.parametrize("kind", ["array", "parquet", "arrow"])
def test_every_format_gives_the_same_votes_from_each_kind_of_file(read_from, kind):
    question = "SELECT model_a, model_b, turn, winner, session_order, categories, languages FROM votes ORDER BY ALL"
    assert read_from(kind).ask(question).rows() == read_from("jsonl").ask(question).rows()


def test_every_format_without_pictures_in_columns_is_among_the_sets():
    names = {name.partition(" ")[0].removesuffix("-nested") for name in rows_of_formats()}
    assert names == set(BUILT_IN) - set(PICTURED) - {"bench-items"}


OTHER_VALUES = (None, "", float("nan"), [], {}, True, -1, "x", [None], {"x": None})
PLACES_TRIED = 30


def places_in(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The keys and indexes that lead to each value inside of one."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield (*above, key)
        yield from places_in(below, (*above, key))


@pytest.mark.parametrize("name", rows_of_formats())
def test_a_row_with_another_value_anywhere_is_read_or_rejected_and_stops_nothing(name):
    row = rows_of_formats()[name][-1]
    places = list(places_in(row))
    for place in random.Random(name).sample(places, min(len(places), PLACES_TRIED)):
        for value in OTHER_VALUES:
            changed = copy.deepcopy(row)
            *above, key = place
            functools.reduce(operator.getitem, above, changed)[key] = value
            content = LogContent()
            shape = BUILT_IN[name.partition(" ")[0].removesuffix("-nested")]
            content.add_row(changed, Place("rows", 1), False, shape, Pseudonyms(b"k" * 16))
            assert bool(content.sightings) != bool(content.rejects), (place, value)
