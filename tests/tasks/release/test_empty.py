"""A release that lacks a kind of rows, or all, is made, whole, shown, compared and listed for publishing."""

import shutil
from pathlib import Path

import polars as pl
import pytest

from tasks.storage.queries.released import mark_decided
from tasks.storage.tables import Store
from tests.small_store import make_release, manifest_of


def _keep(store: Store, chosen: pl.Expr) -> None:
    """Drop every conversation and battle that is not chosen."""
    store.replace("decisions", store.read("decisions").with_columns(keep=pl.col("keep") & chosen))


def _no_bench(store: Store) -> None:
    for table in ("bench", "bench_draws", "failures"):
        store.replace(table, store.read(table)[:0])


def _no_rows(store: Store) -> None:
    _no_bench(store)
    _keep(store, pl.lit(False))


LACKING = {
    "chats": lambda store: _keep(store, pl.col("item_id").is_in(["c00", "b0", "b0-right"])),
    "battles": lambda store: _keep(store, pl.col("item_kind") != "battle"),
    "bench": _no_bench,
    "votes": lambda store: store.replace("battles", store.read("battles").with_columns(anonymous=False)),
    "anything": _no_rows,
}
"""Kind of rows -> how a store comes to have none of it. Named models are voted on, and their votes are not rated."""
ROWS = {"chats": ["battle", "bench"], "battles": ["chat", "bench", "failures"], "bench": ["chat", "battle"]}


@pytest.mark.parametrize("kind", LACKING)
def test_a_release_without_a_kind_of_rows_is_one_for_every_command(store, curate, tmp_path, kind):
    own = Store(str(shutil.copytree(store.root, tmp_path / "store")))
    LACKING[kind](own)
    mark_decided(own)
    made = Path(own.at(make_release(own, reported=True, release="second").result))
    manifest = manifest_of(made)
    with_rows = [config for config in ("chat", "battle", "bench", "failures") if manifest["counts"][config]]
    assert with_rows == ROWS.get(kind, ["chat", "battle", "bench", "failures"] if kind == "votes" else [])
    status, out, err = curate("verify", made)
    assert status == 0, out + err
    for old, new in (("first", "second"), ("second", "first")):
        status, out, _ = curate("diff", own.at(f"releases/{old}"), own.at(f"releases/{new}"))
        assert status == 0 and "suggested version bump" in out
    assert curate("view", made, "--export", tmp_path / "pages")[0] == 0
    accepted = [word for name in manifest["embedded_providers"] for word in ("--accept-embedded", name)]
    status, out, err = curate("publish", made, "--repo", "lab/arena", "--dry-run", *accepted)
    assert status == 0 and "nothing was sent" in out, err
