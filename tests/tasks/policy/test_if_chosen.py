"""A rule that waits for a provider: no rule at all without one, and fail-closed with one."""

import pytest

from schemas.settings import Settings
from tasks.policy.steps import decide_items, find_near_images, redact_items
from tests.builders import VERSIONS, conversation

IMAGE = "1" * 32
FLAGGED = {"flagged_probability": 0.9, "flagged_categories": ["violence"]}
UNCHOSEN = {name: version for name, version in VERSIONS.items() if name != "image_moderation"}
ASKING = """
name: mine
rules:
  - {reason: harm, signal: image_moderation.flagged_categories, over: images, contains_any: []}
"""


def decided(deciding, fact, versions, policy="public_release"):
    store = deciding.given([conversation("c", image_ids=[IMAGE])], facts={"image_moderation": {IMAGE: fact}}).store
    settings = Settings(store=store.root, policy=policy)
    for step in (find_near_images, redact_items, decide_items):
        step.fn(settings, versions)
    (row,) = store.read("decisions").to_dicts()
    return row["reasons"], row["tags"]


@pytest.mark.parametrize("policy", ["public_release", "redact"])
def test_an_image_that_the_service_flags_is_dropped(deciding, policy):
    assert decided(deciding, FLAGGED, VERSIONS, policy)[0] == ["image_moderation"]


def test_the_internal_policy_tags_it(deciding):
    assert decided(deciding, FLAGGED, VERSIONS, "internal") == ([], ["image_moderation"])


@pytest.mark.parametrize("policy", ["public_release", "redact", "internal"])
def test_with_a_provider_a_missing_answer_drops(deciding, policy):
    assert decided(deciding, None, VERSIONS, policy)[0] == ["unmeasured_image_moderation"]


@pytest.mark.parametrize("policy", ["public_release", "redact", "internal"])
def test_without_a_provider_nothing_drops_for_it(deciding, policy):
    assert decided(deciding, None, UNCHOSEN, policy)[0] == []


def test_a_rule_that_does_not_wait_drops_everything_without_a_provider(deciding, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(ASKING)
    assert decided(deciding, None, UNCHOSEN, str(file))[0] == ["unmeasured_image_moderation"]
