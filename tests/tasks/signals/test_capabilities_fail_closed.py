"""Whatever a capability fails with: no verdict is stored, nothing it guards is released, and it is asked again."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from flows.products import item_findings
from schemas.run import Funnel
from schemas.settings import Settings
from tasks.policy.steps import decide_items, find_near_images, redact_items
from tasks.signals.steps import catch_up_images, measure_documents, measure_redacted, measure_texts, signal_versions
from tasks.storage.queries.signals import table_name
from tasks.storage.records import funnel
from tasks.storage.tables import Store
from tests.builders import conversation, drawn_image, image, store_with
from tests.small_store import _sightings
from tests.tasks.signals.conftest import CountingProviders

GUARDS = {
    "nsfw": "nsfw", "faces": "faces", "image_text": "text_pii", "text_pii": "text_pii", "moderation": "moderation",
    "image_moderation": "image_moderation",
}  # fmt: skip
"""Capability -> the signal whose absence forbids a release."""
DESCRIBES = (
    "image_embedding", "text_embedding", "language", "tokens", "refusal", "named_entities", "categories", "criteria",
    "taxonomy",
)  # fmt: skip
"""Capabilities that only describe: without them a column is null."""
WAYS = ("is down", "refuses")


def measurable(folder: Path) -> Settings:
    """Settings of a store with two conversations of which nothing is measured."""
    images = [drawn_image(seed) for seed in range(2)]
    chats = [
        conversation(f"c{n}", f"Question {n}?", f"Answer {n}.", image_ids=[p.image_id], line=n + 1)
        for n, p in enumerate(images)
    ]
    store = store_with(folder, conversations=chats, images=[image(each) for each in images])
    store.replace("sightings", _sightings(chats))
    return Settings(store=store.root, policy="internal", workers=1)


def run(settings, counting) -> tuple[dict[str, int], dict[str, int]]:
    """(calls, failures) of all measuring, with the decisions in between."""
    reports = [catch_up_images.fn(settings, counting), measure_texts.fn(settings, counting, "screen", False)]
    versions = signal_versions(counting)
    find_near_images.fn(settings, versions)
    redact_items.fn(settings, versions, item_findings)
    reports.append(measure_redacted.fn(settings, counting))
    decide_items.fn(settings, versions, item_findings)
    reports += [measure_texts.fn(settings, counting, "describe", True), measure_documents.fn(settings, counting)]
    calls = {name: n for report in reports for name, n in report.model_calls.items()}
    return calls, {name: n for report in reports for name, n in report.failures.items()}


def broken(counting, capability: str, way: str) -> None:
    if way == "is down":
        counting.down.add(capability)
    else:
        counting.fails[capability] = lambda item: True


def kept(store) -> list[str]:
    return store.read("decisions").filter("keep")["item_id"].sort().to_list()


class Night(NamedTuple):
    """What a run left in the store, and reported."""

    calls: dict[str, int]
    failures: dict[str, int]
    parts: list[str]
    kept: list[str]
    funnel: Funnel


def night(settings, counting, capability: str) -> Night:
    calls, failures = run(settings, counting)
    store = Store(settings.store)
    return Night(calls, failures, store.parts(table_name(capability)), kept(store), funnel(store))


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """Capability -> nights in which it failed in each way, and the night after them."""

    @cache
    def of(capability: str) -> list[Night]:
        settings, counting = measurable(tmp_path_factory.mktemp("nights")), CountingProviders()
        failed = []
        for way in WAYS:
            broken(counting, capability, way)
            failed.append(night(settings, counting, capability))
            counting.down.clear()
            counting.fails.clear()
        return [*failed, night(settings, counting, capability)]

    return of


FAILING = range(len(WAYS))


@pytest.mark.parametrize("way", FAILING, ids=WAYS)
@pytest.mark.parametrize("capability", [*GUARDS, *DESCRIBES])
def test_a_failure_is_counted_under_its_capability_alone(nights, capability, way):
    assert [name.partition(":")[0] for name in nights(capability)[way].failures] == [capability]


@pytest.mark.parametrize("way", FAILING, ids=WAYS)
@pytest.mark.parametrize("capability", [*GUARDS, *DESCRIBES])
def test_a_failure_is_never_stored(nights, capability, way):
    assert nights(capability)[way].parts == []


@pytest.mark.parametrize("way", FAILING, ids=WAYS)
@pytest.mark.parametrize("capability", GUARDS)
def test_a_failure_releases_nothing_that_it_guards(nights, capability, way):
    failed = nights(capability)[way]
    unmeasured = f"unmeasured_{GUARDS[capability]}"
    dropped_by = {unmeasured: 2, "superseded": 1}
    assert (failed.kept, failed.funnel.kept, failed.funnel.dropped_by) == ([], 0, dropped_by)


@pytest.mark.parametrize("way", FAILING, ids=WAYS)
@pytest.mark.parametrize("capability", DESCRIBES)
def test_a_description_that_is_missing_forbids_nothing(nights, capability, way):
    assert nights(capability)[way].kept == ["c0", "c1"]


@pytest.mark.parametrize("capability", [*GUARDS, *DESCRIBES])
def test_a_failure_is_asked_again(nights, capability):
    *_, after = nights(capability)
    assert after.failures == {} and after.calls[capability] > 0


@pytest.mark.parametrize("capability", [*GUARDS, *DESCRIBES])
def test_what_failed_is_kept_once_it_is_measured(nights, capability):
    assert nights(capability)[-1].kept == ["c0", "c1"]


@pytest.mark.parametrize("capability", GUARDS)
def test_one_item_that_fails_holds_back_its_own_conversation_alone(tmp_path, counting, capability):
    settings = measurable(tmp_path)
    store = Store(settings.store)
    guarded = store.read("conversations").row(0, named=True)
    parts = {guarded["image_ids"][0], *(turn["content"] for turn in guarded["turns"])}
    counting.fails[capability] = lambda item: getattr(item, "image_id", item) in parts
    run(settings, counting)
    assert kept(store) == [item for item in ("c0", "c1") if item != guarded["conversation_id"]]


def test_every_capability_that_measures_is_one_or_the_other():
    from tasks.providers import MAKERS, PROVIDERS

    names_only = {"topic_names", "failure_types", "objects"}  # a topic is called by its words, a failure is undecided
    assert {*GUARDS, *DESCRIBES} | names_only == set(PROVIDERS) - MAKERS
