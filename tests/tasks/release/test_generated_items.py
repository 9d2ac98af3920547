"""Items made on demand in a release: their prompts are `bench` alone, with keys, and stand-ins are named."""

from pathlib import Path

import polars as pl
import pytest

from flows.products import problems_of
from schemas.benches.generated_results import ItemReview
from schemas.items.review import Review
from schemas.release import Manifest
from tasks.generated_bench.generated_file import GENERATED, GENERATED_ITEMS
from tasks.generated_bench.kept_items import kept_items, review_of_generated
from tasks.policy.policy_file import load_policy
from tasks.release.registered import OpenRelease
from tasks.storage.tables import Store, frame_of
from tests.builders import NOON, measure_clean
from tests.generated_bench import NAME, decided, settings_for
from tests.small_store import make_release


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    from schemas.items.conversation import Conversation

    settings = settings_for(tmp_path_factory.mktemp("made"), general=1, fine=1)
    store = decided(settings.model_copy(update={"seed": 2}))  # of seed 0 one prompt is reserved for the hidden split
    measure_clean(store, [Conversation.model_validate(row) for row in store.read("conversations").to_dicts()])
    policy = load_policy("public_release")
    decided_by = store.read("decisions", ["policy_hash"])["policy_hash"][0]
    store.write_bytes(f"policies/{decided_by}.json", policy.model_dump_json().encode())
    return store


@pytest.fixture(scope="module")
def release(store) -> Path:
    """A release from which one item is left out, because raters found it unfit."""
    unfit = kept_items(store, NAME).items[0].item_id
    review = ItemReview(item_id=unfit, rater="r", guided=True, description_fits=False, question_fits=True)
    store.replace("reviews", frame_of(Review, [review_of_generated(review, NOON)]))
    make_release(store, release="1.0.0")
    return Path(store.root) / "releases" / "1.0.0"


def test_prompts_are_in_bench_alone_with_options_and_key(store, release):
    items = {item.item_id: item for item in kept_items(store, NAME).items}
    rows = {row["question_id"]: row for row in pl.read_parquet(release / GENERATED).to_dicts()}
    asked = pl.read_parquet(release / "bench" / "data" / "*.parquet")
    assert rows.keys() == set(asked["question_id"]) == items.keys() and len(items) == 5
    for name, row in rows.items():
        assert (row["key"], row["options"], row["aspect"]) == (items[name].key, items[name].options, items[name].aspect)
        assert row["description"] and row["capability"] == "spatial" and 0.8 <= row["alignment"] <= 1
    assert pl.read_parquet(release / "chat" / "data" / "*.parquet").is_empty(), "not even the one that is left out"
    assert problems_of(release, store) == []


def test_its_stand_ins_are_in_the_manifest_and_so_forbid_publishing(release):
    manifest = Manifest.model_validate_json((release / "manifest.json").read_text())
    assert {"author", "pictures", "viewer"} <= set(manifest.embedded_providers)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"key": pl.lit("Z")}, "a key that names no option"),
        ({"question_id": pl.lit("unknown")}, "'unknown' is no prompt of the benchmark"),
        ({"author": pl.lit("openai")}, "whether author is a stand-in"),
        ({"description": pl.lit("Write to jan.kowalski@example.org.")}, "personal data: email"),
        ({"question": pl.lit("What is at 203.0.113.77?")}, "holds an identifier"),
    ],
)
def test_a_changed_file_does_not_verify(release, tmp_path, changed, told):
    manifest = Manifest.model_validate_json((release / "manifest.json").read_text())
    (tmp_path / "generated").mkdir()
    (tmp_path / "bench").symlink_to(release / "bench")
    rows = pl.read_parquet(release / GENERATED)
    rows.write_parquet(tmp_path / GENERATED)
    opened = OpenRelease(tmp_path, manifest, None)
    assert list(GENERATED_ITEMS.wrong(opened)) == []
    rows.with_columns(**changed).write_parquet(tmp_path / GENERATED)
    assert any(told in each for each in GENERATED_ITEMS.wrong(opened))
    if "key" in changed:
        assert "differ in key, options or description" in next(GENERATED_ITEMS.changed(release, tmp_path))
