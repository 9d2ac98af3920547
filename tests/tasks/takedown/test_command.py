"""`curate takedown` from the command line."""

import io
import sys
from functools import partial

import pytest

from tests.tasks.ingest.logs import conv_id
from tests.tasks.takedown.conftest import ANN, SECRET, everything, files_with


@pytest.fixture
def curate(curate, store):
    """Run `curate takedown` on the store: (exit status, stdout, stderr)."""
    return partial(curate, "takedown", "--store", store.root)


def test_a_takedown_says_what_went_and_what_is_left_to_do(curate, store):
    code, out, err = curate(conv_id("ann"))
    assert (code, err) == (0, "")
    assert "gone         1  conversations" in out
    assert f"gone  release {store.root}/releases/1.0.0" in out
    assert "still in the raw logs; delete there: vision-tmp-2024-06-20-conv.json:1, " in out


def test_a_dry_run_says_the_same_in_the_conditional(curate, store):
    before = dict(everything(store))
    code, out, _ = curate(conv_id("ann"), "--dry-run")
    assert (code, dict(everything(store)) == before) == (0, True)
    assert "would go         1  conversations" in out
    assert "gone" not in out


def test_a_user_can_be_given_on_standard_input_and_is_not_printed(curate, store, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{ANN}\n"))
    code, out, err = curate("--user", "-")
    assert (code, ANN in out + err, files_with(store, SECRET)) == (0, False, [])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [((), "give an ID or --user"), (("nonsense",), "'nonsense' is no conversation"), (("--user", "x"), "--user: this")],
)
def test_bad_input_is_one_clear_line(curate, store, arguments, told):
    before = dict(everything(store))
    code, out, err = curate(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert told in err
    assert dict(everything(store)) == before
