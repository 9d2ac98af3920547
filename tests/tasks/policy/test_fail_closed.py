"""What was not measured, or is held until somebody has looked, is not released."""

import pytest

from flows.products import item_findings
from schemas.policy import OnMissing, Over
from schemas.settings import Settings
from tasks.policy.policy_file import load_policy
from tasks.policy.steps import decide_items, find_near_images, redact_items
from tasks.review.held import HeldQueue
from tasks.review_queue import review_of
from tasks.storage.content_id import text_id
from tasks.storage.reviews import add_reviews
from tests.builders import NOON, VERSIONS, battle, conversation, facts_frame, sides

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


def test_a_fact_of_an_earlier_version_is_no_all_clear(deciding):
    deciding.given([conversation("c", image_ids=["1" * 32])])
    deciding.store.replace("signals/nsfw", facts_frame("nsfw", {"1" * 32: {}}, version="0"))
    assert deciding.reasons() == {"c": ["unmeasured_nsfw"]}


def test_a_score_that_is_no_number_is_no_all_clear(deciding):
    subject = conversation("c", image_ids=["1" * 32])
    decided = deciding.given([subject], facts={"nsfw": {"1" * 32: {"nsfw_probability": float("nan")}}}).decide()
    assert not decided["c"]["keep"]


def test_a_lost_side_of_a_battle_is_no_all_clear(deciding):
    left, right = sides("b")
    decided = deciding.given([left], [battle(left, right)]).decide()
    assert decided["b"]["keep"]
    assert decided["battle:b"]["reasons"] == ["unmeasured_conversation"]


def test_of_two_measurements_of_one_version_the_first_counts(deciding):
    subject = conversation("c", image_ids=["1" * 32])
    deciding.given([subject], facts={"nsfw": {"1" * 32: {"nsfw_probability": 0.9}}})
    deciding.store.append("signals/nsfw", facts_frame("nsfw", {"1" * 32: {}}))
    assert deciding.reasons() == {"c": ["nsfw_image"]}


def test_nothing_measured_at_all_keeps_nothing(deciding):
    both = sides("b", image_ids=["1" * 32])
    deciding.given([*both, conversation("c")], [battle(*both)])
    for signal in ("nsfw", "faces", "text_pii", "service_text", "model_names", "image_text", "text_embedding"):
        deciding.store.replace(f"signals/{signal}", facts_frame(signal, {}))
    decided = deciding.decide()
    assert len(decided) == 4
    assert not any(row["keep"] for row in decided.values())


def test_a_policy_may_say_that_a_missing_fact_does_not_matter(deciding):
    rule = "{reason: face, signal: faces.confidence_max, over: images, at_least: 0.5, on_missing: ignore}"
    subject = conversation("c", image_ids=["1" * 32])
    deciding.given([subject], facts={"faces": {"1" * 32: None}}).under(f"name: lax\nrules: [{rule}]")
    assert deciding.reasons() == {"c": []}


def test_no_shipped_policy_says_that_a_missing_fact_does_not_matter():
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


def test_an_image_that_the_service_flags_is_tagged_by_the_internal_policy(deciding):
    assert decided(deciding, FLAGGED, VERSIONS, "internal") == ([], ["image_moderation"])


def test_a_rule_that_does_not_wait_for_a_provider_drops_without_one(deciding, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(ASKING)
    assert decided(deciding, None, UNCHOSEN, str(file))[0] == ["unmeasured_image_moderation"]


@pytest.mark.parametrize("policy", ["public_release", "redact", "internal"])
def test_with_a_provider_a_missing_answer_drops(deciding, policy):
    assert decided(deciding, None, VERSIONS, policy)[0] == ["unmeasured_image_moderation"]


@pytest.mark.parametrize("policy", ["public_release", "redact", "internal"])
def test_without_a_provider_nothing_drops_for_it(deciding, policy):
    assert decided(deciding, None, UNCHOSEN, policy)[0] == []


POLICY = """
name: careful
rules:
  - {reason: odd_image, signal: nsfw.nsfw_probability, over: images, at_least: 0.5, action: hold}
  - {reason: nsfw_image, signal: nsfw.nsfw_probability, over: images, at_least: 0.8}
  - {reason: leaked, signal: model_names.names, over: assistant_messages, contains_any: [], action: hold}
"""
ODD, BAD = "1" * 32, "2" * 32
ODD_FACTS = {"nsfw": {ODD: {"nsfw_probability": 0.6}, BAD: {"nsfw_probability": 0.9}}}


@pytest.fixture
def holding(deciding):
    subjects = [conversation("odd", image_ids=[ODD]), conversation("bad", image_ids=[BAD]), conversation("good")]
    return deciding.given(subjects, facts=ODD_FACTS).under(POLICY)


def review(store, verdict):
    """Give every held conversation a verdict."""
    queue = HeldQueue()
    add_reviews(store, [review_of(queue, item, verdict, "", NOON) for item in queue.waiting(store)])


def test_only_what_no_rule_drops_is_held_back(holding):
    decided = holding.decide()
    assert {name: (row["keep"], row["held"]) for name, row in decided.items()} == {
        "odd": (False, True),
        "bad": (False, False),
        "good": (True, False),
    }


def test_what_is_held_says_why(holding):
    assert holding.decide()["odd"]["reasons"] == ["odd_image"]


@pytest.mark.parametrize(("verdict", "keep", "tags"), [("release", True, ["odd_image"]), ("drop", False, [])])
def test_a_verdict_decides_about_what_is_held(holding, verdict, keep, tags):
    holding.decide()
    review(holding.store, verdict)
    row = holding.decide()["odd"]
    assert (row["keep"], row["held"], row["tags"]) == (keep, False, tags)


def test_a_release_does_not_cover_a_reason_that_came_later(holding):
    subject = holding.decide()["odd"]
    review(holding.store, "release")
    answer = holding.store.read("conversations").filter(conversation_id="odd")["turns"][0][1]["text_id"]
    leaked = facts_frame("model_names", {answer: {"names": ["gpt"]}})
    others = holding.store.read("signals/model_names").filter(content_id=answer)
    assert others.height == 1 and subject["held"]
    rest = holding.store.read("signals/model_names").join(others, on="content_id", how="anti")
    holding.store.replace("signals/model_names", rest.vstack(leaked))
    row = holding.decide()["odd"]
    assert (row["keep"], row["reasons"], row["tags"]) == (False, ["leaked"], ["odd_image"])


def test_a_conversation_that_grew_is_held_again(holding):
    holding.decide()
    review(holding.store, "release")
    reviews = holding.store.read("reviews")
    holding.given([conversation("odd", "A", "B", "C", "D", image_ids=[ODD])], facts=ODD_FACTS)
    holding.store.replace("reviews", reviews)
    assert holding.decide()["odd"]["held"]


@pytest.fixture
def held_battle(deciding):
    """A battle that is held for the image of its sides."""
    left, right = sides("b", image_ids=[ODD])
    deciding.given([left, right], [battle(left, right)], facts=ODD_FACTS).under(POLICY)
    assert deciding.decide()["battle:b"]["held"]
    return deciding


def test_what_is_held_is_counted(held_battle):
    settings = Settings(store=held_battle.store.root, policy=held_battle.policy)
    counts = decide_items.fn(settings, VERSIONS, item_findings).counts
    assert counts == {"held_conversations": 2, "held_battles": 1, "conversations": 2, "battles": 1}


def test_a_held_battle_is_released_with_its_sides(held_battle):
    review(held_battle.store, "release")
    assert held_battle.decide()["battle:b"]["keep"]
