"""Queues about prompts that models fail: why they fail them, and whether each model's answer is right.

A sheet of both shows a whole case: picture, prompt, reference, answers, type, and whose word that is. A person may also
write the reference there, or hand in a file of references with the columns `item` and `reference` alone.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from schemas.benches.bench import CaseReference, FailureType
from schemas.errors import BadInput
from schemas.items.review import AnswerTruth, Choice, QueueName, ShownText, Waiting
from tasks.review_queue import Listed, ReviewQueue, SheetLine, plain
from tasks.runtime.untrusted import CELL_CHARACTERS_MAX, cell_text, csv_text, one_line
from tasks.storage.queries.failures import CaseAnswer, FailureCase, failure_cases
from tasks.storage.tables import Store

ANSWERS_SHOWN = 3
"""Most answers beside the question why models fail a prompt, as in the papers' figures of cases."""
_TABLES = ("failures", "failure_marks", "battles", "conversations", "answers", "case_references", "references")
_REFERENCE = "Reference"
_COLUMN = _REFERENCE.lower()


class FailuresQueue(ReviewQueue):
    """Prompts that several people voted both bad."""

    name, title = QueueName.FAILURES.value, "Failures"
    about = "Why do models fail the prompt? The next run, or `curate sample`, takes the type that a person gave last."
    choices = tuple(
        Choice(str(n), kind.value, kind.value.replace("_", " ").capitalize()) for n, kind in enumerate(FailureType, 1)
    )
    tables = _TABLES

    def waiting(self, store: Store, among: Collection[str] | None = None) -> list[Waiting]:
        """Every failure with both answers of its earliest vote; those without a person's type first."""
        failures = store.read("failures").sort("reviewed", "document_id")
        sides = store.read("battles", ["conversation_a", "battle_id"])
        battle_of = dict(sides.unique("conversation_a", keep="first", maintain_order=True).iter_rows())
        cases = {case.document_id: case for case in failure_cases(store, drawn=False)}
        return [
            Waiting(
                document, document, question, f"Why do models fail it? Now: {_kind(kind, typed_by)}",
                battle_id=battle_of.get(question, ""), texts=_reference(cases.get(document)), beside=True,
            )
            for document, question, kind, typed_by in failures[
                "document_id", "conversation_id", "failure_type", "typed_by"
            ].iter_rows()
        ]  # fmt: skip

    def listed(self, store: Store, items: Sequence[Waiting]) -> Mapping[str, Listed]:
        """The case: its id for `curate explain`, votes, type, prompt and answers; of a hidden prompt no text."""
        cases = {case.document_id: case for case in failure_cases(store, drawn=False)}
        rows = store.read("failures", ["document_id", "conversation_id", "judges", "both_bad"]).iter_rows()
        headings = ("Conversation ID", "Judges", "Both bad")
        listed = dict[str, Listed]()
        for document, *facts in rows:
            texts = [plain(heading, str(fact)) for heading, fact in zip(headings, facts, strict=True)]
            case = cases.get(document)
            listed[document] = Listed([*texts, *_case_texts(case)], case.image_ids) if case else Listed(texts)
        return listed

    def earlier(self, store: Store, cells: Mapping[str, str], sheet: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
        """No verdict for a line of a file of references."""
        return {"verdict": ""} if _COLUMN in cells else {}

    def written(self, store: Store, lines: Sequence[SheetLine], now: datetime) -> list[CaseReference]:
        """References that people wrote on a sheet, or handed in; those that stand there already are left out.

        Raises BadInput for one of an unknown case, and for two different ones of one case.
        """
        filled_in = [line for line in lines if line.cells.get(_COLUMN)]
        if not filled_in:
            return []
        cases = {case.document_id: case for case in failure_cases(store, drawn=False)}
        cases |= {case.question_id: case for case in cases.values()}
        references = dict[str, CaseReference]()
        places = dict[str, str]()
        """Document id -> file and line of its reference."""
        for line in filled_in:
            case = cases.get(line.cells["item"])
            if case is None:
                raise BadInput(
                    f"{line.where}: a reference for an unknown case, item {one_line(line.cells['item'], 40)!r}; "
                    "`curate review out failures` gives the items"
                )
            text = cell_text(line.cells[_COLUMN])
            earlier = references.get(case.document_id)
            if earlier and earlier.text != text:
                place = places[case.document_id]
                raise BadInput(f"{line.where}: {place} has another reference of this case; keep one")
            if case.reference is None or _in_cell(case.reference.text) != _in_cell(text):
                references[case.document_id] = CaseReference(
                    document_id=case.document_id, conversation_id=case.question_id, text=text, written_at=now
                )
                places[case.document_id] = line.where
        return [*references.values()]


class FailureAnswersQueue(ReviewQueue):
    """Answers to the drawn failures, of models that people voted on and of models that were asked since."""

    name, title = QueueName.FAILURE_ANSWERS.value, "Answers to failures"
    about = (
        "Is the answer right? Models are not named. `curate bench failures` makes O, X and R of the verdicts "
        "(VisionArena Table 6); what a judge proposed holds only until a person has said."
    )
    choices = (
        Choice("r", AnswerTruth.RIGHT.value, "It is right"),
        Choice("w", AnswerTruth.WRONG.value, "It is wrong"),
        Choice("x", AnswerTruth.UNCLEAR.value, "Nobody can tell from this"),
    )
    tables = _TABLES

    def waiting(self, store: Store, among: Collection[str] | None = None) -> list[Waiting]:
        """Every answer, case by case; those of models that people voted on come first."""
        return [
            Waiting(
                answer.content_id, answer.content_id, case.question_id, _question(answer), image_ids=case.image_ids,
                texts=(plain("Prompt", case.prompt), *_reference(case), plain("Answer", answer.text)), blinded=True,
            )
            for case in failure_cases(store)
            for answer in case.answers
        ]  # fmt: skip

    def listed(self, store: Store, items: Sequence[Waiting]) -> Mapping[str, Listed]:
        """Images; the texts are the item's own."""
        return {item.item_id: Listed((), item.image_ids) for item in items}


def _kind(failure_type: str | None, typed_by: str | None) -> str:
    """The type in words, and whose word it is, such as `hallucination, by rule`."""
    words = (failure_type or "undecided").replace("_", " ")
    return f"{words}, by {one_line(typed_by, 40)}" if typed_by else words


def _question(answer: CaseAnswer) -> str:
    if not answer.proposed:
        return "Is the answer right?"
    return f"Is the answer right? Proposed by {one_line(answer.judge, 40)}, which read the reference: {answer.proposed}"


def _reference(case: FailureCase | None) -> tuple[ShownText, ...]:
    return (plain(_REFERENCE, case.reference.text),) if case and case.reference else ()


def _case_texts(case: FailureCase) -> list[ShownText]:
    """Prompt, type, whose word it is, and the answers that most people voted bad."""
    worst = sorted(case.answers, key=lambda answer: (-answer.both_bad, answer.model))[:ANSWERS_SHOWN]
    answers = [plain(f"Answer {number}", answer.text) for number, answer in enumerate(worst, 1)]
    # the column is there for people to fill in, also where there is no reference
    reference = [] if case.reference else [plain(_REFERENCE, "")]
    kind = [plain("Type", case.failure_type or "undecided"), plain("Typed by", case.typed_by or "")]
    return [*kind, plain("Prompt", case.prompt), *reference, *answers]


def _in_cell(text: str) -> str:
    """The text as it comes back from a sheet on which nobody changed it."""
    return cell_text(csv_text(text, CELL_CHARACTERS_MAX).strip())
