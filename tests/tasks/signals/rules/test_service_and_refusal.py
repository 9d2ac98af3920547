"""Service texts are recognised in every form the serving software writes; refusals by how answers open."""

import pytest

from tasks.signals.rules.refusal import OPENING_CHARACTERS, refusal
from tasks.signals.rules.service_text import service_text

TRAFFIC = "**NETWORK ERROR DUE TO HIGH TRAFFIC. PLEASE REGENERATE OR REFRESH THIS PAGE.**"
SERVICE = [
    (TRAFFIC, ["network_error"]),
    (f"{TRAFFIC}\n\n(error_code: 50004)", ["network_error", "error_code"]),
    ("The upper half shows\n\n(error_code: 50002)\n", ["error_code"]),
    ("$MODERATION$ YOUR INPUT VIOLATES OUR CONTENT MODERATION GUIDELINES.", ["moderation_notice"]),
    ("**RATE LIMIT OF THIS MODEL IS REACHED. PLEASE COME BACK LATER OR USE BATTLE MODE.**", ["rate_limit"]),
    ("YOU HAVE REACHED THE CONVERSATION LENGTH LIMIT. PLEASE CLEAR HISTORY.", ["conversation_limit"]),
    ("THIS SESSION HAS BEEN INACTIVE FOR TOO LONG. PLEASE REFRESH THIS PAGE.", ["inactivity"]),
    ("**API REQUEST ERROR** Reason: Unknown.", ["api_error"]),
    ("$ERROR$", ["api_error"]),
    ("The picture shows a number of▌", ["cursor"]),
    ("One can see <span class='cursor'></span>", ["cursor"]),
]
ORDINARY = [
    "",
    "The sign in the picture says that error_code 50002 means a timeout.",
    "A network error due to high traffic is written on the page.",
    "Content moderation costs $5.",
    "Set the rate limit to ten requests a second.",
]
DECLINES = [
    "I'm sorry, but I can't identify people in pictures.", "I am really sorry, I am not able to help with that.",
    "I cannot assist with this request.", "I won't recognize the person shown.", "I’m unable to see the picture.",
    "As an AI language model, I cannot look at pictures.", "Lo siento, pero no puedo ayudar con eso.",
    "Je ne peux pas identifier cette personne.", "Ich kann dir dabei leider nicht helfen.",
    "К сожалению, я не могу помочь.", "很抱歉，我无法回答这个问题。", "申し訳ありませんが、お答えできません。",
]  # fmt: skip
ANSWERS = [
    "The cat cannot reach the shelf.",
    "Nobody can help noticing how bright it is.",
    "I am sorry to hear that. Here is what the letter says.",
    "The sign says: we are sorry for the delay.",
    "",
]


@pytest.mark.parametrize(("text", "kinds"), SERVICE)
def test_service_text_has_its_kinds(text, kinds):
    assert service_text(text).kinds == kinds


@pytest.mark.parametrize("text", ORDINARY)
def test_talk_about_errors_is_no_service_text(text):
    assert service_text(text).kinds == []


@pytest.mark.parametrize("text", DECLINES)
def test_an_answer_that_opens_by_declining_is_a_refusal(text):
    assert refusal(text).refusal
    assert refusal(f"Hello! {text}").refusal


@pytest.mark.parametrize("text", ANSWERS)
def test_an_answer_is_no_refusal(text):
    assert not refusal(text).refusal


def test_an_apology_after_the_opening_is_no_refusal():
    assert not refusal("The chart rises. " * (OPENING_CHARACTERS // 16) + DECLINES[0]).refusal
