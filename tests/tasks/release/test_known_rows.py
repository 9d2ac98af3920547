"""Which rows of a release hold what is in a known benchmark, in a file and in the card."""

from pathlib import Path

import polars as pl

from schemas.benches.known import KnownMatch, KnownSource, ShownAs
from tasks.release.fetched import read_manifest
from tasks.release.known_rows import KNOWN_PART, KNOWN_ROWS
from tasks.release.registered import OpenRelease
from tests.builders import battle, conversation, counted_tokens, sides
from tests.small_store import USER, make_release
from tests.tampered_release import change_row

SOURCE = KnownSource(
    benchmark="ours",
    content="x",
    image_hash="1",
    image_inside="1",
    image_embedding="1",
    pictures=1,
    questions=1,
    unreadable=0,
)


def _release(deciding, **tables) -> Path:
    left, right = sides("b", user_id=USER)
    every = [left, right, *(conversation(name, user_id=USER) for name in ("plain", "shown"))]
    deciding.given(every, [battle(left, right)], {"tokens": counted_tokens(every)}, **tables)
    deciding.decide()
    make_release(deciding.store, rated=False, release="r")
    return Path(deciding.store.root) / "releases" / "r"


def test_a_release_says_which_rows_hold_what_is_in_a_known_benchmark(deciding):
    shown = {"shown_as": ShownAs.SAME, "picture": "p", "question": None, "overlap": None}
    asked = {"shown_as": None, "picture": None, "question": "q", "overlap": 1.0}
    matches = [
        KnownMatch(conversation_id="shown", benchmark="ours", **shown),
        KnownMatch(conversation_id="b-right", benchmark="ours", **asked),
    ]
    release = _release(deciding, known_sources=[SOURCE], known_matches=matches)
    assert pl.read_parquet(release / KNOWN_ROWS).rows() == [
        ("battle", "b", "ours", False, True),
        ("chat", "b-right", "ours", False, True),
        ("chat", "shown", "ours", True, False),
    ]
    card = (release / "README.md").read_text()
    assert "| ours | `chat` | 1 | 1 | 0 |" in card
    assert "| ours | `battle` | 0 | 1 | 0 |" in card
    opened = OpenRelease(release, read_manifest(release), None)
    assert [*KNOWN_PART.wrong(opened)] == []
    change_row(release, KNOWN_ROWS, id="x")
    assert "1 rows are of no released row" in " ".join(KNOWN_PART.wrong(opened))


def test_a_release_without_known_benchmarks_says_nothing_of_them(deciding):
    release = _release(deciding)
    assert not (release / KNOWN_ROWS).exists()
    assert "Known benchmarks" not in (release / "README.md").read_text()
