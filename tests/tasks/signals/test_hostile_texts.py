"""Rules and patterns take a text of any content, and time that grows with its length alone."""

import time
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.providers import Providers
from tasks.providers.capabilities import Failed
from tasks.providers.embedded.pii.patterns import find_patterns
from tasks.signals.registry import RULES, text_signals

CHARACTERS = 40_000
SECONDS_MAX = 4.0
"""Many times what these texts take; a quadratic pattern takes a minute."""
PIECES = [
    "\n", " ", "\t\n", "1", "1 ", "12-", "1.", "a", "a:", ":", "a@", "a.", "*", "**a", "__a", "`", "# ", "(", "a://",
    "AA11 ", "card ", "ssn ", "social security ", "passport ", "I am ", "as a ", "model ", "me made by ",
    "I am a model, ",
    "我由", "import a\n", "from a ", "(error_code: 1) ", "rate limit exceeded ", "I am sorry ",
    "+1 11 111 1111 1111 111 11 11a ", "+" + "1" * 71 + "a ", "\u0000", "👩‍🚀", "\ud800",
]  # fmt: skip


@cache
def rules():
    return [signal for signal in text_signals(Providers()).values() if signal.provider == RULES]


@pytest.mark.parametrize("piece", PIECES)
def test_a_long_monotonous_text_takes_no_time(piece):
    text = piece * (CHARACTERS // len(piece))
    started = time.process_time()
    for signal in rules():
        assert not isinstance(signal.values([text])[0], Failed)
    list(find_patterns(text))
    assert time.process_time() - started < SECONDS_MAX


@given(st.text(max_size=400))
def test_every_text_has_a_value(text):
    for signal in rules():
        assert not isinstance(signal.values([text])[0], Failed)
    assert all(0 <= span.start < span.end <= len(text) for span in find_patterns(text))
