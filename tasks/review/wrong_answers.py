"""Queue of models' wrong answers to items made on demand, which people sort as AutoBench-V does (App. E)."""

from collections.abc import Collection, Mapping, Sequence

from schemas.items.review import Choice, QueueName, Waiting
from tasks.generated_bench.items import LETTERS
from tasks.generated_bench.results.errors import ERRORS, WrongAnswer, wrong_answers
from tasks.generated_bench.wordings import named_letters
from tasks.review.review_queue import DrawnQueue, Listed, plain
from tasks.storage.tables import Store


class WrongAnswersQueue(DrawnQueue):
    """A sample of the wrong answers to one benchmark, or to all, drawn by hash; the model is not named."""

    name, title = QueueName.WRONG_ANSWERS.value, "Wrong answers"
    about = (
        "Did the model misread the image or the question, or did it see rightly and conclude wrongly? "
        "`curate bench accuracy --table errors` counts both."
    )
    choices = (
        Choice("1", ERRORS[0], "It misread the image or the question"),
        Choice("2", ERRORS[1], "It saw rightly and concluded wrongly"),
        Choice("3", ERRORS[2], "The answer does not show which"),
    )
    tables = ("generated_items", "answers", "audit_answers", "conversations", "decisions", "generated_images")

    def __init__(self, bench: str | None, sample: int, seed: int) -> None:
        super().__init__(sample, seed)
        self._bench = bench

    def waiting(self, store: Store, among: Collection[str] | None = None) -> list[Waiting]:
        """A sample, in the order of the draw."""
        found = self._wrong(store)
        return [_waiting(found[each]) for each in self.drawn(found, among)]

    def listed(self, store: Store, items: Sequence[Waiting]) -> Mapping[str, Listed]:
        """Questions, options and images."""
        found = self._wrong(store)
        return {
            each.item_id: Listed([plain("Question", named_letters(item.question, item.options))], [item.image_id])
            for each in items
            for item in [found[each.item_id].item]
        }

    def _wrong(self, store: Store) -> dict[str, WrongAnswer]:
        names = [self._bench] if self._bench else store.read("generated_items", ["bench"])["bench"].unique().sort()
        return {each.content_id: each for bench in names for each in wrong_answers(store, bench)}


def _waiting(wrong: WrongAnswer) -> Waiting:
    item = wrong.item
    right = item.options[LETTERS.index(item.key)]
    return Waiting(
        item_id=wrong.content_id,
        content_id=wrong.content_id,
        conversation_id=item.item_id,
        question="What is it an error of?",
        texts=(plain("Right", f"{item.key}: {right}"), plain("Answer", wrong.text)),
        beside=True,
        blinded=True,
    )
