"""Every rule of the public policy fires on exactly the fact it names."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.items.conversation import UNDATED_BEFORE, UNDATED_FROM, Conversation
from schemas.items.image import Preset
from schemas.tables import SIGNALS
from tasks.policy import policy_file
from tasks.policy.policy_file import load_policy
from tasks.storage.content_id import text_id
from tests.builders import battle, conversation, sides

POLICY = load_policy("public_release")
PII = ["email", "phone", "card", "iban", "ip", "national_id", "passport", "address", "url_credentials", "api_key"]
IMAGE_PII = ["email", "card", "iban", "national_id", "passport", "url_credentials", "api_key"]
SERVICE = ["moderation_notice", "network_error", "rate_limit", "conversation_limit", "inactivity", "api_error"]

Case = tuple[str, str, str, dict[str, Any]]
"""What fires (nothing when empty), the part of the conversation, the signal, the columns of the fact."""
DROPS: list[Case] = [
    ("nsfw_image", "image", "nsfw", {"nsfw_probability": 0.8}),
    ("nsfw_image", "second image", "nsfw", {"nsfw_probability": 1.0}),
    ("face", "second image", "faces", {"confidence_max": 0.5}),
    *(("pii_text", "question", "text_pii", {"types": [kind]}) for kind in PII),
    ("pii_text", "answer", "text_pii", {"types": ["email", "organisation"]}),
    *(("pii_image", "image text", "text_pii", {"types": [kind]}) for kind in IMAGE_PII),
    *(("service_error", "answer", "service_text", {"kinds": [kind]}) for kind in [*SERVICE, "error_code"]),
    ("moderation", "question", "moderation", {"flagged_categories": ["violence"]}),
    ("moderation", "answer", "moderation", {"flagged_categories": ["hate", "sexual/minors"]}),
    ("service_error", "question", "service_text", {"kinds": ["moderation_notice"]}),
    ("service_error", "answer", "service_text", {"kinds": ["printed_object"]}),
    ("unfinished", "answer", "service_text", {"kinds": ["cursor"]}),
    ("leaked_identity", "answer", "model_names", {"names": ["gpt-4"]}),
]
TAGS: list[Case] = [
    ("person_named", "question", "text_pii", {"types": ["person"]}),
    *(("contact_in_image", "image text", "text_pii", {"types": [kind]}) for kind in ("phone", "address", "ip")),
]
NOTHING: list[Case] = [
    ("", "question", "moderation", {"flagged_probability": 1.0}),
    ("", "answer", "moderation", {"flagged_probability": 1.0}),
    ("", "image text", "moderation", {"flagged_probability": 1.0, "flagged_categories": ["violence"]}),
    ("", "image", "nsfw", {"nsfw_probability": 0.79}),
    ("", "image", "faces", {"confidence_max": 0.49, "area_fraction_max": 0.9}),
    (
        "",
        "answer",
        "upstream_words",
        {"identity": ["openai"], "errors": ["**api request error**"], "unfinished": ["▌"]},
    ),
    ("", "image text", "text_pii", {"types": ["person"]}),
    ("", "image text", "service_text", {"kinds": ["network_error"]}),
    ("", "question", "service_text", {"kinds": ["printed_object"]}),
    ("", "answer", "refusal", {"refusal": True}),
]


def _subject(name: str, **changes: Any) -> Conversation:
    texts = (f"What is {name}?", f"{name} is a cat.", f"And {name} now?", f"{name} is a dog.")
    return conversation(name, *texts, **{"image_ids": [text_id(f"{name} {place}") for place in (1, 2)]} | changes)


def _decided_together(deciding, cases: list[Case]) -> dict[str, dict[str, Any]]:
    """One conversation a case, all decided at once, so that a fact of one that touches another shows."""
    subjects = [_subject(str(number)) for number in range(len(cases))]
    facts: dict[str, dict[str, Any]] = {signal: {} for signal in SIGNALS}
    for subject, (_, part, signal, columns) in zip(subjects, cases, strict=True):
        read = f"A sign that says {subject.conversation_id}"
        facts["image_text"][subject.image_ids[1]] = {"text": read, "line_count": 1}
        facts["text_pii"][text_id(read)] = facts["service_text"][text_id(read)] = {}
        places = {
            "image": subject.image_ids[0],
            "second image": subject.image_ids[1],
            "question": subject.turns[2].text_id,
            "answer": subject.turns[3].text_id,
            "image text": text_id(read),
        }
        facts[signal][places[part]] = columns
    return deciding.given(subjects, facts=facts).decide()


def test_each_fact_that_drops_drops_its_own_conversation_alone(deciding):
    decided = _decided_together(deciding, DROPS)
    assert {name: row["reasons"] for name, row in decided.items()} == {
        str(number): [reason] for number, (reason, *_) in enumerate(DROPS)
    }
    assert not any(row["keep"] or row["tags"] for row in decided.values())


def test_each_fact_that_tags_tags_its_own_conversation_alone(deciding):
    decided = _decided_together(deciding, TAGS)
    assert {name: row["tags"] for name, row in decided.items()} == {
        str(number): [tag] for number, (tag, *_) in enumerate(TAGS)
    }
    assert all(row["keep"] and not row["reasons"] for row in decided.values())


def test_a_fact_below_the_line_does_nothing(deciding):
    decided = _decided_together(deciding, NOTHING)
    assert [(row["keep"], row["reasons"], row["tags"]) for row in decided.values()] == [(True, [], [])] * len(NOTHING)


WHOLE = _subject("whole")
LOGGED = {
    "image_unusable": {"image_problems": ["image_truncated"]},
    "part_not_read": {"unread_parts": ["video", "tool_call"]},
    "empty_message": {"turns": [*WHOLE.turns[:3], WHOLE.turns[3].model_copy(update={"content": " \n"})]},
    "no_answer": {"turns": WHOLE.turns[:3]},
    "flagged_by_user": {"feedback": ["upvote", "flag"]},
    "excluded_model": {"model": "secret-model"},
    "banned_user": {"user_id": "f" * 32},
}


def test_what_the_log_or_the_operator_says_drops_for_its_reason_alone(deciding):
    listed = yaml.safe_load(
        (Path(policy_file.__file__).parent / "policies" / "public_release.yaml").read_text(encoding="utf-8")
    )
    deciding.under(yaml.safe_dump(listed | {"excluded_models": ["secret-model"], "banned_users": ["f" * 32]}))
    subjects = [_subject(reason, **changes) for reason, changes in LOGGED.items()]
    kept = [_subject("nobody", user_id=None), _subject("liked", feedback=["upvote", "downvote"])]
    reasons = deciding.given([*subjects, *kept, WHOLE]).reasons()
    assert reasons == {reason: [reason] for reason in LOGGED} | {"nobody": [], "liked": [], "whole": []}


def test_a_conversation_without_images_is_only_marked(deciding):
    decided = deciding.given([_subject("words", image_ids=[]), _subject("seen")]).decide()
    assert {name: (row["keep"], row["tags"]) for name, row in decided.items()} == {
        "words": (True, ["text_only"]),
        "seen": (True, []),
    }


def test_a_conversation_of_a_dataset_without_times_is_only_marked(deciding):
    second = timedelta(seconds=1)
    times = {"older": UNDATED_FROM - second, "old": UNDATED_BEFORE - second, "new": UNDATED_BEFORE}
    decided = deciding.given([_subject(name, tstamp=time) for name, time in times.items()]).decide()
    assert {name: (row["keep"], row["tags"]) for name, row in decided.items()} == {
        "older": (True, []),
        "old": (True, ["undated"]),
        "new": (True, []),
    }


def test_only_one_short_message_alone_is_marked_as_short(deciding):
    texts = {"short": ("x" * 15, "A."), "long": ("y" * 16, "A."), "several": ("a", "A.", "b", "B.")}
    chats = [conversation(name, *said, image_ids=[text_id(name)]) for name, said in texts.items()]
    decided = deciding.given(chats).decide()
    assert {name: row["tags"] for name, row in decided.items()} == {
        "short": ["short_prompt"],
        "long": [],
        "several": [],
    }
    assert all(row["keep"] for row in decided.values())


def test_a_vote_that_compares_nothing_is_dropped_without_its_sides(deciding):
    voided = {
        "same_model": {"model_b": "vicuna-13b"},
        "unequal_sides": {"turns_b": 2},
        "named_battle": {"anonymous": False},
    }
    both = {reason: sides(reason) for reason in [*voided, "fair"]}
    votes = [battle(*both[reason], **voided.get(reason, {})) for reason in both]
    reasons = deciding.given([side for pair in both.values() for side in pair], votes).reasons()
    assert {item: given for item, given in reasons.items() if given} == {f"battle:{r}": [r] for r in voided}
    assert "battle:fair" in reasons


@pytest.mark.parametrize("policy", ["public_release", "redact", "authored", "generated", "internal"])
def test_a_vote_on_an_example_image_of_the_arena_goes_without_its_conversations(deciding, policy):
    example = Preset(path="memes/1.png", dataset="Memes", logged_name="1" * 32, image_id="a" * 32)
    both = {name: sides(name, image_ids=[shown * 32]) for name, shown in (("picked", "a"), ("own", "b"))}
    deciding.policy = policy
    decided = deciding.given(
        [side for pair in both.values() for side in pair], [battle(*pair) for pair in both.values()], presets=[example]
    ).decide()
    vote = decided.pop("battle:picked")
    assert (vote["keep"], vote["tags" if policy == "internal" else "reasons"]) == (
        policy == "internal",
        ["preset_battle"],
    )
    assert all(row["keep"] and "preset_battle" not in row["tags"] for row in decided.values())


def test_a_battle_has_the_reasons_of_both_sides_in_the_order_of_the_policy_before_its_own(deciding):
    left, right = sides("b", image_ids=["1" * 32])
    facts = {
        "model_names": {left.turns[1].text_id: {"names": ["gpt-4"]}},
        "text_pii": {left.turns[0].text_id: {"types": ["email"]}},
        "service_text": {right.turns[1].text_id: {"kinds": ["cursor"]}},
    }
    reasons = deciding.given([left, right], [battle(left, right, model_b=left.model)], facts).reasons()
    assert reasons["b"] == ["pii_text", "leaked_identity"]
    assert reasons["b-right"] == ["pii_text", "unfinished"]
    assert reasons["battle:b"] == ["pii_text", "unfinished", "leaked_identity", "same_model"]


def test_all_reasons_are_recorded_in_the_order_of_the_policy(deciding):
    everything = {"image_problems": ["image_missing"], "feedback": ["flag"], "turns": WHOLE.turns[:3]}
    question, image = WHOLE.turns[2].text_id, WHOLE.image_ids[0]
    facts = {
        "service_text": {question: {"kinds": ["cursor", "rate_limit"]}},
        "text_pii": {question: {"types": ["email", "person"]}},
        "faces": {image: {"confidence_max": 0.9}},
        "nsfw": {image: {"nsfw_probability": 0.9}},
    }
    (decided,) = deciding.given([_subject("whole", **everything)], facts=facts).decide().values()
    expected = "image_unusable nsfw_image face pii_text service_error unfinished no_answer flagged_by_user"
    assert decided["reasons"] == expected.split()
    assert decided["tags"] == ["person_named"]


def test_every_rule_of_the_policy_is_tried_above():
    elsewhere = {"image_moderation"}  # test_fail_closed.py
    tried = {*LOGGED, *elsewhere, "text_only", "undated", "short_prompt", "same_model", "unequal_sides", "named_battle"}
    tried |= {"preset_battle"}
    assert {rule.reason for rule in POLICY.rules} == tried | {reason for reason, *_ in DROPS + TAGS}


def test_an_answer_with_its_own_models_name_of_the_log_leaks_it(deciding):
    answers = {
        "leaks": ("our-secret-7b", "Ask Our Secret 7B."),
        "word": ("command", "Run the command."),
        "pi": ("phi-3", "phi = 3.14"),
        "other": ("our-secret-7b", "Seven secrets."),
    }
    chats = [conversation(name, f"What is {name}?", text, model=model) for name, (model, text) in answers.items()]
    asked = conversation("asked", "Are you our-secret-7b?", "No.", model="our-secret-7b")
    reasons = deciding.given([*chats, asked]).reasons()
    assert {name: found for name, found in reasons.items() if found} == {"leaks": ["leaked_identity"]}
