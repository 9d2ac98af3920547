"""Service texts are recognised in every form the serving software writes."""

import pytest

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


@pytest.mark.parametrize(("text", "kinds"), SERVICE)
def test_service_text_has_its_kinds(text, kinds):
    assert service_text(text).kinds == kinds


@pytest.mark.parametrize("text", ORDINARY)
def test_talk_about_errors_is_no_service_text(text):
    assert service_text(text).kinds == []
