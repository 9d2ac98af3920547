"""`curate verify` finds, in one line, what nobody may put into a release, also when the checksums were made to fit."""

import shutil

import pyarrow.parquet as pq
import pytest

from flows.products import problems_of
from schemas.errors import BadInput
from tasks.runtime.untrusted import markdown_text
from tests.small_store import manifest_of
from tests.tampered_release import (
    BATTLE,
    BENCH,
    CHAT,
    add_file,
    card_says,
    change_row,
    reseal,
    rewrite,
    write_manifest,
)


def _renamed(release, name):
    (release / CHAT).rename(release / name)
    reseal(release)


def _linked(release):
    (release / "report" / "etc").symlink_to("/etc")


def _link_for_card(release):
    shutil.move(release / "README.md", release.parent / "outside.md")
    (release / "README.md").symlink_to(release.parent / "outside.md")


def _no_card(release):
    (release / "README.md").unlink()
    reseal(release)


_SYSTEM = {"role": "system", "content": "x", "images": []}
_BEYOND = {"role": "user", "content": "x", "images": [{"image": 99, "character": 0}]}

FILES = {
    "notes.txt: no release has such a file": lambda r: add_file(r, "notes.txt"),
    "chat/data/more.parquet: no release has such a file": lambda r: add_file(r, "chat/data/more.parquet"),
    "chat/data/manifest.json: not in the manifest": lambda r: (r / "chat/data/manifest.json").write_bytes(b"{}"),
    "report/etc: a link, not a file": _linked,
    "README.md: a link, not a file": _link_for_card,
    "README.md: missing": _no_card,
    "not numbered as such: chat/data/train-00000-of-00002": lambda r: _renamed(r, CHAT.replace("1.p", "2.p")),
    "chat/data/train-1.parquet: no release has such a file": lambda r: _renamed(r, "chat/data/train-1.parquet"),
    "chat/data/train-00000-of-00001.parquet: not a Parquet file": lambda r: add_file(r, CHAT, b"PAR1 and no more PAR1"),
    "leaderboard/overall.parquet: not a Parquet file": lambda r: add_file(r, "leaderboard/overall.parquet"),
    "README.md: not UTF-8 text": lambda r: add_file(r, "README.md", b"\xff\xfe"),
}
"""What is told -> what was done."""


@pytest.mark.parametrize("told", FILES)
def test_a_file_that_is_not_that_of_a_release_is_found(own_release, told):
    FILES[told](own_release)
    assert any(told in problem for problem in problems_of(own_release))


def _without_features(release):
    table = pq.read_table(release / CHAT)
    pq.write_table(table.replace_schema_metadata(None), release / CHAT)
    reseal(release)


def _broken_pixels(release):
    def change(rows):
        content = bytearray(rows[0]["images"][0]["bytes"])
        content[content.index(b"IDAT") + 10] ^= 1
        return [rows[0] | {"images": [rows[0]["images"][0] | {"bytes": bytes(content)}]}, *rows[1:]]

    rewrite(release, CHAT, change)


def _answered_bench(release):
    answer = {"role": "assistant", "content": "42", "images": []}
    rewrite(release, BENCH, lambda rows: [rows[0] | {"turns": [*rows[0]["turns"], answer]}])


ROWS = {
    "model holds an identifier: ip": lambda r: change_row(r, CHAT, model="203.0.113.7"),
    "topic holds an identifier: email": lambda r: change_row(r, CHAT, topic="to a.b@example.com"),
    "conversation_id holds an identifier: path": lambda r: change_row(r, CHAT, conversation_id="/home/me/logs"),
    "preset_dataset holds an identifier: path": lambda r: change_row(r, CHAT, preset_dataset="s3://bucket/presets"),
    "the winner is 'left'; it is one of model_a,": lambda r: change_row(r, BATTLE, winner="left"),
    "messages by 'system'": lambda r: change_row(
        r, CHAT, conversation=[{"role": "system", "content": "x", "images": []}]
    ),
    "turns has messages by 'assistant'": _answered_bench,
    "shows an image that the row has not": lambda r: change_row(r, CHAT, conversation=[_BEYOND]),
    "num_turns is 7, which is not the number": lambda r: change_row(r, CHAT, num_turns=7),
    "conversation is not what it must be": lambda r: change_row(r, CHAT, conversation=None),
    "images is not what it must be": lambda r: change_row(r, CHAT, images=None),
    "is there more than once": lambda r: rewrite(r, CHAT, lambda rows: [rows[1], *rows[1:]]),
    "does not tell `datasets` what the columns are": _without_features,
    "does not open as an image": _broken_pixels,
}


@pytest.mark.parametrize("told", ROWS)
def test_a_row_that_no_release_has_is_found(own_release, told):
    ROWS[told](own_release)
    assert any(told in problem for problem in problems_of(own_release))


@pytest.mark.parametrize("name", ["leaderboard/overall.csv", "report/index.html", "report/tables/models.csv"])
@pytest.mark.parametrize(
    ("text", "kind"), [("203.0.113.7", "ip"), ("a.b@example.com", "email"), ("/home/me/x", "path")]
)
def test_an_identifier_in_a_text_beside_the_rows_is_found(own_release, name, text, kind):
    add_file(own_release, name, f"<p>{text}</p>\n".encode())
    assert f"{name}: holds an identifier: {kind}" in problems_of(own_release)


def test_a_path_in_the_manifest_is_found_and_the_address_for_removals_is_none(own_release):
    settings, policy = (manifest_of(own_release)[name] for name in ("settings", "policy"))
    write_manifest(
        own_release, policy=policy | {"contact": 'The "lab" <removal@lab.example>', "about": "ask a@b.example"}
    )
    card_says(own_release, "the publisher of this dataset", markdown_text('The "lab" <removal@lab.example>'))
    assert problems_of(own_release) == []
    write_manifest(own_release, settings=settings | {"store": "/home/alice/store"})
    assert problems_of(own_release) == ["manifest.json: holds an identifier: path"]


CARD = {
    "the version is not": ("Version first of", "Version 2 of"),
    "the policy is not": ("`public_release`", "`very_safe`"),
    "what was withheld is not": (" kept conversations are not in", "9 kept conversations are not in"),
    "stand-ins it was built with": ("**Built with embedded stand-ins**", "**Built with care**"),
    "its front matter": ("path: chat/data/train-*.parquet", 'path: "**/*.parquet"'),
    "where the log lines went": ("| dropped: face | 1 |", "| dropped: face | 1 |\n| dropped: aliens | 7 |"),
}


@pytest.mark.parametrize("told", CARD)
def test_a_sentence_of_the_card_that_the_manifest_does_not_say_is_found(own_release, told):
    card_says(own_release, *CARD[told])
    (problem,) = problems_of(own_release)
    assert problem.startswith("README.md: ") and told in problem


def test_a_statistic_that_can_be_counted_may_not_be_hidden(own_release):
    card = (own_release / "README.md").read_text(encoding="utf-8")
    (line,) = [line for line in card.splitlines() if line.startswith("| **this release, chat** |")]
    card_says(own_release, line, "| **this release, chat** " + "| – " * 8 + "|")
    (problem,) = problems_of(own_release)
    assert "statistics of chat" in problem


MANIFEST = {
    "the outcomes of the log lines do not add up": lambda m: {"funnel": m["funnel"] | {"kept": 1}},
    "which stand-ins it was built with": lambda m: {"embedded_providers": []},
    "the first or last day": lambda m: {"first_day": "1999-01-01"},
}


@pytest.mark.parametrize("told", MANIFEST)
def test_a_manifest_that_contradicts_itself_or_the_card_is_found(own_release, told):
    write_manifest(own_release, **MANIFEST[told](manifest_of(own_release)))
    (problem,) = problems_of(own_release)
    assert told in problem


@pytest.mark.parametrize("changes", [{"funnel": {}}, {"counts": {"chat": 1}}, {"policy": {}}])
def test_a_manifest_without_its_parts_is_one_clear_error(own_release, changes):
    write_manifest(own_release, **changes)
    with pytest.raises(BadInput, match="is not a manifest this version understands"):
        problems_of(own_release)
