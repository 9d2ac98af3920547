"""What was not measured is not released; a rule that waits for a provider is none without one."""

import pytest

from flows.products import item_findings
from schemas.policy import OnMissing, Over
from schemas.settings import Settings
from tasks.policy.policy_file import load_policy
from tasks.policy.steps import decide_items, find_near_images, redact_items
from tasks.storage.content_id import text_id
from tests.builders import VERSIONS, battle, conversation, facts_frame, sides

READ = "A sign"


def _cases() -> dict[str, tuple[str, str]]:
    """Name of a conversation -> the signal it lacks and on which of its parts; every signal that the policies use."""
    places = {Over.IMAGES: "image", Over.IMAGE_TEXTS: "image text", Over.ASSISTANT_MESSAGES: "answer"}
    cases = {}
    for policy in ("public_release", "internal"):
        for rule in load_policy(policy).rules:
            signal = rule.signal.partition(".")[0]
            if signal not in ("conversation", "battle"):
                for place in [places[rule.over]] if rule.over in places else ["question", "answer"]:
                    cases[f"{signal} of {place}"] = (signal, place)
    return cases | {"image_text of image": ("image_text", "image")}


CASES = _cases()


def _subjects_and_facts():
    subjects, facts = [], {"image_text": {}, "text_pii": {}, "service_text": {}}
    for name, (signal, place) in CASES.items():
        read = f"A sign that says {name}"
        subject = conversation(name, f"What is {name}?", f"It is {name}.", image_ids=[text_id(f"image of {name}")])
        facts["image_text"][subject.image_ids[0]] = {"text": read, "line_count": 1}
        facts["text_pii"][text_id(read)] = facts["service_text"][text_id(read)] = {}
        places = {
            "image": subject.image_ids[0],
            "image text": text_id(read),
            "question": subject.turns[0].text_id,
            "answer": subject.turns[1].text_id,
        }
        facts.setdefault(signal, {})[places[place]] = None
        subjects.append(subject)
    return subjects, facts


@pytest.mark.parametrize("policy", ["public_release", "internal"])
def test_one_missing_fact_of_one_part_is_enough_to_drop(deciding, policy):
    subjects, facts = _subjects_and_facts()
    deciding.policy = policy
    decided = deciding.given([*subjects, conversation("measured")], facts=facts).decide()
    unread = {"image_text of image": ["unmeasured_text_pii"]}
    expected = {name: unread.get(name, [f"unmeasured_{signal}"]) for name, (signal, _) in CASES.items()}
    assert {name: row["reasons"] for name, row in decided.items()} == expected | {"measured": []}
    assert [name for name, row in decided.items() if row["keep"]] == ["measured"]


def test_a_fact_of_an_older_version_does_not_count(deciding):
    subject = conversation("c", image_ids=["1" * 32])
    deciding.given([subject])
    deciding.store.replace("signals/nsfw", facts_frame("nsfw", {"1" * 32: {}}, version="0"))
    assert deciding.reasons() == {"c": ["unmeasured_nsfw"]}


def test_nothing_measured_at_all_keeps_nothing(deciding):
    both = sides("b", image_ids=["1" * 32])
    deciding.given([*both, conversation("c")], [battle(*both)])
    for signal in ("nsfw", "faces", "text_pii", "service_text", "model_names", "image_text", "text_embedding"):
        deciding.store.replace(f"signals/{signal}", facts_frame(signal, {}))
    decided = deciding.decide()
    assert len(decided) == 4
    assert not any(row["keep"] for row in decided.values())


def test_a_score_that_is_not_a_number_is_no_all_clear(deciding):
    subject = conversation("c", image_ids=["1" * 32])
    decided = deciding.given([subject], facts={"nsfw": {"1" * 32: {"nsfw_probability": float("nan")}}}).decide()
    assert not decided["c"]["keep"]


def test_a_battle_whose_side_is_gone_is_dropped(deciding):
    left, right = sides("b")
    decided = deciding.given([left], [battle(left, right)]).decide()
    assert decided["b"]["keep"]
    assert decided["battle:b"]["reasons"] == ["unmeasured_conversation"]


def test_a_policy_may_say_that_a_missing_fact_does_not_matter(deciding):
    rule = "{reason: face, signal: faces.confidence_max, over: images, at_least: 0.5, on_missing: ignore}"
    subject = conversation("c", image_ids=["1" * 32])
    deciding.given([subject], facts={"faces": {"1" * 32: None}}).under(f"name: lax\nrules: [{rule}]")
    assert deciding.reasons() == {"c": []}


def test_the_shipped_policies_never_ignore_a_missing_fact():
    rules = [rule for name in ("public_release", "internal", "upstream") for rule in load_policy(name).rules]
    ignoring = {rule.signal for rule in rules if rule.on_missing is not OnMissing.DROP}
    assert ignoring == {"conversation.single_turn_prompt_characters"}  # longer conversations have none


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
    find_near_images.fn(settings, versions)
    for step in (redact_items, decide_items):
        step.fn(settings, versions, item_findings)
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
