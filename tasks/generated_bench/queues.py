"""Queues of items made on demand and of wrong answers to them, and how often most people find that things fit."""

import hmac
from collections.abc import Collection, Iterator, Mapping, Sequence

import polars as pl

from schemas.benches.generated import GeneratedAspect, GeneratedDescription, GeneratedItem
from schemas.benches.generated_results import ReviewRow
from schemas.errors import BadInput, known_values
from schemas.items.review import Choice, QueueName, Waiting
from tasks.generated_bench.accuracy import interval
from tasks.generated_bench.bench_state import BenchState, read_bench
from tasks.generated_bench.items import CHOICE_LETTERS, FITS, GUIDED, generated_reviews
from tasks.generated_bench.results.errors import ERRORS, WrongAnswer, wrong_answers
from tasks.generated_bench.wordings import named_letters
from tasks.review_queue import NONE, DrawnQueue, Listed, ReviewQueue, plain
from tasks.storage.keyed_ids import store_key
from tasks.storage.tables import Store


class GeneratedQueue(ReviewQueue):
    """The items of a benchmark made on demand, or of all, each with its description, aspect and key.

    `guided`: with the guideline of the aspect, which a verdict then has as its reason.
    """

    name, title, many, needs_rater = QueueName.GENERATED.value, "Generated items", True, True
    about = (
        "Does the description fit its aspect, and do question and key fit the image? Mark what fits. "
        "`curate review results generated` gives the rates; what most raters find unfit is left out from then on."
    )
    choices = (
        Choice("1", FITS[0], "The description fits its aspect"),
        Choice("2", FITS[1], "Question and key fit the image"),
    )
    tables = (
        "generated_items", "generated_aspects", "generated_descriptions", "generated_questions", "generated_images",
        "alignments", "conversations",
    )  # fmt: skip

    def __init__(self, bench: str | None = None, guided: bool = True) -> None:
        self._bench, self._guided = bench, guided
        self._guidelines = dict[str, str]()
        """Item id -> the guideline of its aspect; empty until it is needed."""

    def waiting(self, store: Store, among: Collection[str] | None = None) -> list[Waiting]:
        """The items of all benchmarks, in their order."""
        there, waiting_items = set(store.read("conversations", ["conversation_id"])["conversation_id"]), list[Waiting]()
        for state in self._benches(store):
            described = {
                item_progress.description.description_id: item_progress.description for item_progress in state.progress
            }
            for item in (generated_item for generated_item in state.items if generated_item.item_id in there):
                description = described[item.description_id]
                waiting_items.append(
                    _waiting(item, description, state.aspects[description.aspect] if self._guided else None)
                )
        return waiting_items

    def listed(self, store: Store, items: Sequence[Waiting]) -> Mapping[str, Listed]:
        """Levels, questions, options and images."""
        listed_items = {}
        for item in (item for state in self._benches(store) for item in state.items):
            texts = {"Level": item.level, "Question": item.question, "Options": " | ".join(item.options)}
            listed_items[item.item_id] = Listed([plain(*titled_text) for titled_text in texts.items()], [item.image_id])
        return listed_items

    def rater(self, store: Store, name: str) -> str:
        """A keyed hash."""
        return hmac.digest(store_key(store), f"rater {name}".encode(), "sha256").hex()[:24]

    def earlier(self, store: Store, cells: Mapping[str, str], sheet: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
        """The verdict for columns with yes and no; a guideline in a line says that the rater had read it.

        A line without one, because its aspect has none, is guided where the sheet shows other guidelines.
        """
        answers = {name: cells.get(name, "").lower() for name in FITS}
        if not any(answers.values()):
            return {"verdict": ""}
        for name, value in answers.items():
            if value not in ("yes", "no"):
                raise BadInput(f"{name} {known_values(value, ('yes', 'no'))}")
        fits = [name for name, value in answers.items() if value == "yes"]
        guided = bool(cells.get("guideline")) or (
            any(line.get("guideline") for line in sheet) and self._guideline(store, cells["item"]) == ""
        )
        return {"verdict": " ".join(fits) or NONE, "reasons": GUIDED if guided else ""}

    def _guideline(self, store: Store, item_id: str) -> str | None:
        """The guideline of an item's aspect, without spaces around it; None for an item that is not there."""
        if not self._guidelines:
            for state in self._benches(store):
                aspects = {
                    item_progress.description.description_id: item_progress.description.aspect
                    for item_progress in state.progress
                }
                self._guidelines |= {
                    item.item_id: state.aspects[aspects[item.description_id]].guideline.strip() for item in state.items
                }
        return self._guidelines.get(item_id)

    def _benches(self, store: Store) -> Iterator[BenchState]:
        names = store.read("generated_items", ["bench"])["bench"].unique().sort()
        return (read_bench(store, bench) for bench in ([self._bench] if self._bench else names))


def _waiting(item: GeneratedItem, described: GeneratedDescription, aspect: GeneratedAspect | None) -> Waiting:
    texts = {"Aspect": f"{item.general}: {item.aspect}"} | ({"Guideline": aspect.guideline} if aspect else {})
    texts |= {
        "Description": described.description,
        "Key": f"{item.key}: {item.options[CHOICE_LETTERS.index(item.key)]}",
    }
    item_id, plain_texts = item.item_id, tuple(plain(*titled_text) for titled_text in texts.items())
    reasons = (GUIDED,) if aspect else ()
    return Waiting(
        item_id, item_id, item_id, "What fits?", reasons=reasons, texts=plain_texts, beside=True, blinded=True
    )


def review_rows(store: Store, items: Sequence[GeneratedItem]) -> list[ReviewRow]:
    """How often a majority of raters says yes, by question, level and whether they had the guideline. A tie is no."""
    levels = {item.item_id: item.level for item in items}
    reviews = generated_reviews(store).filter(pl.col("item_id").is_in(list(levels)))
    rows = []
    for guided in (True, False):
        for fit_column in FITS:
            # a row is one item: how many rated it, and how many of them said yes
            by_item = reviews.filter(guided=guided).group_by("item_id").agg(
                raters=pl.len(), yes=pl.col(fit_column).sum()
            )  # fmt: skip
            for level in ("all", *dict.fromkeys(levels.values())):
                ids = [item_id for item_id, item_level in levels.items() if level in ("all", item_level)]
                of_level = by_item.filter(pl.col("item_id").is_in(ids))
                if of_level.height:
                    rows.append(_row(fit_column, guided, level, of_level))
    return rows


def _row(fit_column: str, guided: bool, level: str, by_item: pl.DataFrame) -> ReviewRow:
    fits = int((by_item["yes"] * 2 > by_item["raters"]).sum())
    share, low, high = interval(fits, by_item.height)
    return ReviewRow(
        asked=fit_column, guided=guided, level=level, items=by_item.height, fits=fits, rate=share, ci95_low=low,
        ci95_high=high, raters_least=int(by_item["raters"].to_numpy().min()),
    )  # fmt: skip


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
        wrong_by_id, waiting = self._wrong(store), list[Waiting]()
        for content_id in self.drawn(wrong_by_id, among):
            item, answer_text = wrong_by_id[content_id].item, wrong_by_id[content_id].text
            right = f"{item.key}: {item.options[CHOICE_LETTERS.index(item.key)]}"
            texts, question = (plain("Right", right), plain("Answer", answer_text)), "What is it an error of?"
            waiting.append(
                Waiting(content_id, content_id, item.item_id, question, texts=texts, beside=True, blinded=True)
            )
        return waiting

    def listed(self, store: Store, items: Sequence[Waiting]) -> Mapping[str, Listed]:
        """Questions, options and images."""
        wrong_by_id = self._wrong(store)
        return {
            waiting_item.item_id: Listed(
                [plain("Question", named_letters(item.question, item.options))], [item.image_id]
            )
            for waiting_item in items
            for item in [wrong_by_id[waiting_item.item_id].item]
        }

    def _wrong(self, store: Store) -> dict[str, WrongAnswer]:
        names = [self._bench] if self._bench else store.read("generated_items", ["bench"])["bench"].unique().sort()
        return {wrong.content_id: wrong for bench in names for wrong in wrong_answers(store, bench)}
