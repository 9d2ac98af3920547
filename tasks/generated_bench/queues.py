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
        there, found = set(store.read("conversations", ["conversation_id"])["conversation_id"]), list[Waiting]()
        for made in self._benches(store):
            described = {each.description.description_id: each.description for each in made.progress}
            for item in (each for each in made.items if each.item_id in there):
                description = described[item.description_id]
                found.append(_waiting(item, description, made.aspects[description.aspect] if self._guided else None))
        return found

    def listed(self, store: Store, items: Sequence[Waiting]) -> Mapping[str, Listed]:
        """Levels, questions, options and images."""
        found = {}
        for item in (item for made in self._benches(store) for item in made.items):
            told = {"Level": item.level, "Question": item.question, "Options": " | ".join(item.options)}
            found[item.item_id] = Listed([plain(*each) for each in told.items()], [item.image_id])
        return found

    def rater(self, store: Store, name: str) -> str:
        """A keyed hash."""
        return hmac.digest(store_key(store), f"rater {name}".encode(), "sha256").hex()[:24]

    def earlier(self, store: Store, cells: Mapping[str, str], sheet: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
        """The verdict for columns with yes and no; a guideline in a line says that the rater had read it.

        A line without one, because its aspect has none, is guided where the sheet shows other guidelines.
        """
        said = {name: cells.get(name, "").lower() for name in FITS}
        if not any(said.values()):
            return {"verdict": ""}
        for name, value in said.items():
            if value not in ("yes", "no"):
                raise BadInput(f"{name} {known_values(value, ('yes', 'no'))}")
        fits = [name for name, value in said.items() if value == "yes"]
        guided = bool(cells.get("guideline")) or (
            any(line.get("guideline") for line in sheet) and self._guideline(store, cells["item"]) == ""
        )
        return {"verdict": " ".join(fits) or NONE, "reasons": GUIDED if guided else ""}

    def _guideline(self, store: Store, item_id: str) -> str | None:
        """The guideline of an item's aspect, without spaces around it; None for an item that is not there."""
        if not self._guidelines:
            for made in self._benches(store):
                aspects = {each.description.description_id: each.description.aspect for each in made.progress}
                self._guidelines |= {
                    item.item_id: made.aspects[aspects[item.description_id]].guideline.strip() for item in made.items
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
    own, shown = item.item_id, tuple(plain(*each) for each in texts.items())
    reasons = (GUIDED,) if aspect else ()
    return Waiting(own, own, own, "What fits?", reasons=reasons, texts=shown, beside=True, blinded=True)


def review_rows(store: Store, items: Sequence[GeneratedItem]) -> list[ReviewRow]:
    """How often a majority of raters says yes, by question, level and whether they had the guideline. A tie is no."""
    levels = {item.item_id: item.level for item in items}
    reviews = generated_reviews(store).filter(pl.col("item_id").is_in(list(levels)))
    rows = []
    for guided in (True, False):
        for asked in FITS:
            by_item = reviews.filter(guided=guided).group_by("item_id").agg(
                raters=pl.len(), yes=pl.col(asked).sum()
            )  # fmt: skip
            for level in ("all", *dict.fromkeys(levels.values())):
                ids = [item_id for item_id, own in levels.items() if level in ("all", own)]
                of_level = by_item.filter(pl.col("item_id").is_in(ids))
                if of_level.height:
                    rows.append(_row(asked, guided, level, of_level))
    return rows


def _row(asked: str, guided: bool, level: str, by_item: pl.DataFrame) -> ReviewRow:
    fits = int((by_item["yes"] * 2 > by_item["raters"]).sum())
    share, low, high = interval(fits, by_item.height)
    return ReviewRow(
        asked=asked, guided=guided, level=level, items=by_item.height, fits=fits, rate=share, ci95_low=low,
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
        found, waiting = self._wrong(store), list[Waiting]()
        for own in self.drawn(found, among):
            item, said = found[own].item, found[own].text
            right = f"{item.key}: {item.options[CHOICE_LETTERS.index(item.key)]}"
            texts, question = (plain("Right", right), plain("Answer", said)), "What is it an error of?"
            waiting.append(Waiting(own, own, item.item_id, question, texts=texts, beside=True, blinded=True))
        return waiting

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
