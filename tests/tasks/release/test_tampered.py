"""`curate verify` finds, in one line, what nobody may put into a release, also when the checksums were made to fit."""

import base64
import os
import shutil

import polars as pl
import pyarrow.parquet as pq
import pytest

from flows.products import problems_of
from schemas.policy import Policy
from schemas.rating import Rating
from schemas.release import Manifest
from tasks.release.certificate.file import CERTIFICATE, CERTIFICATE_TITLE, PAGE
from tasks.release.checks.boards import RANKS_SINCE, STYLE_SINCE, tables_of
from tasks.release.core_parts import MAP
from tasks.release.registered import VOTE_CHECKS, board_csv, write_table
from tasks.runtime.untrusted import markdown_text
from tasks.storage.parquet import read_parquet_groups
from tasks.storage.tables import frame_of
from tests.builders import image_bytes
from tests.small_store import manifest_of
from tests.tampered_release import (
    BATTLE,
    BENCH,
    CHAT,
    add_file,
    as_of_layout,
    card_says,
    change_row,
    reseal,
    rewrite,
    write_manifest,
)

HOME = b"/home/alice/logs"


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


def _with_metadata(release):
    table = pq.read_table(release / CHAT)
    pq.write_table(table.replace_schema_metadata(table.schema.metadata | {b"author": b"alice"}), release / CHAT)
    reseal(release)


def _with_comment(release):
    table = pq.read_table(release / CHAT)
    schema = table.schema.set(1, table.schema.field(1).with_metadata({b"comment": HOME}))
    pq.write_table(table.cast(schema), release / CHAT)
    reseal(release)


def _with_bytes_between(release):
    content = (release / CHAT).read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    add_file(release, CHAT, content[:-footer] + HOME + content[-footer:])


def _plain(release, shard=CHAT):
    pq.write_table(pq.read_table(release / shard), release / shard, compression="none", write_statistics=False)


def _edited(release, name, old, new):
    content = (release / name).read_bytes()
    assert old in content
    add_file(release, name, content.replace(old, new))


def _no_text(release):
    change_row(release, CHAT, language="Klingon")
    _plain(release)
    _edited(release, CHAT, b"Klingon", b"Kling\xff\xfe")


def _broken_page(release, name):
    content = bytearray((release / name).read_bytes())
    content[4:40] = b"\xff" * 36
    add_file(release, name, bytes(content))


def _other_image(release):
    def change(rows):
        name = rows[0]["images"][0]["path"]
        assert sum(name == each["path"] for row in rows for each in row["images"]) > 1
        return [rows[0] | {"images": [{"path": name, "bytes": image_bytes(77)}]}, *rows[1:]]

    rewrite(release, CHAT, change)


def _other_contact(release):
    write_manifest(release, policy=manifest_of(release)["policy"] | {"contact": "the lab"})
    card_says(release, "Write to the publisher of this dataset", "Write to the buyers of your data")


def _flip(place=0):
    """Give the vote of a battle to the other model, and make the card say so."""

    def change(rows):
        flipped = {"model_a": "model_b", "model_b": "model_a"}[rows[place]["winner"]]
        return [*rows[:place], rows[place] | {"winner": flipped}, *rows[place + 1 :]]

    return change


def _invert(release, shard, tag):
    categories = pq.read_table(release / shard)["categories"][0].as_py()
    change_row(release, shard, categories=categories | {tag: not categories[tag]})


def _better(release):
    """Rate the last model best, in both files of the board."""
    name = "leaderboard/overall"

    def change(rows):
        return [*rows[:-1], rows[-1] | {"rating": 2000.0}]

    rewrite(release, f"{name}.parquet", change)
    board = pl.concat(read_parquet_groups(release / f"{name}.parquet"))
    add_file(release, f"{name}.csv", board_csv(board).encode())


def _drawn(release, old, new):
    """Change a figure, and the report that shows it."""
    figures = {path: path.read_bytes() for path in sorted((release / "report" / "figures").glob("*.svg"))}
    figure, before = next((path, content) for path, content in figures.items() if old in content)
    after = before.replace(old, new, 1)
    add_file(release, f"report/figures/{figure.name}", after)
    _edited(release, "report/index.html", base64.b64encode(before), base64.b64encode(after))


def _policy_without_faces(release):
    policy = manifest_of(release)["policy"]
    write_manifest(release, policy=policy | {"rules": [r for r in policy["rules"] if r["reason"] != "face"]})


def _topic_of_a_battle(release):
    """Move the point of a conversation that is in chat, too."""

    def change(rows):
        ids = [row["id"] for row in rows]
        place = next(n for n, row in enumerate(rows) if ids.count(row["id"]) > 1)
        return [*rows[:place], rows[place] | {"x": 99.0}, *rows[place + 1 :]]

    rewrite(release, MAP, change)


_H1 = b"<h1>Release report</h1>"
_BEYOND = {"role": "user", "content": "x", "images": [{"image": 99, "character": 0}]}
TAMPERED = {
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
    "its metadata has keys that no release has: b'author'": _with_metadata,
    "its metadata holds an identifier: path": _with_comment,
    "it has bytes that belong to no column": _with_bytes_between,
    "its pages cannot be read": lambda r: _broken_page(r, CHAT),
    "leaderboard/overall.parquet: its pages cannot be read": lambda r: _broken_page(r, "leaderboard/overall.parquet"),
    "chat/train-00000-of-00001.parquet: its pages cannot be read": _no_text,
    "leaderboard/overall.csv: not what overall.parquet says": lambda r: _edited(
        r, "leaderboard/overall.csv", b"1", b"9"
    ),
    "has other pixels than it is named by": _other_image,
    "chat: its rows do not show the images": lambda r: write_manifest(r, images={}),
    "the address for removals is not what": _other_contact,
    "report/alice: no release has it": lambda r: (r / "report" / "alice").mkdir(),
    "chat/pipe: no release has it": lambda r: os.mkfifo(r / "chat" / "pipe"),
    "tstamp is no time": lambda r: change_row(r, CHAT, tstamp=float("nan")),
    "its front matter": lambda r: card_says(r, "---\npretty_name", "---\nx: " + "[" * 5000 + "\npretty_name"),
    f"{MAP}: 1 released rows with a topic have no point": lambda r: rewrite(r, MAP, lambda rows: rows[1:]),
    f"{MAP}: 1 points are of no released row": lambda r: change_row(r, MAP, id="nobody"),
    f"{MAP}: 1 points are of no released row, or of another topic": lambda r: change_row(r, MAP, topic_id=99),
    f"{MAP}: missing": lambda r: (r / MAP).unlink(),
    "leaderboard/overall.parquet: not what the votes of battle give: ": lambda r: rewrite(r, BATTLE, _flip()),
    "leaderboard/overall.parquet: not what the votes of battle give: 'overall'": _better,
    "leaderboard/by_category.parquet: not what the votes of": lambda r: _invert(r, BATTLE, "ocr"),
    f"{VOTE_CHECKS}.parquet: not what the votes of battle": lambda r: change_row(r, f"{VOTE_CHECKS}.parquet", votes=99),
    f"{VOTE_CHECKS}.csv: not what vote_checks.parquet": lambda r: _edited(r, f"{VOTE_CHECKS}.csv", b"both_bad", b"bad"),
    "README.md: its section about categories and votes": lambda r: _invert(r, CHAT, "diagram"),
    "leaderboard: the votes of battle cannot be rated": lambda r: write_manifest(
        r, settings=manifest_of(r)["settings"] | {"anchor_model": "nobody"}
    ),
    "manifest.json: its policy is not the one with the hash": _policy_without_faces,
    f"{MAP}: 1 rows have another point or topic than the same conversation": _topic_of_a_battle,
    "has an element that it never has: 'script'": lambda r: _drawn(r, b"</g>", b"</g><script>alert(1)</script>"),
    "has an attribute of 'g' that it never has: 'onload'": lambda r: _drawn(r, b"<g ", b'<g onload="alert(1)" '),
    "has an attribute of 'use' that it never has: 'href'": lambda r: _drawn(
        r, b'xlink:href="#', b'xlink:href="https://evil.test/#'
    ),
    "has a style that loads or runs something: '@'": lambda r: _drawn(r, b"*{", b"@import 'https://evil.test';*{"),
    "has a declaration or an instruction": lambda r: _drawn(r, b"<svg", b"<!DOCTYPE svg [<!ENTITY a 'b'>]><svg"),
    "report/index.html: has an element that it never has: 'script'": lambda r: _edited(
        r, "report/index.html", _H1, b"<script>alert(1)</script>"
    ),
    "report/index.html: has an attribute of 'b' that": lambda r: _edited(
        r, "report/index.html", _H1, b'<b onclick="alert(1)">x</b>'
    ),
    "report/index.html: has a tag in a form": lambda r: _edited(r, "report/index.html", _H1, b"<h1\n>x</h1>"),
    "report/index.html: has a < that is no tag": lambda r: _edited(r, "report/index.html", _H1, b"<h1>1 < 2</h1>"),
    "report/index.html: has a comment": lambda r: _edited(r, "report/index.html", _H1, b"<!-- x -->"),
    "report/index.html: closes an element": lambda r: _edited(r, "report/index.html", _H1, b"<h1>x</h2>"),
    "report/index.html: lets a browser load more": lambda r: _edited(
        r, "report/index.html", b"default-src 'none'", b"default-src 'self'"
    ),
    "shows a figure that is not one of": lambda r: add_file(r, "report/figures/models.svg", b"<svg/>"),
    "a section that nothing in the release says": lambda r: card_says(
        r, "## Licence", "## Written items\n\n## Licence"
    ),
}
"""What is told -> what was done."""


@pytest.mark.parametrize("told", TAMPERED)
def test_what_no_release_has_is_found(own_release, told):
    TAMPERED[told](own_release)
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
    "rows of battle are not the 6": ("| `battle` | 6 |", "| `battle` | 7 |"),
    "where the log lines went is": (" log lines = ", "0 log lines = "),
    "where the log lines": ("| dropped: face | 1 |", "| dropped: face | 0 |"),
}


@pytest.mark.parametrize("told", CARD)
def test_a_line_of_the_card_that_the_manifest_does_not_say_is_found(own_release, told):
    card_says(own_release, *CARD[told])
    (problem,) = problems_of(own_release)
    assert problem.startswith("README.md: ") and told in problem


@pytest.mark.parametrize(("config", "place"), [*(("chat", place) for place in range(1, 9)), ("battle", 4)])
def test_a_statistic_of_the_card_that_is_not_that_of_the_rows_is_found(own_release, config, place):
    card = (own_release / "README.md").read_text(encoding="utf-8")
    (line,) = [line for line in card.splitlines() if line.startswith(f"| **this release, {config}** |")]
    cells = line.strip("| ").split(" | ")
    cells[place] = cells[place][:-1] + str((int(cells[place][-1]) + 1) % 10)
    card_says(own_release, line, f"| {' | '.join(cells)} |")
    (problem,) = problems_of(own_release)
    assert problem.startswith(f"README.md: statistics of {config} are not those of its rows")


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
    assert any(told in problem for problem in problems_of(own_release))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("2001:db8::17", "ip"), ("10.1.2.3", "ip"), ("a.b%40example.com", "email"), ("a.b&#64;example.com", "email"),
        ("%2Fhome%2Falice", "path"), ("２０３.０.１１３.７", "ip"), (base64.b64encode(HOME).decode(), "path"),
        ("data of " + base64.b64encode(b"alice@example.com").decode().rstrip("="), "email"),
        (r"\\server\alice", "path"), ("~/logs", "path"),
    ],
)  # fmt: skip
def test_an_identifier_is_found_also_in_other_characters_and_of_a_private_network(own_release, value, kind):
    change_row(own_release, BATTLE, model_b=value)
    assert f"battle/train-00000-of-00001.parquet: model_b holds an identifier: {kind}" in problems_of(own_release)


def test_a_release_of_the_layout_before_votes_were_checked_is_whole_without_the_counts(own_release):
    shutil.rmtree((own_release / VOTE_CHECKS).parent)
    for name in (CERTIFICATE, PAGE):
        (own_release / name).unlink()
    card = own_release / "README.md"
    before, _, rest = card.read_text("utf-8").partition(CERTIFICATE_TITLE)
    card.write_text(before + "## " + rest.partition("\n## ")[2], "utf-8")
    later = shutil.copytree(own_release, own_release.parent / "later")
    as_of_layout(own_release, 6)
    assert problems_of(own_release) == []
    reseal(later)
    assert any(VOTE_CHECKS in problem for problem in problems_of(later))


def test_a_release_made_before_unknown_names_were_left_out_is_whole_by_the_rule_of_its_time(own_release):
    def without_names(rows):
        for row in rows[::2]:
            row["conv_metadata"]["a"]["entities"] = None
        return rows

    rewrite(own_release, BATTLE, without_names)
    manifest = Manifest.model_validate(manifest_of(own_release))
    policy = Policy.model_validate(manifest.policy)
    votes = tables_of(own_release, manifest.settings, policy, unknown_style_as_mean=True)
    board = frame_of(Rating, votes.by_slice.styled[0])
    write_table(own_release, "leaderboard", board, "leaderboard/style_control")
    reseal(own_release)
    assert any("style_control.parquet: not what the votes" in problem for problem in problems_of(own_release))
    as_of_layout(own_release, STYLE_SINCE - 1)
    assert problems_of(own_release) == []


def test_a_release_of_the_layout_of_other_ranks_is_whole_by_its_votes_and_the_points_between_models(own_release):
    def as_before(rows):
        flags = {"few_votes", "only_ties"}
        return [
            row | {"rating": row["rating"] + 7, "rank": row["rank"] and 1, "flags": [*{*row["flags"]} - flags]}
            for row in rows
        ]

    boards = sorted((own_release / "leaderboard").glob("*.parquet"))
    for path in boards:
        rewrite(own_release, f"leaderboard/{path.name}", as_before)
        add_file(own_release, f"leaderboard/{path.stem}.csv", board_csv(pl.read_parquet(path)).encode())
    assert any("overall.parquet: not what the votes" in problem for problem in problems_of(own_release))
    as_of_layout(own_release, RANKS_SINCE - 1)
    assert problems_of(own_release) == []
    _better(own_release)
    assert any("overall.parquet: not what the votes" in problem for problem in problems_of(own_release))
