"""Items of benchmarks made on demand, and which are kept: by the policy, by audits, and by what people found.

Which letter is right is even in a level, the other options are in an order by hash.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from schemas.benches.generated import (
    GeneratedAspect,
    GeneratedBench,
    GeneratedDescription,
    GeneratedItem,
    GeneratedQuestion,
)
from schemas.benches.generated_results import AuditMode, ItemReview
from schemas.errors import BadInput
from schemas.items.review import QueueName
from schemas.policy import GeneratedRule
from tasks.generated_bench.questions import shuffled
from tasks.storage.content_id import combined_id
from tasks.storage.queries.released import decided_policy, kept_conversations
from tasks.storage.reviews import last_findings
from tasks.storage.tables import Store, frame_of

CHOICE_LETTERS = "ABCD"
ASK = "Answer with the letter of the right option in square brackets, such as [A]."


class Accepted(NamedTuple):
    """A description with an accepted image and question."""

    description: GeneratedDescription
    question: GeneratedQuestion
    name: str
    """Name of its image in `image_files`, without the ending."""


def make_items(
    bench: GeneratedBench, aspects: Mapping[int, GeneratedAspect], accepted: Iterable[Accepted]
) -> list[GeneratedItem]:
    """The items in the order of aspects and levels."""
    levels = bench.levels.index
    ordered_items = sorted(
        accepted,
        key=lambda source: (levels(source.description.level), source.description.aspect, source.description.number),
    )
    letters = even_letters(ordered_items)
    items = []
    for number, source in enumerate(ordered_items):
        question, description_id, aspect = (
            source.question,
            source.description.description_id,
            aspects[source.description.aspect],
        )
        options = arranged(question.options, letters[description_id], description_id)
        items.append(GeneratedItem(
            item_id=combined_id("item", [description_id]), image_id=question.image_id, bench=bench.bench,
            description_id=description_id, number=number, aspect=aspect.name, general=aspect.general,
            level=source.description.level, kind=question.kind, question=question.question, options=options,
            key=letters[description_id], prompt=prompt_of(question.question, options), name=source.name,
        ))  # fmt: skip
    return items


def even_letters(accepted: Sequence[Accepted]) -> dict[str, str]:
    """Description id -> letter of its key.

    Within a level and number of options every letter is right equally often, or once more or less.
    Descriptions are dealt to the letters in the order of a hash.
    """
    groups: dict[tuple[str, int], list[str]] = {}
    for source in accepted:
        key = (source.description.level, len(source.question.options))
        groups.setdefault(key, []).append(source.description.description_id)
    dealt: dict[str, str] = {}
    for (_, count), ids in groups.items():
        ordered = sorted(ids, key=lambda description_id: combined_id("key", [description_id]))
        dealt |= {description_id: CHOICE_LETTERS[place % count] for place, description_id in enumerate(ordered)}
    return dealt


def arranged(options: Sequence[str], key: str, chance: str) -> list[str]:
    """The options with the right one, which is given first, at the letter `key`; the others in an order by hash."""
    others = shuffled(options[1:], chance)
    place = CHOICE_LETTERS.index(key)
    return [*others[:place], options[0], *others[place:]]


def prompt_of(question: str, options: Sequence[str]) -> str:
    """The question and its options as models are asked."""
    listed = "\n".join(f"{letter}. {option}" for letter, option in zip(CHOICE_LETTERS, options, strict=False))
    return f"{question}\n\n{listed}\n\n{ASK}"


def key_counts(items: Iterable[GeneratedItem]) -> dict[str, dict[str, int]]:
    """Level -> letter -> how often it is right."""
    counts: dict[str, dict[str, int]] = {}
    for item in items:
        of_level = counts.setdefault(item.level, dict.fromkeys(CHOICE_LETTERS, 0))
        of_level[item.key] += 1
    return counts


FITS = ("description_fits", "question_fits")
"""Verdicts on a generated item."""
GUIDED = "guided"
"""Reason of a finding on a generated item whose rater had read the guidelines."""


class KeptItems(NamedTuple):
    """The items of a benchmark that models are asked."""

    items: list[GeneratedItem]
    """In the order of the benchmark."""
    conversations: pl.DataFrame
    """Conversations of the items in released form."""
    dropped: dict[str, int]
    """Reason -> items that are left out: screened, blind, people."""


def kept_items(store: Store, bench: str) -> KeptItems:
    """Raises BadInput when the store has no such benchmark, it is not finished, or none of its items is kept."""
    rows = store.read("generated_items").filter(bench=bench).sort("number")
    if rows.is_empty():
        names = ", ".join(sorted(store.read("generated_items")["bench"].unique()))
        raise BadInput(
            f"--bench {bench!r}: store {store.root!r} has no finished benchmark of this name; "
            + (f"it has {names}" if names else "make one with `curate bench generate`")
        )
    kept = kept_conversations(store)
    by_reason = {"screened": set(rows["item_id"]) - set(kept["conversation_id"]), **found_wanting(store)}
    dropped, items = Counter[str](), []
    for item in (GeneratedItem.model_validate(row) for row in rows.to_dicts()):
        if reason := next((name for name, ids in by_reason.items() if item.item_id in ids), None):
            dropped[reason] += 1
        else:
            items.append(item)
    if not items:
        left_out = ", ".join(f"{reason} {count:,}" for reason, count in dropped.items())
        raise BadInput(f"--bench {bench!r}: no item is kept ({left_out}); `curate explain ITEM` says more about one")
    conversations = kept.filter(pl.col("conversation_id").is_in([item.item_id for item in items]))
    return KeptItems(items, conversations, dict(dropped))


def found_wanting(store: Store) -> dict[str, set[str]]:
    """Reason -> items that the policy leaves out for what audits (blind) and people found."""
    policy = decided_policy(store)
    rule = (policy.generated if policy else None) or GeneratedRule()
    unfit = found_unfit(store) if rule.people else set[str]()
    return {"blind": found_blind(store, rule.blind_models_min), "people": unfit}


def found_blind(store: Store, models_min: int | None) -> set[str]:
    """Items that at least `models_min` models were asked without the image, all of which answered right."""
    if models_min is None:
        return set()
    answers = store.read("audit_answers").filter(mode=AuditMode.BLIND.value)
    by_item: dict[str, dict[str, bool]] = defaultdict(dict)
    for item_id, model, right in answers.select("item_id", "model", pl.col("letter") == pl.col("key")).iter_rows():
        by_item[item_id][model] = by_item[item_id].get(model, True) and bool(right)
    return {item for item, models in by_item.items() if len(models) >= models_min and all(models.values())}


def found_unfit(store: Store) -> set[str]:
    """Items whose description or question most of their raters find unfit."""
    # a row is one item: how many rated it, and how many of them found its description or question unfit
    reviews = generated_reviews(store).group_by("item_id").agg(
        raters=pl.len(), unfit=(~(pl.col("description_fits") & pl.col("question_fits"))).sum()
    )  # fmt: skip
    return set(reviews.filter(pl.col("unfit") * 2 > pl.col("raters"))["item_id"])


def generated_reviews(store: Store) -> pl.DataFrame:
    """Findings on generated items as `ItemReview`; the last one of each rater with, and without, the guidelines."""
    reviews = []
    for item_id, _, rater, verdict, reasons in last_findings(store, QueueName.GENERATED).iter_rows():
        fits = {name: name in verdict.split() for name in FITS}
        reviews.append(ItemReview(item_id=item_id, rater=rater, guided=GUIDED in reasons, **fits))
    return frame_of(ItemReview, reviews)
