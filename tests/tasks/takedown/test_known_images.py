"""A release that shows a conversation with a known image is withdrawn; others stay."""

import pytest

from schemas.reject import Quarantined
from tasks.release.build import MANIFEST, WITHDRAWN
from tasks.storage.tables import frame_of
from tasks.takedown.releases import withdraw_known
from tests.small_store import make_release, small_store


def held(store, key: str, cause: str) -> None:
    rows = [Quarantined(kind="conversation", key=key, cause=cause)]
    store.replace("quarantine", frame_of(Quarantined, rows))


def files(store) -> set[str]:
    return {path.rsplit("/releases/v1/", 1)[1] for path in store.fs.find(store.at("releases/v1"))}


@pytest.mark.parametrize("cause", ["known_hash", "flagged"])
def test_a_release_with_an_image_that_is_quarantined_by_now_keeps_only_its_manifest(tmp_path, cause):
    store = small_store(tmp_path)
    make_release(store, release="v1")
    held(store, "c03", cause)
    assert withdraw_known(store) == ["v1"]
    assert files(store) == {MANIFEST, WITHDRAWN}
    assert withdraw_known(store) == []


def test_a_release_without_one_stays(tmp_path):
    store = small_store(tmp_path)
    make_release(store, release="v1")
    before = files(store)
    held(store, "elsewhere", "known_hash")
    assert withdraw_known(store) == []
    assert files(store) == before
