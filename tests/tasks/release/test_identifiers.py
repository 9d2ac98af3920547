"""Identifiers beside the messages are found in each form in which programs write them, and in no text of people."""

import base64
import json
import random
from string import ascii_letters, ascii_lowercase

import polars as pl
import pytest
from hypothesis import example, given, strategies

from flows.products import problems_of
from tasks.release.contents import _ADDRESSES, _PATH, _plain_identifiers, identifiers, identifiers_in, masked
from tests.small_store import manifest_of
from tests.tampered_release import reseal, write_manifest

DRAWN = random.Random(3)


def _word(letters=ascii_lowercase):
    return "".join(DRAWN.choices(letters, k=DRAWN.randint(3, 9)))


ROOTS = ["home", "Users", "mnt", "data", "app", "lustre", "gpfs", "projects", "work", "storage", "run"]
PATHS = {
    "below a root": [f"/{root}/{_word()}/{_word()}" for root in ROOTS],
    "of a file's address": [f"file:{slashes}home/{_word()}" for slashes in ("/", "//", "///", "//localhost/")],
    "in a bucket": [f"{kind}{_word()}/{_word()}" for kind in ("s3://", "s3a://", "gs://", "hdfs:///", "dbfs:/")],
    "of a home folder": [f"{before}~/{_word()}.toml" for before in ("", '"', "`", "(", "=", "'")],
    "on a drive": [f"{drive}:{sign}{_word()}" for drive in "CDZ" for sign in ("\\", "\\\\", "/")],
    "on a share": [f"\\\\{host}\\{_word()}" for host in (_word(), "fs-01", "203.0.113.9")],
}


@pytest.mark.parametrize("form", PATHS)
def test_a_path_is_found_in_each_form_of_it(form):
    missed = [path for path in PATHS[form] if "path" not in identifiers_in(pl.Series([path])).get(path, set())]
    assert missed == []


HARMLESS = [
    "yes/no", "and/or", "/yes/no", "org/model-7b", "https://example.com/home/page", "/dev/null", "/bin/sh",
    "~5/7", "50~/60", "a:b", "Q: A/B", "ratio 16:/9", "Paths begin with /", "1:/2", "</data>", "x = y ~ z/w",
]  # fmt: skip


def test_slashes_and_tildes_of_prose_are_no_paths():
    assert {text: kinds for text in HARMLESS if (kinds := identifiers(text))} == {}


@given(strategies.sampled_from([_PATH, *(kind.form for kind in _ADDRESSES.values())]).flatmap(strategies.from_regex))
@example("203 . 0 . 113 . 9")
def test_no_quick_filter_leaves_out_what_the_exact_patterns_find(text):
    kinds = _plain_identifiers(text)
    assert kinds <= identifiers(text)
    assert not kinds or text in identifiers_in(pl.Series([text]))


def _in_base64(text):
    return base64.b64encode(text.encode()).decode().rstrip("=")


ENCODED = [
    *(_in_base64(f"{_word(ascii_letters)}@{_word()}.{end}") for end in ("io", "de", "com", "org") for _ in range(50)),
    *(_in_base64(f"/home/{name}\n") for name in ("ann", "jürgen", "zoë/b")),
    _in_base64("C:\\Users\\ann\r\n"),
]


def test_base64_of_an_identifier_is_found_wherever_its_capitals_stand():
    with_capital = [text for text in ENCODED if not text.islower() and len(text) > 11]
    assert [text for text in with_capital if text not in identifiers_in(pl.Series(with_capital))] == []


@pytest.mark.parametrize("name", ["a%40b.co", "/tmp/a ann%40x.org", "ann%40x.org", _in_base64("/home/ann/x")])
def test_a_masked_name_shows_no_identifier_in_any_form(name):
    assert identifiers(name) and not identifiers(masked(name))
    assert "40" not in masked(name) and masked(name).endswith("…")


@pytest.mark.parametrize("path", ["/home/ann/x", "C:\\Users\\a", "~/a.toml", "\\\\server\\ann"])
def test_a_path_in_the_manifest_or_the_certificate_is_found_as_json_writes_it(own_release, path):
    settings = manifest_of(own_release)["settings"]
    write_manifest(own_release, settings=settings | {"store": path})
    (own_release / "leaderboard/certificate.json").write_text(json.dumps({"a": [{"b": path}], "c": 1}))
    reseal(own_release)
    found = [problem for problem in problems_of(own_release) if problem.endswith("holds an identifier: path")]
    names = ("leaderboard/certificate.json", "manifest.json")
    assert sorted(found) == [f"{name}: holds an identifier: path" for name in names]


def test_a_line_break_after_a_colon_is_no_drive_of_windows(own_release):
    settings = manifest_of(own_release)["settings"]
    write_manifest(own_release, settings=settings | {"note": "a model, version a:\nnext"})
    assert not [problem for problem in problems_of(own_release) if "identifier" in problem]
