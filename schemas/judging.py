"""Answers of models to benchmark prompts, verdicts of judges on two answers, and boards computed from verdicts."""

from enum import StrEnum

from schemas.row import Int32, Row


class AnswerState(StrEnum):
    """What became of one request for an answer."""

    COMPLETE = "complete"
    """The model finished its answer."""
    REFUSED = "refused"
    """The vendor or the model refused to answer."""
    TRUNCATED = "truncated"
    """The answer was cut off at the token limit."""
    EMPTY = "empty"
    """The model answered with no text."""
    FAILED = "failed"
    """The call failed; it is made again in the next run."""


class Label(StrEnum):
    """A verdict on two answers, A shown first: which is better, and whether by much (two signs)."""

    A_MUCH_BETTER = "A>>B"
    A_BETTER = "A>B"
    TIE = "A=B"
    B_BETTER = "B>A"
    B_MUCH_BETTER = "B>>A"


class Answer(Row):
    """One model's answer to one benchmark prompt."""

    question_id: str
    """The benchmark prompt: the id of the conversation it comes from, as in a release."""
    model: str
    """The model."""
    state: AnswerState
    """complete, refused, truncated, empty or failed."""
    text: str
    """The answer; empty unless there is one."""
    version: str
    """Changes with everything that decides the answer: vendor, model, temperature, limits, system prompt."""
    tokens: Int32 | None
    """Tokens of the answer as its vendor counts them; null when unknown."""


class Verdict(Row):
    """One verdict on two answers to one prompt. `model_a` was shown first, as Assistant A."""

    question_id: str
    """The benchmark prompt, as in `answers`."""
    protocol: str
    """visionarena or wildvision: the prompt and the orders."""
    model_a: str
    """Model whose answer was shown first."""
    model_b: str
    """Model whose answer was shown second."""
    baseline: str
    """The one of both models that every other model is compared with."""
    answer_a: str
    """Version of the first answer."""
    answer_b: str
    """Version of the second answer."""
    label: Label | None
    """The label in `text`, of five; null when it has none, or several different ones: no verdict, and never a tie."""
    judge: str
    """Name of the judging model; `person` for a person's verdict."""
    judge_version: str
    """Changes with everything that decides the verdict: vendor, model, temperature, limits, prompt."""
    draw: str
    """The draw of the benchmark that the prompt belongs to: the version of a release, or a hash of the store's draw."""
    text: str
    """Everything that the judge wrote, including its reply to the follow-up question."""
    asked_again: bool
    """Whether the judge was asked a second time because its first reply had no label."""
    fenced_marks: Int32
    """Labels and marks of the judge's prompt found in the two answers, which were therefore fenced."""
