"""Kinds of questions to people: the queues of each kind, with what is drawn for them."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from flows.commands.options import existing, measured_versions
from flows.products import PRODUCTS
from schemas.errors import BadInput, known_values
from schemas.items.review import Draws
from schemas.settings import Settings
from tasks.product import ReviewKind

if TYPE_CHECKING:
    import polars as pl

    from tasks.judging.agreement.choices import ItemAnswers
    from tasks.judging.agreement.stored import Stored
    from tasks.review.session import Figures
    from tasks.review_queue import ReviewQueue
    from tasks.storage.tables import Store


def _drawn(kind: str, wanted: Draws) -> "list[ReviewQueue]":
    """Queues that need no more than what is said of the draw."""
    from tasks.review.alarms import FacesQueue, ImageTextsQueue, PersonalDataQueue
    from tasks.review.held import HeldQueue
    from tasks.review.tags import FailuresQueue, TagsQueue

    drawn = wanted.sample, wanted.seed
    queues: dict[str, list[ReviewQueue]] = {
        "held": [HeldQueue()],
        "tags": [TagsQueue(*drawn)],
        "alarms": [FacesQueue(*drawn), PersonalDataQueue(*drawn), ImageTextsQueue(*drawn)],
        "failures": [FailuresQueue()],
    }
    return queues[kind]


def _items(wanted: Draws) -> "list[ReviewQueue]":
    from tasks.review.items import WrittenQueue
    from tasks.written_bench.written_items import check_known

    if wanted.bench:
        check_known(existing(wanted.store), wanted.bench)
    return [WrittenQueue(wanted.bench)]


def _battles(wanted: Draws) -> "list[ReviewQueue]":
    from tasks.review.battles import BattlesQueue

    anonymous_battles_of(wanted)
    return [BattlesQueue(lambda: anonymous_battles_of(wanted), wanted.per_pair)]


def _preferences(wanted: Draws) -> "list[ReviewQueue]":
    from tasks.review.preferences import PreferencesQueue

    bench = wanted.bench
    if not bench:
        raise BadInput("preferences need a written benchmark; give --bench NAME, in a tasks file `bench`")

    def every(store: "Store") -> "tuple[list[ItemAnswers], Stored]":
        return tuples_of(store, bench, wanted.hidden)

    every(existing(wanted.store))
    return [PreferencesQueue(every, wanted.tuples, wanted.seed)]


KINDS = {
    "held": ReviewKind(("held",), partial(_drawn, "held"), "`curate decide` or `curate run` applies them", True),
    "tags": ReviewKind(
        ("tags",),
        partial(_drawn, "tags"),
        "`curate tags evaluate TAGGER reviews` holds a tagger against them",
        True,
    ),
    "alarms": ReviewKind(
        ("faces", "text_pii", "image_text_pii"),
        partial(_drawn, "alarms"),
        "`curate review results alarms` gives precisions",
        True,
    ),
    "failures": ReviewKind(
        ("failures",), partial(_drawn, "failures"), "`curate sample` or `curate run` applies them", True
    ),
    "items": ReviewKind(
        ("written",), _items, "`curate decide --policy authored` drops what is incorrect or harmful", True
    ),
    **{name: kind for each in PRODUCTS for name, kind in each.kinds.items()},
    "battles": ReviewKind(("sheet",), _battles, "`curate review results battles` gives the agreement"),
    "preferences": ReviewKind(
        ("preferences",), _preferences, "`curate review results preferences` makes battles of them"
    ),
}
OF_EVERY_STORE = tuple(name for name, kind in KINDS.items() if kind.of_every_store)
"""Kinds that are served when none is named."""


def queues_of(kinds: Sequence[str], wanted: Draws) -> "list[ReviewQueue]":
    """The queues of some kinds. Raises BadInput for an unknown kind."""
    for kind in kinds:
        if kind not in KINDS:
            raise BadInput(f"kind {known_values(kind, KINDS)}")
    return [queue for kind in dict.fromkeys(kinds) for queue in KINDS[kind].make_queues(wanted)]


def anonymous_battles_of(wanted: Draws) -> "pl.DataFrame":
    """The anonymous battles that a release would hold, of the language and slice. Raises BadInput for none."""
    from flows.judging.evaluate import released_battles
    from tasks.judging.pairs import anonymous_battles

    settings = Settings(store=wanted.store, providers=wanted.providers)
    battles = anonymous_battles(released_battles(settings))
    for name in filter(None, [wanted.language and f"language:{wanted.language}", wanted.slice]):
        of_slice = _ids_of_slice(settings, name)
        battles = battles.join(of_slice, on="question_id", how="semi", maintain_order="left")
    if battles.is_empty():
        raise BadInput(f"store {wanted.store!r} has no such kept anonymous battle; experts need some")
    return battles


def _ids_of_slice(settings: Settings, name: str) -> "pl.DataFrame":
    """question_id of the battles of a slice. Raises BadInput for one that boards do not have."""
    from tasks.leaderboard.leaderboard import slice_masks
    from tasks.leaderboard.steps import rated_battles
    from tasks.leaderboard.votes import rateable
    from tasks.storage.queries.conversation_features import UNKNOWN, english_name

    rows = rateable(rated_battles(existing(settings.store), measured_versions(settings)))
    masks, prefix, value = slice_masks(rows), *name.partition(":")[::2]
    if prefix == "language" and name not in masks and english_name(value) != UNKNOWN:
        name = f"language:{english_name(value)}"
    if name not in masks:
        raise BadInput(f"slice {known_values(name, masks)}")
    return rows.filter(masks[name]).select("question_id")


def tuples_of(store: "Store", bench: str, hidden: bool) -> "tuple[list[ItemAnswers], Stored]":
    """Every two answers to the items of a written benchmark, and their texts. Raises BadInput when there are none."""
    from tasks.judging.agreement.choices import answer_pairs
    from tasks.judging.agreement.stored import stored
    from tasks.written_bench.written_items import items_for_judging

    known = stored(store, bench, True)
    every = answer_pairs(items_for_judging(store, bench), known, hidden)
    if not every:
        raise BadInput(f"--bench {bench!r}: no item has the answers of two models, or one and a reference")
    return every, known


def figures_of(store: "Store") -> "Figures":
    """Agreement of reviewers and precision of detectors."""
    from tasks.judging.agreement.experts import reviewer_agreements
    from tasks.review.session import Figures
    from tasks.storage.reviews import detector_precisions, reviews_of

    return Figures(reviewer_agreements(reviews_of(store)), detector_precisions(store))
