"""Semantic near-duplicates: a relation of its own, kept up by night, that drops nothing unless a policy says so."""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.errors import BadPolicy
from schemas.items.image import RedactedImage
from schemas.policy import SemanticImages
from tasks.dedup.near_images import update_semantic_images
from tasks.policy.policy_file import load_policy
from tasks.storage.tables import Store, frame_of
from tests.builders import NOON, VERSIONS, conversation, facts_frame, image

IDS = [f"{number:032x}" for number in range(9)]
RADIUS = SemanticImages(cosine_min=0.9)
TURNS = {name: 0.2 * place for place, name in enumerate(IDS)}
"""Each is 0.2 from the next: cosine 0.98 to its neighbour, 0.92 to the second, 0.83 to the third."""


def _vector(angle: float) -> dict[str, list[float]]:
    return {"vector": [float(np.cos(angle)), float(np.sin(angle))]}


def _hold(store: Store, names: set[str], version: str = "1") -> None:
    """The store holds these images, in two parts."""
    store.replace("signals/image_embedding", store.empty("signals/image_embedding"))
    for some in (sorted(names)[::2], sorted(names)[1::2]):
        store.append(
            "signals/image_embedding", facts_frame("image_embedding", {n: _vector(TURNS[n]) for n in some}, version)
        )


def _pairs(store: Store) -> list[tuple[str, str]]:
    return store.read("semantic_images").select("image_a", "image_b").rows()


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sets(st.sampled_from(IDS)), min_size=1, max_size=3))
def test_nights_give_the_table_that_one_search_gives(tmp_path_factory, monkeypatch, nights):
    monkeypatch.setattr("tasks.dedup.near_images.NEW_AT_ONCE", 2)
    by_night, at_once = (Store.open(str(tmp_path_factory.mktemp("store"))) for _ in range(2))
    for names in nights:
        _hold(by_night, names)
        update_semantic_images(by_night, RADIUS, VERSIONS)
    _hold(at_once, nights[-1])
    update_semantic_images(at_once, RADIUS, VERSIONS)
    for table in ("semantic_images", "searched_vectors"):
        assert by_night.read(table).equals(at_once.read(table))
    names = sorted(nights[-1])
    near = [(a, b) for a in names for b in names if a < b and TURNS[b] - TURNS[a] < 0.45]
    assert _pairs(at_once) == near


@pytest.fixture
def store(tmp_path) -> Store:
    store = Store.open(str(tmp_path))
    _hold(store, set(IDS[:3]))
    return store


def _searched(store: Store, radius: SemanticImages | None = RADIUS, version: str = "1") -> int:
    return update_semantic_images(store, radius, VERSIONS | {"image_embedding": version})["semantic_searched"]


def test_only_new_images_are_searched_for(store):
    assert _searched(store) == 3
    assert _searched(store) == 0
    _hold(store, set(IDS[:4]))
    assert _searched(store) == 1
    assert (IDS[2], IDS[3]) in _pairs(store)


def test_redacted_images_which_deciding_makes_are_near_nothing(store):
    store.append("signals/image_embedding", facts_frame("image_embedding", {IDS[3]: _vector(TURNS[IDS[3]])}))
    made = RedactedImage(**image().model_dump() | {"image_id": IDS[3]}, source_image_id=IDS[0], boxes=[])
    store.append("redacted_images", frame_of(RedactedImage, [made]))
    assert _searched(store) == 3
    assert not {IDS[3]} & {name for pair in _pairs(store) for name in pair}


def test_vectors_of_another_model_are_searched_anew_and_old_pairs_are_forgotten(store):
    _searched(store)
    _hold(store, {IDS[0], IDS[8]}, version="2")
    assert _searched(store, version="2") == 2
    assert _pairs(store) == []


def test_without_a_radius_there_is_no_relation(store):
    _searched(store)
    assert _searched(store, None) == 0
    assert _pairs(store) == []


def _mirrored(deciding, images: str) -> dict:
    """Two chats with one question: an image, and its mirror image, whose embedding alone is near."""
    chats = [
        conversation("original", "What is this?", "A cat.", image_ids=[IDS[0]]),
        conversation("mirrored", "What is this?", "Cat.", image_ids=[IDS[1]], tstamp=NOON + timedelta(minutes=1)),
    ]
    deciding.given(chats, facts={"image_embedding": {name: _vector(TURNS[name]) for name in IDS[:2]}})
    decided = deciding.under(f"name: mine\nrules: []\nduplicates: {{images: {images}}}").decide()
    assert _pairs(deciding.store) == [(IDS[0], IDS[1])]
    return decided


def test_the_relation_alone_drops_nothing(deciding):
    assert all(row["keep"] for row in _mirrored(deciding, "near").values())


def test_a_policy_may_let_it_drop_and_the_match_is_named(deciding):
    decided = _mirrored(deciding, "semantic")
    assert (decided["mirrored"]["reasons"], decided["mirrored"]["duplicate_of"]) == (["duplicate"], "original")


def test_semantic_groups_are_no_chains(deciding):
    chats = [
        conversation(f"c{n}", "What is this?", f"{n}.", image_ids=[name], tstamp=NOON + timedelta(minutes=n))
        for n, name in enumerate(IDS[:7])
    ]
    deciding.given(chats, facts={"image_embedding": {name: _vector(TURNS[name]) for name in IDS[:7]}})
    decided = deciding.under("name: mine\nrules: []\nduplicates: {images: semantic}").decide()
    twins = {item: row["duplicate_of"] for item, row in decided.items() if row["duplicate_of"]}
    assert twins == {"c1": "c0", "c2": "c0", "c4": "c3", "c5": "c3"}


def test_a_policy_that_lets_it_drop_must_say_when(tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text("name: mine\nrules: []\nsemantic_images: null\nduplicates: {images: semantic}")
    with pytest.raises(BadPolicy, match="semantic_images"):
        load_policy(str(file))
