"""What somebody who changes a release and makes all its checksums fit cannot hide from `curate verify`."""

import base64
import json
import os

import pyarrow.parquet as pq
import pytest

from flows.products import problems_of
from schemas.errors import BadInput
from tests.builders import image_bytes
from tests.small_store import manifest_of
from tests.tampered_release import BATTLE, CHAT, add_file, card_says, change_row, reseal, rewrite, write_manifest

HOME = b"/home/alice/logs"


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


TOLD = {
    "its metadata has keys that no release has: b'author'": _with_metadata,
    "its metadata holds an identifier: path": _with_comment,
    "it has bytes that belong to no column": _with_bytes_between,
    "its pages cannot be read": lambda r: _broken_page(r, CHAT),
    "leaderboard/overall.parquet: its pages cannot be read": lambda r: _broken_page(r, "leaderboard/overall.parquet"),
    "chat/train-00000-of-00001.parquet: its pages cannot be read": _no_text,
    "leaderboard/overall.csv: not what overall.parquet says": lambda r: _edited(
        r, "leaderboard/overall.csv", b"1", b"9"
    ),
    "1 images are not the same in every row": _other_image,
    "chat: its rows do not show the images": lambda r: write_manifest(r, images={}),
    "the address for removals is not what": _other_contact,
    "report/alice: no release has it": lambda r: (r / "report" / "alice").mkdir(),
    "chat/pipe: no release has it": lambda r: os.mkfifo(r / "chat" / "pipe"),
    "tstamp is no time": lambda r: change_row(r, CHAT, tstamp=float("nan")),
    "its front matter": lambda r: card_says(r, "---\npretty_name", "---\nx: " + "[" * 5000 + "\npretty_name"),
}
"""What is told -> what was done."""


@pytest.mark.parametrize("told", TOLD)
def test_a_change_under_fitting_checksums_is_found(own_release, told):
    TOLD[told](own_release)
    assert any(told in problem for problem in problems_of(own_release))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("2001:db8::17", "ip"),
        ("10.1.2.3", "ip"),
        ("a.b%40example.com", "email"),
        ("a.b&#64;example.com", "email"),
        ("%2Fhome%2Falice", "path"),
        ("２０３.０.１１３.７", "ip"),
        (base64.b64encode(HOME).decode(), "path"),
        ("data of " + base64.b64encode(b"alice@example.com").decode().rstrip("="), "email"),
        (r"\\server\alice", "path"),
        ("~/logs", "path"),
    ],
)
def test_an_identifier_is_found_also_in_other_characters_and_of_a_private_network(own_release, value, kind):
    change_row(own_release, BATTLE, model_b=value)
    assert f"battle/train-00000-of-00001.parquet: model_b holds an identifier: {kind}" in problems_of(own_release)


@pytest.mark.parametrize("content", ["[" * 100_000, '{"version": "/home/alice", "version": "1"}'])
def test_a_manifest_that_hides_or_overwhelms_is_one_clear_error(own_release, content):
    (own_release / "manifest.json").write_text(content)
    with pytest.raises(BadInput, match="is not a manifest this version understands"):
        problems_of(own_release)


def test_a_name_that_is_twice_in_the_manifest_is_an_error(own_release):
    text = json.dumps(manifest_of(own_release))
    (own_release / "manifest.json").write_text('{"software": "/home/alice", ' + text[1:])
    with pytest.raises(BadInput, match="is not a manifest this version understands"):
        problems_of(own_release)


def test_who_names_a_store_is_told_which_releases_it_holds(own_store, tmp_path):
    root = own_store.root
    for folder in (root, f"{root}/releases"):
        with pytest.raises(BadInput, match=r"holds 1 releases \('first'\): name one, such as '.*releases/first'"):
            problems_of(type(tmp_path)(folder))
    with pytest.raises(BadInput, match="there is no such folder"):
        problems_of(tmp_path / "nope")
