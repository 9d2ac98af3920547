"""A name that identifies somebody ends a release before it is written, in one line that says what to rename."""

from pathlib import Path

import polars as pl
import pytest

from flows.products import problems_of
from schemas.errors import UnsafeName
from tasks.release.checks.names import NamesFound
from tasks.storage.queries.released import mark_decided
from tests.builders import gathered_rows
from tests.small_store import MODELS, POLICY, make_release

PERSONAL = ["ft:gpt-4o:acme:jane.model15@posteo.net:9x", "203.0.113.7", "/home/jane/models/x"]
_PRIVATE = {"user_id", "judge", "vote_reason"}
"""Columns of keyed hashes and of what voters wrote, which other checks search."""


@pytest.mark.parametrize("name", PERSONAL)
def test_a_personal_name_in_any_column_is_one_line_that_masks_it_and_says_what_to_do(store, name):
    for config, rows in gathered_rows(store).rows.items():
        lists = {"models"} & {*rows.columns}
        for column in [
            c for c, dtype in rows.schema.items() if (dtype == pl.String or c in lists) and c not in _PRIVATE
        ]:
            value = pl.lit([name]) if column in lists else pl.lit(name)
            found = NamesFound(POLICY)
            found.add(config, rows.with_columns(value.alias(column)))
            with pytest.raises(UnsafeName, match=rf"nothing was released: {column} .*; then run again$") as told:
                found.require_none(store)
            line = str(told.value)
            assert "\n" not in line and not any(part in line for part in ("jane", "203.0"))


def _model(store):
    conversations = store.read("conversations")
    store.replace("conversations", conversations.with_columns(pl.col("model").replace(MODELS[1], PERSONAL[0])))


def _preset(store):
    of_one = pl.when(item_id="c05").then(pl.lit("s3://jane/presets")).otherwise("preset_dataset")
    store.replace("decisions", store.read("decisions").with_columns(preset_dataset=of_one))


def _conversation_id(store):
    for table, column in (("conversations", "conversation_id"), ("decisions", "item_id")):
        store.replace(table, store.read(table).with_columns(pl.col(column).replace("c05", "jane@posteo.net")))


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        (_model, "by `renames` of the policy, or list it in `excluded_models`"),
        (_preset, "give the `dataset` another name in presets.json"),
        (_conversation_id, "correct the id in the logs, or take it out with `curate takedown`"),
    ],
)
def test_nothing_is_released_with_it_and_the_first_log_line_is_named(own_store, change, remedy):
    change(own_store)
    mark_decided(own_store)
    with pytest.raises(UnsafeName, match=r"2024-09-18-conv\.json:\d+\)") as told:
        make_release(own_store, release="second")
    assert remedy in str(told.value) and told.value.exit_status == 2
    assert [path.name for path in Path(own_store.at("releases")).glob("*/manifest.json")] == ["manifest.json"]


def test_a_release_whose_names_only_look_like_addresses_is_made_and_whole(own_store):
    odd = ["claude-3-5-sonnet@20240620", "org/llama-3.1-8b:latest", "gpt-4.1.2025.04-14"]
    conversations = own_store.read("conversations")
    renamed = pl.col("model").replace(dict(zip(MODELS, odd, strict=True)))
    own_store.replace("conversations", conversations.with_columns(renamed))
    mark_decided(own_store)
    made = own_store.at(make_release(own_store, reported=True, release="second").result)
    assert problems_of(Path(made)) == []
