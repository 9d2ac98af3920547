"""Questions to people about answers: which answer of a battle is better, and which of two to a written item."""

import json
from typing import TYPE_CHECKING

from flows.commands.options import existing, measured_versions
from flows.commands.tables import note, print_rows
from schemas.errors import BadInput, known_values
from schemas.items.review import Draws
from schemas.settings import Settings
from tasks.product import ResultsAsked, ReviewKind

if TYPE_CHECKING:
    import polars as pl

    from tasks.judging.agreement.choices import ItemAnswers
    from tasks.judging.agreement.stored import Stored
    from tasks.review_queue import ReviewQueue
    from tasks.storage.tables import Store


def _battles(draws: Draws) -> "list[ReviewQueue]":
    from tasks.judging.battles_queue import BattlesQueue

    _anonymous_battles(draws)
    return [BattlesQueue(lambda: _anonymous_battles(draws), draws.per_pair)]


def _preferences(draws: Draws) -> "list[ReviewQueue]":
    from tasks.judging.preferences_queue import PreferencesQueue

    bench = draws.bench
    if not bench:
        raise BadInput("preferences need a written benchmark; give --bench NAME, in a tasks file `bench`")

    def every(store: "Store") -> "tuple[list[ItemAnswers], Stored]":
        return _answer_pairs(store, bench, draws.hidden)

    every(existing(draws.store))
    return [PreferencesQueue(every, draws.tuples, draws.seed)]


def _caption_answers(draws: Draws) -> "list[ReviewQueue]":
    from tasks.judging.caption_answers import CaptionAnswersQueue, right_answers

    if not draws.bench:
        raise BadInput("caption_answers need a written benchmark; give --bench NAME, in a tasks file `bench`")
    right_answers(existing(draws.store), draws.bench)
    return [CaptionAnswersQueue(draws.bench, draws.sample, draws.seed)]


def _print_right_answers(request: ResultsAsked) -> None:
    """Share of right answers by model and set of captions."""
    from tasks.judging.caption_answers import right_answers

    rows = right_answers(existing(request.draws.store), request.draws.bench or "")
    print_rows("answers", rows, request.as_json)


def _anonymous_battles(draws: Draws) -> "pl.DataFrame":
    """The anonymous battles that a release would hold, of the language and slice. Raises BadInput for none."""
    from flows.judging.evaluate import released_battles
    from tasks.judging.pairs import anonymous_battles

    settings = Settings(store=draws.store, providers=draws.providers)
    battles = anonymous_battles(released_battles(settings))
    for name in filter(None, [draws.language and f"language:{draws.language}", draws.slice]):
        of_slice = _ids_of_slice(settings, name)
        battles = battles.join(of_slice, on="question_id", how="semi", maintain_order="left")
    if battles.is_empty():
        raise BadInput(f"store {draws.store!r} has no such kept anonymous battle; experts need some")
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


def _answer_pairs(store: "Store", bench: str, hidden: bool) -> "tuple[list[ItemAnswers], Stored]":
    """Every two answers to the items of a written benchmark, and their texts. Raises BadInput when there are none."""
    from tasks.judging.agreement.choices import answer_pairs
    from tasks.judging.agreement.stored import stored
    from tasks.written_bench.written_items import items_for_judging

    stored_texts = stored(store, bench, True)
    every = answer_pairs(items_for_judging(store, bench), stored_texts, hidden)
    if not every:
        raise BadInput(f"--bench {bench!r}: no item has the answers of two models, or one and a reference")
    return every, stored_texts


def _print_experts(request: ResultsAsked) -> None:
    """How far experts agree with the people's votes and with each other, and the boards of both."""
    from flows.judging.agree import print_agreement, print_raters
    from tasks.judging.agreement.experts import experts
    from tasks.judging.battles_queue import experts_of, people_of

    battles = _anonymous_battles(request.draws)
    expert_verdicts = experts_of(existing(request.draws.store), battles["question_id"].to_list())
    if not expert_verdicts:
        raise BadInput("no expert reviewed a battle of this store; see `curate review serve battles`")
    agreement = experts(people_of(battles), expert_verdicts, battles, request.bootstraps, request.draws.seed)
    print_agreement(agreement.pairs, request.as_json)
    print_raters(agreement.raters, request.as_json)
    if agreement.boards is None:
        note("fewer than two models have an expert's verdict, so there is no board")
    elif request.as_json:
        print(json.dumps({"board": "experts", "reference": "people", **agreement.boards.model_dump(mode="json")}))
    else:
        print_rows("boards", [agreement.boards])


def _write_battles(request: ResultsAsked) -> None:
    """Preferences as a file of battles, with each rater as a keyed hash."""
    from tasks.export.destination import write_option_file
    from tasks.judging.agreement.choices import majority_counts, preferred
    from tasks.storage.keyed_ids import Pseudonyms, store_key
    from tasks.storage.lock import writing

    bench, file = request.draws.bench, request.out
    if bench is None or file is None:
        raise BadInput("preferences need --bench NAME and --out FILE")
    with writing(request.draws.store) as store:  # the first one makes the key
        every, _ = _answer_pairs(store, bench, True)
        battles, unknown = preferred(store, every, Pseudonyms(store_key(store)))
    write_option_file("--out", file, battles.write_csv())
    print(file)
    votes = ", ".join(f"{pairs:,} with {count}" for count, pairs in majority_counts(battles).items())
    note(f"{battles.height:,} choices; pairs by number of choices: {votes}; {unknown:,} on other answers")


KINDS = {
    "battles": ReviewKind(
        ("sheet",),
        _battles,
        "`curate review results battles` gives the agreement",
        results=_print_experts,
    ),
    "caption_answers": ReviewKind(
        ("caption_answers",),
        _caption_answers,
        "`curate review results caption_answers` gives the share of right ones",
        results=_print_right_answers,
        results_of_bench=True,
    ),
    "preferences": ReviewKind(
        ("preferences",),
        _preferences,
        "`curate review results preferences` makes battles of them",
        results=_write_battles,
        results_in_file=True,
    ),
}
