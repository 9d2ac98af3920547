"""Answers written from captions in place of images, and the share of them that people call right (VisIT-Bench Fig. 5).

In: items with captions, either for their instruction or generic ones, and answers of models that read only these. Out:
the benchmark that such models are asked, a queue of their answers, and a row for each model and set of captions.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, get_args

from schemas.benches.judging import AnswerState, CaptionAnswersRight
from schemas.benches.written import SAMPLED, Split
from schemas.errors import BadInput, known_values
from schemas.items.review import AnswerTruth, Choice, QueueName, ShownText, Waiting
from schemas.settings import EvaluateSettings
from tasks.judging.protocols import caption_parts
from tasks.judging.questions import Bench, BenchQuestion
from tasks.judging.visit_battles import ITEMS_DRAW
from tasks.prompts import load_prompt, untrusted
from tasks.review_queue import DrawnQueue, Listed, plain
from tasks.runtime.shares import clopper_pearson
from tasks.storage.content_id import combined_id, text_id
from tasks.storage.reviews import latest, reviews_of
from tasks.storage.tables import Store
from tasks.written_bench.written_items import ItemForJudging, items_for_judging

_INSTRUCTION, _GENERIC = get_args(EvaluateSettings.model_fields["captions"].annotation)
CAPTION_SETS = (_INSTRUCTION, _GENERIC)
"""Sets of captions, as `evaluate.captions` names them. A third is a value there, and a column of the items."""


class CaptionAnswer(NamedTuple):
    """One model's answer to an item of which it read captions alone."""

    item: ItemForJudging
    captions: str
    """One of `CAPTION_SETS`."""
    model: str
    text: str

    @property
    def content_id(self) -> str:
        """Content id of item and text: equal answers to an item are one, whoever wrote them."""
        return combined_id("caption answer", [self.item.document_id, text_id(self.text)])


def caption_bench(store: Store, bench: str, captions: str) -> Bench:
    """A written benchmark as it is put to models that read captions in place of images.

    Hidden items are left out, because their captions are hidden, too.

    Raises BadInput for an unknown benchmark, and where no item has these captions.
    """
    items = _captioned(store, bench, captions)
    if not items:
        raise BadInput(
            f"--bench {bench!r}: none of its items has {captions} captions that may leave the store; write some with "
            "`curate bench write`, or give generic ones as `generic_captions` to `curate bench collect`"
        )
    return Bench(f"{ITEMS_DRAW}{bench}-{captions}", [_question(item) for item in items], lambda question: ())


def _captioned(store: Store, bench: str, captions: str) -> list[ItemForJudging]:
    """The kept items that have these captions and are not hidden. Raises BadInput for an unknown benchmark."""
    items = items_for_judging(store, bench, generic=captions == _GENERIC)
    if not items:
        raise BadInput(f"--bench {known_values(bench, {*store.read('bench_items', ['bench'])['bench'], SAMPLED})}")
    return [item for item in items if item.captions and item.split is not Split.HIDDEN]


def _question(item: ItemForJudging) -> BenchQuestion:
    """Captions and instruction as one text without images: another caption makes it another question."""
    parts = [f"{name}:\n{untrusted(text)}" for name, text in caption_parts(item.captions, item.instruction)]
    return BenchQuestion(item.item_id, "\n\n".join([load_prompt("written/answer").text.strip(), *parts]), ())


def caption_answers(store: Store, bench: str) -> list[CaptionAnswer]:
    """Every answer that was written from captions as they are now, by item, set of captions and model.

    An answer to earlier captions has the document id of another question, and is left out.

    Raises BadInput for an unknown benchmark.
    """
    complete = store.read("answers", ["question_id", "document_id", "model", "state", "text"])
    complete = complete.filter(state=AnswerState.COMPLETE.value)
    answers = list[CaptionAnswer]()
    for captions in CAPTION_SETS:
        # (item, id of its question with these captions) -> item
        item_of_question = {
            (item.item_id, _question(item).document_id): item for item in _captioned(store, bench, captions)
        }
        # a row is one answer; of several versions of a model the last one counts
        last = {
            (question_id, model): CaptionAnswer(item_of_question[question_id, document_id], captions, model, text)
            for question_id, document_id, model, _, text in complete.iter_rows()
            if (question_id, document_id) in item_of_question
        }
        answers.extend(last.values())
    return sorted(answers, key=lambda answer: (answer.item.item_id, answer.captions, answer.model))


class CaptionAnswersQueue(DrawnQueue):
    """Drawn answers that were written from captions; neither the captions nor the model are shown."""

    name, title = QueueName.CAPTION_ANSWERS.value, "Answers from captions"
    about = (
        "Is the answer right? What its author read is not shown. "
        "`curate review results caption_answers --bench NAME` gives the share for both sets of captions."
    )
    choices = (
        Choice("r", AnswerTruth.RIGHT.value, "It is right"),
        Choice("w", AnswerTruth.WRONG.value, "It is wrong"),
        Choice("x", AnswerTruth.UNCLEAR.value, "Nobody can tell from this"),
    )
    tables = (
        "bench_items", "bench", "answers", "captions", "generic_captions", "references", "decisions", "conversations",
    )  # fmt: skip

    def __init__(self, bench: str, sample: int, seed: int) -> None:
        super().__init__(sample, seed)
        self._bench = bench

    def waiting(self, store: Store, among: Collection[str] | None = None) -> list[Waiting]:
        """The answers to the drawn items, of every model and from both sets of captions."""
        answers = caption_answers(store, self._bench)
        by_content = {answer.content_id: answer for answer in answers}
        if among is None:
            items = {*self.drawn(sorted({answer.item.item_id for answer in answers}), None)}
            by_content = {name: answer for name, answer in by_content.items() if answer.item.item_id in items}
        else:
            by_content = {name: answer for name, answer in by_content.items() if name in among}
        return [
            Waiting(
                name, name, answer.item.item_id, "Is the answer right?", image_ids=answer.item.image_ids,
                texts=_texts(answer), blinded=True,
            )
            for name, answer in sorted(by_content.items())
        ]  # fmt: skip

    def listed(self, store: Store, items: Sequence[Waiting]) -> Mapping[str, Listed]:
        """Images; the texts are the item's own."""
        return {item.item_id: Listed((), item.image_ids) for item in items}


def _texts(answer: CaptionAnswer) -> tuple[ShownText, ...]:
    reference = (plain("Reference", answer.item.reference),) if answer.item.reference else ()
    return (plain("Prompt", answer.item.instruction), *reference, plain("Answer", answer.text))


def right_answers(store: Store, bench: str) -> list[CaptionAnswersRight]:
    """For each model and set of captions, the answers by the commonest verdict, and the share of right answers.

    The share is right of right and wrong, without those that are unclear or not reviewed.

    Raises BadInput for an unknown benchmark, and for one without such answers.
    """
    answers = caption_answers(store, bench)
    if not answers:
        raise BadInput(
            f"--bench {bench!r}: no model answered it from captions; `curate judge answer --bench {bench} "
            "--set evaluate.answer_from=captions` asks some"
        )
    verdicts_of = dict[str, list[str]]()
    reviews = latest(reviews_of(store).filter(queue=QueueName.CAPTION_ANSWERS.value))
    for content_id, verdict in reviews.select("content_id", "verdict").iter_rows():
        verdicts_of.setdefault(content_id, []).append(verdict)
    rows = list[CaptionAnswersRight]()
    for captions, model in sorted({(answer.captions, answer.model) for answer in answers}, reverse=True):
        model_answers = [answer for answer in answers if (answer.captions, answer.model) == (captions, model)]
        truths = Counter(_most(verdicts_of.get(answer.content_id, ())) for answer in model_answers)
        right, wrong = truths[AnswerTruth.RIGHT], truths[AnswerTruth.WRONG]
        share = clopper_pearson(right, right + wrong)
        rows.append(
            CaptionAnswersRight(
                captions=captions,
                model=model,
                answers=len(model_answers),
                right=right,
                wrong=wrong,
                unclear=truths[AnswerTruth.UNCLEAR],
                share=share.value,
                ci95_low=share.ci95_low,
                ci95_high=share.ci95_high,
            )
        )
    return rows


def _most(verdicts: Sequence[str]) -> str | None:
    """The commonest verdict; unclear where two are as common, None without any."""
    if not verdicts:
        return None
    (verdict, count), *others = Counter(verdicts).most_common()
    return AnswerTruth.UNCLEAR.value if others and others[0][1] == count else verdict
