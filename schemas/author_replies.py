"""What a benchmark's author and viewer reply: one row a question, whose JSON schema language models must follow."""

from schemas.generated import CheckQuestion
from schemas.row import Row


class WrittenAspect(Row):
    """One fine aspect."""

    general: str
    """The general aspect it belongs to."""
    name: str
    """The fine aspect, in a few words."""
    introduction: str
    """One or two sentences: what it is about."""
    guideline: str
    """What a description of it must state, keep even and avoid."""


class WrittenAspects(Row):
    """Fine aspects of a capability."""

    aspects: list[WrittenAspect]
    """In order of their general aspects."""


class WrittenDescription(Row):
    """What one image is to show."""

    description: str
    """The description; left and right are the observer's."""
    topic_word: str
    """The word for what it is about."""
    key_words: list[str]
    """Four to six words for what it holds."""


class WrittenChecks(Row):
    """Questions that an image is checked with."""

    checks: list[CheckQuestion]
    """Each after the one it depends on."""


class WrittenQuestion(Row):
    """One item's question."""

    kind: str
    """What it asks for, in one word, such as colour or relation."""
    question: str
    """The question, without its options."""
    right: str
    """The right option."""
    wrong: list[str]
    """Three wrong options, or one for a question that is true or false."""


class Solved(Row):
    """An answer to a question whose key was not shown."""

    answer: str
    """The chosen option, word for word."""


class Looked(Row):
    """A viewer's answer."""

    answer: str
    """The answer in as few words as possible."""
