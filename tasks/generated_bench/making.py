"""Makes what a benchmark still lacks: aspects, descriptions, images, checks and questions, then its items.

In: the state of a benchmark (`BenchState`) and the models that make it. Out: rows of `generated_*`, `drawings` and
`alignments`, stored as they arrive; a failed call stores nothing, so the next run makes it again. A further stage is a
function here, and a member of `NextStep`; a paid one is also an entry of `expected` in `estimate_making`.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain, product

import polars as pl

from schemas.asked_model import ANSWER_TOKENS_MAX
from schemas.benches.generated import (
    Alignment,
    Capability,
    Drawing,
    DrawingState,
    GeneratedBench,
    GeneratedDescription,
    GeneratedOutcome,
    GeneratedQuestion,
    Level,
    Outcome,
)
from schemas.errors import BadInput
from schemas.policy import GeneratedRule
from schemas.run import Estimate, Prices
from schemas.settings import GenerateSettings, Settings
from tasks.generated_bench.alignment import align
from tasks.generated_bench.aspects import ASPECT_ROUNDS, levels, load_capability, write_aspects
from tasks.generated_bench.bench_state import BenchState, ItemProgress, NextStep, read_bench
from tasks.generated_bench.descriptions import DESCRIPTION_ATTEMPTS, CellDescriptions, description_id_of
from tasks.generated_bench.items import Accepted, make_items
from tasks.generated_bench.questions import QUESTION_ATTEMPTS, write_question
from tasks.providers import MAKERS, Providers
from tasks.providers.ask_items import Work, ask_each, store_results
from tasks.providers.capabilities import Author, Failed, ImageModel, Viewer
from tasks.providers.cost import Count, ExpectedUse, Size, estimate_row
from tasks.runtime.untrusted import one_line
from tasks.storage.content_id import combined_id
from tasks.storage.keyed_ids import Tombstones
from tasks.storage.parts import append_incrementally
from tasks.storage.queries.signals import StoredImages
from tasks.storage.tables import Store, frame_of

_SHOWN = (1024, 1024)
"""Size in pixels of the images that are expected."""
PROMPT_TOKENS, ANSWER_TOKENS = 300, 120
"""Expected lengths of a prompt file and of an answer, without the description in it.

Descriptions are counted with all the words of their level.
"""
_TOKENS_A_WORD = 4 / 3
"""Vendors' rule of thumb for English."""
TOLD = (
    "Draw exactly what is described and nothing else, without any writing. Left and right are those of somebody who "
    "looks at the image.\n\n"
)
"""Said to the image model before the description."""
DESCRIPTIONS_A_ROUND = 16
"""Descriptions of one aspect and level that are written before any is stored."""
_REJECTED = ("description_rejected", "no_check_questions")
"""Reasons for which a description ends: asking again would not help."""


def begin_bench(store: Store, settings: Settings) -> GeneratedBench:
    """Record how the benchmark is made. Raises BadInput in a store of logs, and when it was begun in another way."""
    if store.height("log_files"):
        raise BadInput(
            f"store {store.root!r} holds an arena's logs; give --store a folder of its own, because a policy "
            "decides on all of a store"
        )
    bench_settings = settings.generate
    bench = GeneratedBench(
        bench=bench_settings.name,
        capability=load_capability(bench_settings.capability).model_dump_json(),
        **bench_settings.model_dump(include={"general", "fine", "per_aspect", "levels", "graph"}),
        seed=settings.seed,
        providers=[f"{name}={Providers(settings.providers).names[name]}" for name in sorted(MAKERS)],
    )
    stored_rows = store.read("generated_benches").filter(bench=bench.bench).to_dicts()
    was = GeneratedBench.model_validate(stored_rows[0]) if stored_rows else bench
    if Capability.model_validate_json(was.capability).name == bench_settings.capability:
        bench = bench.model_copy(update={"capability": was.capability})  # a shipped one, as it was worded then
    if was != bench:
        name = next(name for name in GeneratedBench.model_fields if getattr(was, name) != getattr(bench, name))
        begun, now = (one_line(str(getattr(bench_row, name)), 80) for bench_row in (was, bench))
        raise BadInput(
            f"--bench {bench.bench!r} was begun with other {name.replace('_', ' ')}: {begun}, not {now}; give the "
            "same, or another name"
        )
    if not stored_rows:
        store.append("generated_benches", frame_of(GeneratedBench, [bench]))
    return bench


def write_missing_aspects(store: Store, state: BenchState, author: Author, work: Work) -> None:
    """All aspects, or none."""
    if state.aspects:
        return
    aspects = write_aspects(author, state.bench, state.capability)
    if isinstance(aspects, Failed):
        work.took("author", aspects)
        return
    work.calls["author"] += 1
    store.append("generated_aspects", frame_of(type(aspects[0]), aspects))
    work.counts["aspects"] = len(aspects)


def write_missing_descriptions(store: Store, state: BenchState, author: Author, work: Work) -> None:
    """Some of every aspect and level at a time, so that a killed run has written most of what it paid for.

    After a failed call no more of its aspect and level are asked for: they depend on the one that is missing.
    """
    failed_cells = set[tuple[int, str]]()
    for first in range(0, state.bench.per_aspect, DESCRIPTIONS_A_ROUND):
        last = min(first + DESCRIPTIONS_A_ROUND, state.bench.per_aspect)
        written = {
            item_progress.description.description_id: item_progress.description
            for item_progress in read_bench(store, state.bench.bench).progress
        }
        cells = [cell for cell in product(sorted(state.aspects), state.bench.levels) if cell not in failed_cells]
        write = partial(_write_cell, state, author, written, range(first, last))
        with (
            append_incrementally(store, "generated_descriptions") as append_descriptions,
            append_incrementally(store, "generated_outcomes") as append_outcomes,
        ):
            for cell, results in ask_each("descriptions", write, cells, author.calls_at_once):
                for description_id, result in results:
                    if isinstance(result, Failed) and result.reason in _REJECTED:
                        about = {"description_id": description_id, "bench": state.bench.bench, "reason": result.reason}
                        outcome = GeneratedOutcome(**about, outcome=Outcome.DROPPED, images=0, score=None)
                        append_outcomes([outcome.model_dump()])
                        work.calls["author"] += 1  # calls that were made, and none that failed
                        work.counts[result.reason] += 1
                    elif work.took("author", result) and not isinstance(result, Failed):
                        append_descriptions([result.model_dump()])
                        work.counts["descriptions"] += 1
                    else:
                        failed_cells.add(cell)


def _write_cell(
    state: BenchState, author: Author, written: dict[str, GeneratedDescription], numbers: range, cell: tuple[int, str]
) -> tuple[tuple[int, str], list[tuple[str, GeneratedDescription | Failed]]]:
    """The aspect and level, and its missing descriptions; after a failed call no more are asked for."""
    aspect, level = cell
    writer = CellDescriptions(state.bench, state.capability, state.aspects[aspect], level, levels()[level])
    new_descriptions: list[tuple[str, GeneratedDescription | Failed]] = []
    ids = [description_id_of(state.bench.bench, aspect, level, number) for number in range(state.bench.per_aspect)]
    # the writer is told of every description that there is, also of those behind a gap, so that it repeats none
    for description_id in filter(written.__contains__, ids):
        writer.known(written[description_id])
    for number in numbers:
        description_id = ids[number]
        if description_id in written or description_id in state.outcomes:
            continue
        result = writer.write(author, number)
        new_descriptions.append((description_id, result))
        if isinstance(result, GeneratedDescription):
            writer.known(result)
        elif result.reason not in _REJECTED:
            break
    return cell, new_descriptions


def draw_missing(store: Store, state: BenchState, pictures: ImageModel, rule: GeneratedRule, work: Work) -> None:
    """Have every image drawn that is wanted now. Writes `drawings`; ingest takes the images out of it."""
    ordered = set(store.read("drawings", ["description_id", "attempt"]).iter_rows())
    undrawn = [item_progress for item_progress in state.progress if item_progress.next_step(rule)[0] is NextStep.DRAW]
    orders = [(item_progress.description, item_progress.next_attempt) for item_progress in undrawn]
    orders = [
        (description, attempt)
        for description, attempt in orders
        if (description.description_id, attempt) not in ordered
    ]
    draw = partial(_draw, pictures, state.bench.seed)
    drawn = ask_each("drawings", draw, orders, pictures.calls_at_once)
    store_results(store, "drawings", drawn, "pictures", work, lambda drawing: drawing.state)


def _draw(pictures: ImageModel, seed: int, order: tuple[GeneratedDescription, int]) -> Drawing | Failed:
    description, attempt = order
    image_prompt = TOLD + description.description
    content = pictures.draw(image_prompt, f"{seed} {description.description_id} {attempt}")
    if isinstance(content, Failed) and content.reason != "refused":
        return content
    state, content = (DrawingState.REFUSED, b"") if isinstance(content, Failed) else (DrawingState.DRAWN, content)
    description_id = description.description_id
    return Drawing(
        description_id=description_id, attempt=attempt, name=combined_id("drawing", [description_id, str(attempt)]),
        told=image_prompt, state=state, content=content, version=pictures.version,
    )  # fmt: skip


def check_missing(store: Store, state: BenchState, viewer: Viewer, rule: GeneratedRule, work: Work) -> None:
    """Ask the viewer about every image that has no alignment yet, then end what the policy drops."""
    by_image = dict[str, list[ItemProgress]]()  # equal pictures of two descriptions are one stored image
    for item_progress in state.progress:
        if item_progress.next_step(rule)[0] is NextStep.CHECK:
            by_image.setdefault(item_progress.images[-1].image_id or "", []).append(item_progress)
    images = StoredImages(store, "images")
    unchecked = [item_progress for image_id in images.ordered(by_image) for item_progress in by_image[image_id]]

    def check(item_progress: ItemProgress) -> Alignment | Failed:
        image = item_progress.images[-1]
        stored = images[image.image_id or ""]
        return align(viewer, item_progress.description, image, (stored.format, stored.bytes))

    checked = ask_each("checked images", check, unchecked, viewer.calls_at_once)
    store_results(store, "alignments", checked, "viewer", work)
    now = read_bench(store, state.bench.bench).progress
    # one pair an item that the policy drops now, with the reason that its outcome gets
    dropped = [
        (item_progress, why)
        for item_progress in now
        for needs, why in [item_progress.next_step(rule)]
        if needs is NextStep.DROP
    ]
    end_all(store, [item_progress.ended(Outcome.DROPPED, why) for item_progress, why in dropped], work)
    work.counts.update(item_progress.next_step(rule)[0] for item_progress in now)


def end_all(store: Store, outcomes: Sequence[GeneratedOutcome], work: Work) -> None:
    """Write the ends of some descriptions."""
    store.append("generated_outcomes", frame_of(GeneratedOutcome, outcomes))
    work.counts.update(outcome.reason or str(outcome.outcome) for outcome in outcomes)


def write_missing_questions(store: Store, state: BenchState, author: Author, rule: GeneratedRule, work: Work) -> None:
    """A question for every accepted image; rejected ones are asked for again, at most QUESTION_ATTEMPTS in all.

    It ends each description whose question is accepted, as an item, or rejected for good.
    """
    unsettled = [
        item_progress
        for item_progress in state.progress
        if _asks(item_progress, rule) and not _settled(item_progress.questions)
    ]
    ask = partial(_ask, state, author)
    written = chain.from_iterable(ask_each("questions", ask, unsettled, author.calls_at_once))
    store_results(
        store, "generated_questions", written, "author", work, lambda row: "rejected" if row.problem else "accepted"
    )
    now = read_bench(store, state.bench.bench).progress
    settled = [
        item_progress for item_progress in now if _asks(item_progress, rule) and _settled(item_progress.questions)
    ]
    ends = (
        (Outcome.DROPPED, "question") if item_progress.questions[-1].problem else (Outcome.ITEM, "")
        for item_progress in settled
    )
    end_all(store, [item_progress.ended(*end) for item_progress, end in zip(settled, ends, strict=True)], work)


def _asks(item_progress: ItemProgress, rule: GeneratedRule) -> bool:
    return item_progress.next_step(rule)[0] is NextStep.ASK


def _settled(questions: Sequence[GeneratedQuestion]) -> bool:
    return bool(questions) and (not questions[-1].problem or len(questions) >= QUESTION_ATTEMPTS)


def _ask(state: BenchState, author: Author, progress_of_item: ItemProgress) -> list[GeneratedQuestion | Failed]:
    questions: list[GeneratedQuestion | Failed] = []
    description, alignment = progress_of_item.description, progress_of_item.last
    assert alignment is not None, "a question is written for a checked image"
    for attempt in range(len(progress_of_item.questions), QUESTION_ATTEMPTS):
        aspect = state.aspects[description.aspect]
        result = write_question(author, state.capability, aspect, description, alignment, attempt, state.bench.seed)
        questions.append(result)
        if isinstance(result, Failed) or not result.problem:
            break
    return questions


def store_items(store: Store, state: BenchState, tombstones: Tombstones, work: Work) -> None:
    """The items, once every description has its end; they never change afterwards.

    A description of which something was taken down becomes no item.
    """
    if state.items or len(state.outcomes) < state.wanted:
        work.counts["unfinished"] = state.wanted - len(state.outcomes)
        return
    done = [item_progress for item_progress in state.progress if item_progress.accepted]
    accepted = (
        Accepted(item_progress.description, item_progress.questions[-1], item_progress.images[-1].name)
        for item_progress in done
    )
    every = make_items(state.bench, state.aspects, accepted)
    gone = tombstones.conversations(pl.Series([item.item_id for item in every], dtype=pl.String))
    items = [item for item in every if item.item_id not in gone]
    if missing := sum(outcome.outcome is Outcome.ITEM for outcome in state.outcomes.values()) - len(items):
        work.counts["taken_down"] = missing
    if items:
        store.append("generated_items", frame_of(type(items[0]), items))


def estimate_making(
    settings: GenerateSettings, capability: Capability, levels: Mapping[str, Level], rule: GeneratedRule,
    providers: Providers, prices: Prices, count: Count,
) -> list[Estimate]:  # fmt: skip
    """One row for each capability with a paid provider: expected calls, and the most they can cost.

    Expected: every first attempt succeeds. Most: every description, image and question is asked for as often as it may.
    """
    chosen_levels = [levels[name] for name in settings.levels]
    of_a_level = settings.general * settings.fine * settings.per_aspect
    descriptions, checks = of_a_level * len(chosen_levels), of_a_level * sum(level.checks for level in chosen_levels)
    described = round(of_a_level * sum(level.words_max for level in chosen_levels) * _TOKENS_A_WORD)
    prompt_tokens = count(capability.model_dump_json()) + PROMPT_TOKENS
    # One call for all aspects. A description, its check questions, the question and its solution are a call each, of
    # which the first is answered with the description and the last three hold it. None is told of other descriptions.
    author_calls = 1 + 4 * descriptions
    author = _answers(author_calls, author_calls * prompt_tokens + 3 * described, described=described)
    # Each attempt at a description, and at a question, is two of these calls.
    author_calls_most = ASPECT_ROUNDS + 2 * (DESCRIPTION_ATTEMPTS + QUESTION_ATTEMPTS) * descriptions
    drawings_of_each = 1 + rule.redraws_max
    pictures = ExpectedUse(descriptions, descriptions, descriptions * count(TOLD) + described)
    # capability -> (items, expected use, how many times as much it can be)
    expected = {
        "author": (descriptions, author, author_calls_most / author_calls),
        "pictures": (descriptions, pictures, drawings_of_each),
        "viewer": (descriptions, _answers(checks, checks * PROMPT_TOKENS, [_SHOWN] * checks), drawings_of_each),
    }
    return [
        estimate_row(str(providers[name].service), name, items, use, prices, most=most)
        for name in sorted(providers.paid(expected))
        for items, use, most in [expected[name]]
    ]


def _answers(calls: int, input_tokens: int, images: Sequence[Size] = (), described: int = 0) -> ExpectedUse:
    output_tokens = calls * ANSWER_TOKENS + described
    return ExpectedUse(calls, 0, input_tokens, images, output_tokens, calls * ANSWER_TOKENS_MAX)
