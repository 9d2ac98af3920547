"""What the explorer of a release shows: its files, on a server and as static pages."""

import hashlib
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from schemas.benches.certificate import VoteCheck
from schemas.errors import BadInput
from schemas.publication import Bump, ReleaseDiff, RowChange
from schemas.rating import Fragility
from tasks.explore.of_release import OfRelease
from tasks.explore.pages import ASSETS, DECK, compared_topics_page
from tasks.explore.static_pages import export_pages
from tasks.explore.topic_map import MATCHED, compared_topics
from tasks.release.registered import FRAGILITY, VOTE_CHECKS, write_table
from tasks.shown import Comparison, item_key
from tasks.storage.tables import frame_of
from tests.disk_steps import full_at
from tests.looked_store import client, strict
from tests.small_store import HOSTILE_MODEL, manifest_of
from tests.tampered_release import CHAT, rewrite

DECK_SHA256 = "5874d3536e9544c50b8cb419acc8046370de4557c6e1070635f5195a621eedb9"
"""Of dist.min.js in deck.gl-9.1.15.tgz of the npm registry."""


@pytest.fixture
def own_release(small_release, tmp_path) -> Path:
    return Path(shutil.copytree(small_release, tmp_path / "release"))


@pytest.fixture(scope="module")
def site(of_release, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "site"
    export_pages(of_release, folder, 5_000, None)
    return folder


def test_the_vendored_bundle_is_the_published_one():
    assert hashlib.sha256(ASSETS[DECK].read_bytes()).hexdigest() == DECK_SHA256


def test_every_row_is_listed_with_its_topic_and_image(of_release, small_release):
    counts = manifest_of(small_release)["counts"]
    listing = of_release.listing
    kinds = dict(listing["kind"].cast(pl.String).value_counts().iter_rows())
    assert kinds == {
        "conversation": counts["chat"],
        "battle": counts["battle"],
        "prompt": counts["bench"],
        "failed prompt": counts["failures"],
    }
    assert listing["x"].null_count() == 0 and listing["topic"].null_count() == 0
    for image_id in listing["image_ids"].explode().drop_nulls().unique():
        assert of_release.image(image_id).startswith((b"\x89PNG", b"\xff\xd8"))


def test_pages_need_no_token_are_strict_and_boards_show_every_model_with_its_interval(of_release):
    visitor = client(of_release)
    pages = ["/", "/topics", "/boards", *(f"/items/{key}" for key in of_release.listing["key"])]
    for address in pages:
        answer = visitor.get(address)
        assert answer.status_code == 200
        strict(answer.text)
    assert visitor.get("/dropped").status_code == 404
    assert visitor.get("/", headers={"host": "evil.test"}).status_code == 403
    page = client(of_release).get("/boards?slice=overall").text
    assert page.count('class="interval"><svg') == 3 and "Who beats whom" in page
    assert HOSTILE_MODEL not in page and "&lt;script src=" in page


def test_boards_say_how_few_votes_change_them(own_release, small_release):
    names = {"model": HOSTILE_MODEL, "rival": "b", "difference": 12.34, "of": 900, "unit": "vote", "place": 1}
    needed = {"needed": 33, "needed_fraction": 33 / 900, "flags": []}
    kinds = [("removed", needed), ("reversed", {"needed": None, "needed_fraction": None, "flags": ["not_found"]})]
    rows = [Fragility(slice="overall", contest="neighbours", change=kind, **names, **told) for kind, told in kinds]
    assert "How few votes" not in client(OfRelease(small_release, "r", lambda: "")).get("/boards?slice=overall").text
    write_table(own_release, FRAGILITY, frame_of(Fragility, rows))
    page = client(OfRelease(own_release, "r", lambda: "")).get("/boards?slice=overall").text
    assert (
        "How many of 900 votes must be removed or reversed" in page
        and "33 (3.67 %)" in page
        and HOSTILE_MODEL not in page
    )
    assert (
        '<td class="n" data-head="Points apart">12.3</td>' in page
        and '<td class="n" data-head="Reversed">–</td>' in page
    )


def test_the_overall_board_says_how_many_votes_look_wrong_and_how_many_do_not_count(own_release):
    checks = [
        VoteCheck(check="suspects", voters=2, votes=1_234, counted=0.0, note=""),
        VoteCheck(check="not_in_full", voters=None, votes=1_240, counted=3.5, note=""),
        VoteCheck(check="fast", voters=None, votes=None, counted=None, note="needs times"),
    ]
    write_table(own_release, VOTE_CHECKS, frame_of(VoteCheck, checks))
    page = client(OfRelease(own_release, "r", lambda: "")).get("/boards?slice=overall").text
    shown = page.partition("Votes that look wrong")[2].partition("</table>")[0]
    assert (
        shown.index("not in full")
        < shown.index("1,240")
        < shown.index("3.5")
        < shown.index("suspects")
        < shown.index("1,234")
    )
    assert "fast" not in shown


def test_a_withdrawn_release_is_not_shown_any_more(small_release):
    reasons: list[str] = []
    visitor = client(OfRelease(small_release, "1.0.0", lambda: "".join(reasons)))
    reasons.append("retention did not keep its data")
    assert visitor.get("/").status_code == 410
    assert "withdrawn: retention did not keep its data" in visitor.get("/").text
    assert visitor.get("/topics/points.js").status_code == 404


def test_a_damaged_shard_is_named_and_without_a_map_there_are_no_topics(own_release):
    (own_release / CHAT).write_bytes(b"PAR1 broken PAR1")
    visitor = client(OfRelease(own_release, "1.0.0", lambda: ""))
    page = visitor.get("/").text
    assert f"{CHAT} cannot be read (ArrowInvalid) and is left out" in page and "vs" in page
    (own_release / "topics" / "map.parquet").unlink()
    assert "There are no topics" in client(OfRelease(own_release, "1.0.0", lambda: "")).get("/topics").text
    without = OfRelease(own_release, "1.0.0", lambda: "")
    assert compared_topics(without.listing, without.listing) == []


@pytest.mark.parametrize("name", ["{outside}/image.png", "../../image.png", "x\0y.png", "", None])
def test_an_image_with_a_name_that_is_a_path_is_written_nowhere(own_release, tmp_path, name):
    (outside := tmp_path / "outside").mkdir()

    def renamed(rows):
        path = name and name.format(outside=outside)
        return [row | {"images": [image | {"path": path} for image in row["images"]]} for row in rows]

    rewrite(own_release, CHAT, renamed)
    export_pages(OfRelease(own_release, "1.0.0", lambda: ""), tmp_path / "site", 100, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside", "release", "site"]
    assert list(outside.iterdir()) == []


def test_a_comparison_says_what_came_left_and_changed(of_release):
    first = of_release.listing.row(0, named=True)
    config = {"conversation": "chat", "battle": "battle", "prompt": "bench", "failed prompt": "failures"}[first["kind"]]
    changes = [
        RowChange(config=config, id=first["id"], change="added", columns=[], why=[]),
        RowChange(config="chat", id="<b>gone", change="removed", columns=[], why=["face"]),
    ]
    found = ReleaseDiff(
        rules=["policy now drops: face: <i>"], schema_changes=[], rows={"chat added": 1, "chat removed": 2}, columns={},
        why={"chat": {"face": 2}}, bump=Bump.MINOR, bump_why=["rows came and left"], next_version="1.1.0",
    )  # fmt: skip
    now = of_release.boards().filter(slice="overall")
    earlier = now.with_columns(pl.col("rating") - 30, rank=pl.lit(4, pl.Int32), battles=pl.lit(1_000, pl.Int32))
    browser = client(of_release, Comparison("0.9.0", found, changes, earlier))
    page = browser.get("/compare").text
    strict(page)
    assert f"/items/{item_key(first['kind'], first['id'])}" in page and "&lt;b&gt;gone" in page and "face: 2" in page
    assert page.count("+30.0") == now.height and f"4 → {now['rank'][0]}" in page and "1,000 →" in page
    browser.cookies.clear()
    assert browser.get("/compare").status_code == 403  # the reasons are the store's


def test_static_pages_are_strict_and_every_link_leads_to_a_file(site, of_release):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > of_release.listing.height
    for page in pages:
        html = page.read_text(encoding="utf-8")
        assert "Content-Security-Policy" in html and "script-src &#39;self&#39;" in html
        for address in strict(html):
            path = address.partition("#")[0]
            assert not path or (page.parent / path).is_file(), (page.name, address)
    addresses = re.findall(r'"((?:items|thumbs)/[^"]+)"', (site / "data" / "rows.js").read_text(encoding="utf-8"))
    assert addresses and all((site / each).is_file() for each in addresses)
    assert {path.name for path in (site / "static").iterdir()} == set(ASSETS)


def test_the_same_release_gives_the_same_pages_and_a_sample_says_that_it_is_one(site, of_release, tmp_path):
    export_pages(of_release, tmp_path / "again", 5_000, None)
    files = {path.relative_to(site) for path in site.rglob("*") if path.is_file()}
    assert all((site / file).read_bytes() == (tmp_path / "again" / file).read_bytes() for file in files)
    assert export_pages(of_release, tmp_path / "site", 4, None) == 4
    assert f"A sample of 4 of {of_release.listing.height}" in (tmp_path / "site" / "index.html").read_text(
        encoding="utf-8"
    )
    assert len(list((tmp_path / "site" / "items").iterdir())) == 4


def test_an_export_replaces_nothing(of_release, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    with pytest.raises(BadInput, match="not an empty folder; name a new one"):
        export_pages(of_release, tmp_path / "full", 10, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full"]


def test_pages_of_a_store_are_not_exported(of_store, tmp_path):
    with pytest.raises(BadInput, match="a store is private; export a release of it"):
        export_pages(of_store, tmp_path / "store", 10, None)
    assert [*tmp_path.iterdir()] == []


def test_an_export_that_finds_no_room_leaves_nothing_half_done(of_release, tmp_path):
    with full_at(rf"^{tmp_path}/.*/index.html"), pytest.raises(OSError, match="No space left"):
        export_pages(of_release, tmp_path / "broken", 10, None)
    assert [*tmp_path.iterdir()] == []


def _placed(*rows: tuple[str, str, int]) -> pl.DataFrame:
    """A listing of conversations: (key, topic, number of the topic)."""
    frame = pl.DataFrame(rows, schema=["key", "topic", "topic_id"], orient="row")
    return frame.with_columns(kind=pl.lit("conversation"), x=pl.lit(0.0), image_ids=pl.concat_list("key"))


def test_topics_of_two_releases_are_matched_by_the_rows_of_both_then_by_name_and_the_rest_stands_alone():
    one = _placed(
        *((f"a{n}", "charts", 0) for n in range(4)), ("b", "memes", 1), ("c", "cats", 2), ("d", "outliers", -1)
    )
    two = _placed(
        *((f"a{n}", "bars, charts", 5) for n in range(3)), ("a3", "memes", 6), ("z", "cats", 7), ("y", "maps", 8)
    )  # fmt: skip
    rows = {(row.name, row.other): row for row in compared_topics(one, two)}
    assert {names: row.matched for names, row in rows.items()} == {
        ("charts", "bars, charts"): "shared rows", ("memes", "memes"): "name", ("cats", "cats"): "name",
        ("", "maps"): "",
    }  # fmt: skip
    charts = rows["charts", "bars, charts"]
    assert (charts.rows, charts.share, charts.other_share) == (4, 4 / 7, 3 / 6), "outliers are of the whole"
    assert charts.images == ["a0", "a1", "a2", "a3"] and rows["", "maps"].share == 0


def test_the_page_of_two_releases_topics_holds_their_pictures_and_no_script(of_release):
    rows = compared_topics(of_release.listing, of_release.listing)
    assert rows and all((row.name, row.share) == (row.other, row.other_share) for row in rows)
    page = compared_topics_page(rows, (of_release, of_release))
    assert "data:image/webp;base64," in page and "<script" not in page and "http" not in page.partition("<body>")[2]
    assert MATCHED in page
