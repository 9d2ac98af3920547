"""`curate takedown` from the command line."""

import getpass
import io
import json
import sys
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from tests.disk_steps import Killed, ends_at, full_at
from tests.tasks.ingest.logs import DAY, conv_id
from tests.tasks.takedown.conftest import ANN, OWN, SECRET, everything, files_with


@pytest.fixture
def curate_as_typed(curate):
    """Run `curate takedown` on the store without --yes: (exit status, stdout, stderr)."""
    return lambda *arguments: curate.func(*(each for each in curate.args if each != "--yes"), *arguments)


@pytest.fixture
def curate(curate, store):
    """Run `curate takedown` on the store as scripts do: (exit status, stdout, stderr)."""
    return partial(curate, "takedown", "--yes", "--store", store.root)


def test_a_takedown_says_what_went_and_what_is_left_to_do(curate, store):
    code, out, err = curate(conv_id("ann"))
    assert (code, err) == (0, "")
    assert "gone         1  conversations" in out
    assert f"gone  release {store.root}/releases/1.0.0" in out
    raw = "still in the raw logs, to be deleted there: 1 lines, 1 image files\n  vision-tmp-2024-06-20-conv.json:1\n"
    assert out.startswith(f"{raw}  {OWN}.png\n")


class _Terminal(io.StringIO):
    """Standard input of somebody who types at a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def stdin(monkeypatch):
    """Put this on standard input, which is a pipe by default."""
    return lambda text, kind=io.StringIO: monkeypatch.setattr(sys, "stdin", kind(text))


def test_nothing_goes_when_the_answer_is_no(curate_as_typed, store, stdin):
    before = dict(everything(store))
    stdin("n\n", _Terminal)
    code, out, _ = curate_as_typed(conv_id("ann"))
    assert (code, dict(everything(store)) == before) == (1, True)
    assert "would go         1  conversations" in out and "remove all this for ever?" in out


def test_what_is_asked_about_goes_when_the_answer_is_yes(curate_as_typed, stdin):
    stdin("y\n", _Terminal)
    code, out, _ = curate_as_typed(conv_id("ann"))
    assert (code, out.count("still in the raw logs"), "gone         1  conversations" in out) == (0, 1, True)


LISTED = f"{'0' * 32}\n{conv_id('ann')}\n"
"""A list of ids, of which the store never had the first."""


def test_a_list_with_an_unknown_id_takes_nothing_down(curate, store, stdin):
    before = dict(everything(store))
    stdin(LISTED)
    code, out, err = curate("-")
    assert (code, out, err.count("\n"), dict(everything(store)) == before) == (2, "", 1, True)


def test_unknown_ids_are_left_out_of_a_list_when_asked_for(curate, stdin):
    stdin(LISTED)
    code, out, err = curate("--skip-unknown", "-")
    assert (code, err, out.split("\n")[1]) == (0, "", f"  {'0' * 32}") and out.startswith("1 of 2 left out")
    assert "gone         1  conversations" in out


def test_a_list_of_unknown_ids_alone_is_no_error_when_they_are_left_out(curate):
    code, out, err = curate("--skip-unknown", "0" * 32)
    assert (code, err, out.count("\n")) == (0, "", 2)


def test_a_script_must_say_yes(curate_as_typed, store, stdin):
    before = dict(everything(store))
    stdin("")
    code, out, err = curate_as_typed(conv_id("ann"))
    assert (code, err.count("\n"), dict(everything(store)) == before) == (2, 1, True)
    assert "would go" in out and "say --yes" in err


def test_an_unknown_id_is_named_before_anybody_is_asked(curate_as_typed, stdin):
    stdin("")
    code, out, err = curate_as_typed("0" * 32)
    assert (code, out) == (2, "") and "0" * 32 in err and "--yes" not in err


def test_every_line_to_delete_is_told_before_anything_goes(curate, store, capsys):
    with ends_at("write", rf"^{store.path}/(takedown|releases|tables/\w)"), pytest.raises(Killed):
        curate("--user", ANN)
    assert capsys.readouterr().out.count(f"\n  {DAY}:") == 4
    assert files_with(store, SECRET)


@pytest.fixture
def stopped(curate, store) -> str:
    """What is said of a takedown that finds no room for the lists of parts."""
    with full_at(r"/tables/(?!takedowns/).*/parts\.json"):
        code, _, err = curate(conv_id("ann"), "--reason", "ticket 9")
    assert (code, err.count("\n")) == (2, 1)
    return err


def test_a_disk_without_room_is_told_in_one_line(stopped):
    assert "has no room left (No space left on device); what was stored stays" in stopped


def test_releases_go_first_so_that_a_full_disk_gets_room(stopped, store):
    released = {path.name for path in Path(store.at("releases/1.0.0")).iterdir()}
    assert released == {"manifest.json", "withdrawn.json"}


def test_the_next_takedown_finishes_one_that_found_no_room(stopped, curate, store):
    assert curate()[0] == 0
    assert files_with(store, conv_id("ann"), f"{SECRET} one") == []
    (record,) = Path(store.at("takedown")).glob("*.json")
    assert json.loads(record.read_text())["reason"] == "ticket 9"


def test_the_record_of_a_takedown_has_who_how_much_when_why_but_nothing_of_what_went(curate, store):
    assert curate(conv_id("ann"), "--reason", "ticket 17")[0] == 0
    (record,) = Path(store.at("takedown")).glob("*.json")
    kept = json.loads(record.read_text())
    assert (kept["by"], kept["reason"], kept["releases"]) == (getpass.getuser(), "ticket 17", ["1.0.0"])
    assert kept["scope"] == {"conversation": 1, "image": 0, "user": 0}
    assert kept["rows"]["conversations"] == 1
    assert files_with(store, conv_id("ann"), OWN, f"{SECRET} one") == []


def test_names_that_would_steer_a_terminal_are_not_printed_as_they_are(curate, store):
    hostile = "2024\u202e\x1b[2J\n-conv.json"
    store.replace("sightings", store.read("sightings").with_columns(source=pl.lit(hostile)))
    out = curate(conv_id("ann"), "--dry-run")[1]
    assert "\n  2024 [2J -conv.json:1\n" in out
    assert not {"\u202e", "\x1b"} & set(out)


def test_users_on_standard_input_are_not_printed(curate, store, stdin):
    stdin(f"{ANN}\n")
    code, out, err = curate("--user", "-")
    assert (code, ANN in out + err, files_with(store, SECRET)) == (0, False, [])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "give an ID or --user"),
        (("nonsense",), "'nonsense' is no conversation"),
        (("a" * 300,), "is no conversation"),
        (("a\n\u202e\x1b",), r"'a\n\u202e\x1b' is no conversation"),
        (("--user", "x"), "--user: this"),
        (("-", "--user", "-"), "standard input can be read once"),
    ],
)
def test_bad_input_is_one_clear_line(refused, store, arguments, told):
    before = dict(everything(store))
    assert told in refused(*arguments)
    assert dict(everything(store)) == before
