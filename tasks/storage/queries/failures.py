"""Cases of failures: prompts that models fail, with a right answer, what models answered, and what is said of it.

In: the tables `failures`, `battles`, `answers`, `case_references` and `reviews`. Out: a `FailureCase` for each prompt,
as VisionArena sec. 13 and WildVision App. C show them, and tables of the marks O, X and R (VisionArena Table 6).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from schemas.benches.bench import FailureMark
from schemas.benches.judging import STAND_IN, AnswerState
from schemas.benches.written import PEOPLE
from schemas.errors import BadInput
from schemas.items.review import MODEL_REVIEWER, AnswerTruth, QueueName
from tasks.storage.content_id import combined_id, text_id
from tasks.storage.queries.released import released_names, require_redactions
from tasks.storage.queries.signals import StoredImages, latest_values
from tasks.storage.reviews import latest, reviews_of
from tasks.storage.tables import Store

RIGHT, WRONG, REFUSED, UNKNOWN_MARK = "O", "X", "R", "?"
"""Marks of answers. One that only a judge proposes ends in `PROPOSED`."""
PROPOSED = "*"
FAILURE_MARKS = (WRONG, WRONG + PROPOSED, REFUSED, UNKNOWN_MARK, RIGHT + PROPOSED, RIGHT)
"""Every mark, the worst first."""
BY_PEOPLE, BY_VOTES, BY_REFUSAL = "people", "votes", "refusal"
"""Whose word a mark is, besides a judge's: people who reviewed the answer, all who voted, the measured refusal."""

_PROMPTS = """
    -- a row is one failure whose conversation is kept and asks nothing of the hidden split, as it is released
    SELECT failures.*, prompt_of("turns.content", "turns.role") AS prompt, kept.image_ids
    FROM failures
    JOIN kept USING (conversation_id, document_id)
    ANTI JOIN hidden_documents USING (document_id)
    ORDER BY conversation_id
"""
_SIDES = """
    -- a row is one side of a kept battle on one of the wanted prompts: its model, its conversation, and the number of
    -- turns that were voted on; earliest first
    SELECT
        battle_id, battles.tstamp, document_id, unnest([conversation_a, conversation_b]) AS conversation_id,
        unnest([battles.model_a, battles.model_b]) AS model, unnest([turns_a, turns_b]) AS voted_turns
    FROM battles
    JOIN (SELECT item_id AS battle_id FROM decisions WHERE item_kind = 'battle' AND keep) AS decided USING (battle_id)
    JOIN (SELECT conversation_id AS conversation_a, document_id FROM kept) AS left_side USING (conversation_a)
    SEMI JOIN wanted USING (document_id)
    ORDER BY battles.tstamp, battle_id
"""
_ANSWERS = """
    -- a row is one of the wanted conversations, and its answers up to the vote, as they are released. A turn is two
    -- messages: ingest gives every conversation the user's and the model's in turn
    SELECT
        battle_id, conversation_id,
        said_by('assistant', "turns.content"[:2 * voted_turns], "turns.role"[:2 * voted_turns]) AS answers,
        said_by('assistant', "turns.text_id"[:2 * voted_turns], "turns.role"[:2 * voted_turns]) AS text_ids
    FROM released JOIN wanted USING (conversation_id)
"""
_REFERENCES = """
    -- a row is one wanted prompt that has a reference: what a person wrote for the case, else the reference of a
    -- benchmark that has the prompt, unless one of its captions was written since
    SELECT DISTINCT ON (document_id) document_id, text, provider, of_case
    FROM (
        SELECT document_id, text, $people AS provider, true AS of_case, true AS of_people, written_at
        FROM case_references
        UNION ALL
        SELECT document_id, text, provider, false, written_by = 'people', written_at
        FROM "references" AS written
        WHERE provider <> $stand_in AND NOT EXISTS (
            FROM captions WHERE captions.document_id = written.document_id AND captions.written_at > written.written_at
        )
    )
    SEMI JOIN wanted USING (document_id)
    ORDER BY document_id, of_case DESC, of_people DESC, written_at DESC
"""


@dataclass(frozen=True)
class ReferenceInUse:
    """The right answer to a case."""

    text: str
    by: str
    """`people`, or the model that wrote the reference of a benchmark."""
    of_case: bool
    """Whether it was written for the case; otherwise it is the reference of a benchmark that has the prompt."""

    @property
    def text_id(self) -> str:
        """Content id of the text."""
        return text_id(self.text)


@dataclass(frozen=True)
class CaseAnswer:
    """One model's answer to a case: the first that people voted on, or without one what the model was asked for."""

    model: str
    text: str
    content_id: str
    """Content id of prompt, model and text; verdicts are about it."""
    battle_id: str
    """The battle of the answer; empty for a model that was asked since."""
    votes: int
    """Kept votes on answers of the model to this prompt."""
    both_bad: int
    """Votes among these that say that both answers are bad."""
    refused: bool
    """Whether the answer was measured as a refusal, or the vendor refused."""
    people: str | None = None
    """Verdict of most reviewers: right, wrong or unclear; unclear where they disagree; null without reviewers."""
    proposed: str | None = None
    """Verdict of a judge that read the present reference; null without one."""
    judge: str = ""
    """Name of this judge."""

    @property
    def mark(self) -> str:
        """The mark in VisionArena Table 6, one of `FAILURE_MARKS`. It is right only if a person or a judge says so."""
        return self._mark_and_by()[0]

    @property
    def by(self) -> str | None:
        """Whose word the mark is; null for `?`."""
        return self._mark_and_by()[1]

    def _mark_and_by(self) -> tuple[str, str | None]:
        if self.people == AnswerTruth.RIGHT:
            return RIGHT, BY_PEOPLE
        if self.refused:
            return REFUSED, BY_REFUSAL
        if self.people is not None:
            return (WRONG, BY_PEOPLE) if self.people == AnswerTruth.WRONG else (UNKNOWN_MARK, None)
        if self.votes and self.both_bad == self.votes:
            return WRONG, BY_VOTES
        marks = {AnswerTruth.RIGHT: RIGHT, AnswerTruth.WRONG: WRONG}
        mark = marks.get(AnswerTruth(self.proposed)) if self.proposed else None
        return (mark + PROPOSED, self.judge) if mark else (UNKNOWN_MARK, None)


@dataclass(frozen=True)
class FailureCase:
    """One prompt that people saw models fail."""

    document_id: str
    question_id: str
    """The prompt's conversation, as in a release."""
    failure_type: str | None
    """Why models fail it; null when undecided."""
    typed_by: str | None
    """Whose word that is."""
    judges: int
    """People who voted both answers bad."""
    both_bad: int
    """Votes of these people."""
    drawn: bool
    """Whether it is in the set of the release."""
    prompt: str
    """The user's messages as they are released, joined by blank lines."""
    image_ids: tuple[str, ...]
    """Images as they are released, in order."""
    reference: ReferenceInUse | None
    answers: tuple[CaseAnswer, ...]
    """By model; those of models that people voted on come first."""


def failure_cases(store: Store, drawn: bool = True) -> list[FailureCase]:
    """The cases in order of their ids, without prompts of the hidden split; `drawn`: those of the released set alone.

    Raises BadInput when a redaction that a decision names is missing.
    """
    require_redactions(store)
    prompts = store.ask(_PROMPTS)
    rows = prompts.filter("drawn") if drawn else prompts
    references, answers, verdicts = _references(store, rows), _answers_by_document(store, rows), _verdicts(store)
    cases = list[FailureCase]()
    for row in rows.iter_rows(named=True):
        reference = references.get(row["document_id"])
        case_answers = answers.get(row["document_id"], [])
        case = FailureCase(
            document_id=row["document_id"], question_id=row["conversation_id"], failure_type=row["failure_type"],
            typed_by=row["typed_by"], judges=row["judges"], both_bad=row["both_bad"], drawn=row["drawn"],
            prompt=row["prompt"], image_ids=tuple(row["image_ids"]), reference=reference,
            answers=tuple(
                _with_verdicts(answer, verdicts.get(answer.content_id, ()), reference) for answer in case_answers
            ),
        )  # fmt: skip
        cases.append(case)
    return cases


def _references(store: Store, rows: pl.DataFrame) -> dict[str, ReferenceInUse]:
    """Document id -> its reference."""
    documents = rows.select("document_id").unique()
    references = store.ask(_REFERENCES, wanted=documents, people=PEOPLE, stand_in=STAND_IN)
    # a row is one prompt with the reference that counts
    return {document: ReferenceInUse(*columns) for document, *columns in references.iter_rows()}


def _answers_by_document(store: Store, rows: pl.DataFrame) -> dict[str, list[CaseAnswer]]:
    """Document id -> answers, without what reviewers and judges say of them."""
    answers = dict[str, list[CaseAnswer]]()
    voted = _voted_answers(store, rows.select("document_id").unique())
    later, votes = _later_answers(store, rows), _votes(store)
    refusals = _refusals(store, [name for row in (*voted, *later) for name in row["text_ids"]])
    for row in (*voted, *later):
        of_document = answers.setdefault(row["document_id"], [])
        if any(row["model"] == answer.model for answer in of_document):
            continue  # people voted on another answer of the model, or on an earlier one
        counts = votes.get((row["document_id"], row["model"])) if row["battle_id"] else None
        answer = CaseAnswer(
            model=row["model"],
            text=row["text"],
            content_id=combined_id("failure answer", [row["document_id"], row["model"], text_id(row["text"])]),
            battle_id=row["battle_id"],
            votes=counts.votes if counts else 0,
            both_bad=counts.both_bad if counts else 0,
            refused=row["state"] == AnswerState.REFUSED or any(map(refusals.get, row["text_ids"])),
        )
        of_document.append(answer)
    return {document: sorted(document_answers, key=_voted_first) for document, document_answers in answers.items()}


def _voted_first(answer: CaseAnswer) -> tuple[bool, str]:
    return not answer.battle_id, answer.model


def _voted_answers(store: Store, documents: pl.DataFrame) -> list[dict[str, Any]]:
    """document_id, model, battle_id, text, text_ids and state of answers that people voted on, earliest first."""
    sides = released_names(store, store.ask(_SIDES, wanted=documents))
    first = sides.unique(["document_id", "model"], keep="first", maintain_order=True)
    texts = store.ask(_ANSWERS, wanted=first.select("battle_id", "conversation_id", "voted_turns"))
    joined = first.join(texts, on=["battle_id", "conversation_id"], maintain_order="left")
    text = pl.col("answers").list.join("\n\n")
    columns = ("document_id", "model", "battle_id", "text_ids")
    return joined.select(*columns, text=text, state=pl.lit(AnswerState.COMPLETE.value)).to_dicts()


def _later_answers(store: Store, rows: pl.DataFrame) -> list[dict[str, Any]]:
    """The same of models that were asked since, the last answer of each."""
    answers = store.read("answers", ["document_id", "model", "state", "text"])
    answered = answers.filter(pl.col("state") != AnswerState.FAILED.value)
    on_cases = answered.join(rows.select("document_id"), on="document_id", how="semi", maintain_order="left")
    last = on_cases.unique(["document_id", "model"], keep="last", maintain_order=True)
    return [row | {"battle_id": "", "text_ids": [text_id(row["text"])]} for row in last.iter_rows(named=True)]


def _votes(store: Store) -> dict[tuple[str, str], FailureMark]:
    """(document id, model) -> the votes on its answers."""
    marks = [FailureMark(**row) for row in store.read("failure_marks").iter_rows(named=True)]
    return {(mark.document_id, mark.model): mark for mark in marks}


def _refusals(store: Store, text_ids: Iterable[str]) -> dict[str, bool]:
    """Content id of an answer -> whether it was last measured as a refusal, of those that were measured."""
    measured = latest_values(store, "refusal", text_ids, ["refusal"])
    return {name: bool(value["refusal"]) for name, value in measured.items()}


def _verdicts(store: Store) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Content id of an answer -> the last verdict of each reviewer and judge on it, the earliest first."""
    rows = latest(reviews_of(store).filter(queue=QueueName.FAILURE_ANSWERS.value))
    verdicts = dict[str, list[Mapping[str, Any]]]()
    for row in rows.select("content_id", "reviewer", "verdict", "reasons").iter_rows(named=True):
        verdicts.setdefault(row["content_id"], []).append(row)
    return verdicts


def _with_verdicts(
    answer: CaseAnswer, verdicts: Sequence[Mapping[str, Any]], reference: ReferenceInUse | None
) -> CaseAnswer:
    """The answer with what people say, and what the last judge says that read the present reference."""
    of_people = [row["verdict"] for row in verdicts if not row["reviewer"].startswith(MODEL_REVIEWER)]
    present = [[reference.text_id]] if reference else []
    of_judges = [row for row in verdicts if row["reviewer"].startswith(MODEL_REVIEWER) and row["reasons"] in present]
    people = _most(of_people) if of_people else None
    if not of_judges:
        return replace(answer, people=people)
    last = of_judges[-1]
    return replace(answer, people=people, proposed=last["verdict"], judge=judge_of_reviewer(last["reviewer"]))


def _most(verdicts: Collection[str]) -> str:
    """The verdict that most give; unclear where two have as many."""
    (verdict, count), *others = Counter(verdicts).most_common()
    return AnswerTruth.UNCLEAR.value if others and others[0][1] == count else verdict


_SEPARATOR = ": "


def reviewer_of_judge(name: str, version: str) -> str:
    """Reviewer of the verdicts that a judge proposes: its name, and a version of all that decides them."""
    return f"{MODEL_REVIEWER}{name}{_SEPARATOR}{version}"


def judge_of_reviewer(reviewer: str) -> str:
    """Name of the judge whose `reviewer_of_judge` this is."""
    return reviewer.removeprefix(MODEL_REVIEWER).partition(_SEPARATOR)[0]


def require_pictures(images: StoredImages, image_ids: Iterable[str]) -> None:
    """Raises BadInput for the first picture of a case that is not stored."""
    lost = next((image_id for image_id in image_ids if image_id not in images.part_of), None)
    if lost is not None:
        raise BadInput(f"image {lost!r} of a case is lost; put the store's copy back, or run `curate sample` again")


def texts_of_cases(store: Store) -> pl.Series:
    """Texts of the drawn cases that no conversation holds: answers of models asked since, and people's references."""
    cases = failure_cases(store)
    # A text is one answer of a model that was asked since: answers in battles are in conversations.
    answers = [answer.text for case in cases for answer in case.answers if not answer.battle_id]
    references = [case.reference.text for case in cases if case.reference and case.reference.of_case]
    return pl.Series("text", [*answers, *references], dtype=pl.String).unique(maintain_order=True)


def failure_tables(store: Store) -> dict[str, pl.DataFrame]:
    """Table name -> rows: failures by type, error rates by model and type, marks of models at the drawn failures."""
    by_type = (
        store.read("failures")
        .group_by("failure_type")
        .agg(prompts=pl.len(), reviewed=pl.col("reviewed").sum(), drawn=pl.col("drawn").sum())
    )
    rates = store.read("failure_rates").with_columns(pl.col("error_rate").round(4))
    tables = {"failures": by_type.sort("failure_type", nulls_last=True), "failure_rates": rates}
    marks = hard_prompts(store)
    if marks.height:
        wide = marks.pivot("model", index=["question_id", "failure_type"], values="mark", sort_columns=True)
        tables |= {"hard_prompts": wide, "marks": _counted(marks)}
    return tables


def _counted(marks: pl.DataFrame) -> pl.DataFrame:
    """model, how many of its answers have each mark, and how many of these are by people, votes, refusal or a judge."""
    counts = [(pl.col("mark") == mark).sum().alias(mark) for mark in FAILURE_MARKS]
    judged = ~pl.col("by").is_in([BY_PEOPLE, BY_VOTES, BY_REFUSAL])
    by = {f"by_{name}": (pl.col("by") == name).sum() for name in (BY_PEOPLE, BY_VOTES, BY_REFUSAL)}
    return marks.group_by("model").agg(*counts, **by, by_judge=judged.sum()).sort("model")


_MARK_COLUMNS = {
    "question_id": pl.String, "failure_type": pl.String, "model": pl.String, "votes": pl.Int64, "mark": pl.String,
    "by": pl.String,
}  # fmt: skip


def hard_prompts(store: Store) -> pl.DataFrame:
    """Marks of every model at the drawn failures (VisionArena Table 6) and whose word they are.

    Columns: question_id, failure_type, model, votes, mark (of `FAILURE_MARKS`), by. `CaseAnswer` says what marks mean.
    """
    # a row is one answer to one case
    rows = [
        (case.question_id, case.failure_type, answer.model, answer.votes, answer.mark, answer.by)
        for case in failure_cases(store)
        for answer in case.answers
    ]
    return pl.DataFrame(rows, _MARK_COLUMNS, orient="row").sort("question_id", "model")
