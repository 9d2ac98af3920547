"""The Prefect tasks of judging: answers of models, verdicts and votes of a judge, and boards of them."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path

import polars as pl

from schemas.asked_model import AskedModel
from schemas.benches.judge_release import JudgeAgreement, JudgeCard, WrittenMetric
from schemas.benches.judging import JudgeRating, WrittenRating
from schemas.benches.written import SAMPLED
from schemas.errors import BadInput
from schemas.rating import OVERALL, Rating
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.judging.agreement.reproduced import comparisons, every
from tasks.judging.agreement.stored import said_of, stored
from tasks.judging.answers import answers_by_model, ask_models, take_in_answers
from tasks.judging.ask import Judge, ask, judge_version, model_judge
from tasks.judging.boards.released_board import chosen_verdicts, judge_agreement, judge_cards, released_board
from tasks.judging.boards.submission_boards import board_for_release, judged_benches, keep_board, stored_board
from tasks.judging.cases import propose_verdicts
from tasks.judging.files.answer_files import read_answers
from tasks.judging.items import Items
from tasks.judging.pairs import anonymous_battles, pairs_of_battles, pairs_with_baseline, shown
from tasks.judging.protocols import VISIT_PROTOCOLS, VOTE, AnswerPair, Protocol, protocol
from tasks.judging.questions import texts_of_images
from tasks.judging.sources import KeyedItemsOf, bench_of, item_pairs, no_keyed_items, protocol_of, versions_of
from tasks.judging.stand_ins import consensus_judge, consensus_voter, nearness_judge
from tasks.judging.submissions import keep_answers, plan_of
from tasks.judging.visit_battles import order_counts
from tasks.leaderboard.rating_tables import method_of
from tasks.providers import Providers
from tasks.providers.ask_items import Work
from tasks.providers.asked_models import judge_of, to_ask
from tasks.providers.capabilities import TextEmbedder
from tasks.runtime.steps import step
from tasks.runtime.untrusted import one_line
from tasks.storage.parquet import read_parquet_groups
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store, frame_of

_ASKED = ["question_id"]


@step
def collect_answers(settings: Settings, keyed: KeyedItemsOf = no_keyed_items) -> StageReport:
    """Ask the models of a models file for the answers they lack, or take in answer files. Writes `answers`."""
    store, chosen = Store.open(settings.store), settings.evaluate
    models = to_ask(settings)
    bench = bench_of(store, chosen, keyed)
    if not models:
        return take_in_answers(store, read_answers(Path(chosen.models or ""), bench.questions)).report("answers")
    return ask_models(store, bench, models, settings.batch_hours if settings.batch else None).report("answers")


@step
def collect_verdicts(settings: Settings, versions: Versions, keyed: KeyedItemsOf = no_keyed_items) -> StageReport:
    """Ask a judge for the verdicts that are missing. Writes `verdicts`. `versions`: signal -> version."""
    store, chosen, judge_protocol = Store.open(settings.store), settings.evaluate, protocol_of(settings.evaluate)
    to_ask(settings)  # raises CurateError for a judge that cannot be asked
    if judge_protocol.name in VISIT_PROTOCOLS:
        return _judge_items(store, settings, *item_pairs(store, chosen, judge_protocol))
    bench, baseline = bench_of(store, chosen, keyed), chosen.baseline or ""
    answers = answers_by_model(store, bench, versions_of(chosen, bench), baseline)
    if model := judge_of(chosen):
        judge = model_judge(model, judge_protocol)
    else:
        judge = consensus_judge(answers, judge_protocol, _stand_in_embedder(), texts_of_images(store, versions))
    return _judge(
        store, settings, list(pairs_with_baseline(bench, answers, judge_protocol, baseline)), judge_protocol, judge
    )


@step
def collect_votes(settings: Settings, versions: Versions, released: Iterable[pl.DataFrame]) -> StageReport:
    """Ask a judge to vote on some battles. Writes `judge_votes`. `released`: rows of a release's battle table."""
    store, judge_protocol = Store.open(settings.store), protocol(VOTE)
    to_ask(settings)  # raises CurateError for a judge that cannot be asked
    drawn = anonymous_battles(released)[: settings.evaluate.sample]
    if drawn.is_empty():
        raise BadInput(f"store {settings.store!r} has no kept anonymous battle; votes need some")
    if model := judge_of(settings.evaluate):
        judge = model_judge(model, judge_protocol)
    else:
        judge = consensus_voter(_stand_in_embedder(), texts_of_images(store, versions))
    return _judge(store, settings, pairs_of_battles(store, shown(drawn)), judge_protocol, judge)


@step
def propose_marks(settings: Settings, models: Sequence[AskedModel], now: datetime) -> StageReport:
    """Ask a judge, the only entry of its file, which answers to failures are right, by their references.

    Writes `reviews`. It has no batch.
    """
    store, work = Store.open(settings.store), Work()
    for model in models:
        propose_verdicts(store, model, work, now)
    return work.report("propose_marks")


@step
def judge_submission(settings: Settings) -> StageReport:
    """Store a model's answers and ask a judge about its battles. Writes `answers` and `verdicts`."""
    store = Store.open(settings.store)
    to_ask(settings)  # raises CurateError for a judge that cannot be asked
    plan = plan_of(store, settings.evaluate)
    new = keep_answers(store, plan.submission)
    report = _judge_items(store, settings, plan.items, plan.wanted)
    return report.model_copy(update={"counts": {"answers": new} | report.counts})


def judge_in_use(settings: Settings) -> str:
    """Version of the judge of written items that the settings choose, as in `verdicts`."""
    judge_protocol, model = protocol_of(settings.evaluate), judge_of(settings.evaluate)
    return (
        judge_version(model, judge_protocol) if model else nearness_judge(judge_protocol, _stand_in_embedder()).version
    )


def _stand_in_embedder() -> TextEmbedder:
    """The embedded model of texts, whichever the settings choose, for judges that ask no model.

    So a stand-in runs on every install, and its verdicts and version depend on no provider that is chosen. Text metrics
    (`_metrics`) are measured with the chosen one instead, as `curate judge metrics` does.
    """
    embedder: TextEmbedder = Providers()["text_embedding"]
    return embedder


def _judge_items(store: Store, settings: Settings, items: Items, pairs: Sequence[AnswerPair]) -> StageReport:
    """Verdicts on written items, of a judge that reads captions."""
    judge_protocol, model = protocol_of(settings.evaluate), judge_of(settings.evaluate)
    judge = model_judge(model, judge_protocol) if model else nearness_judge(judge_protocol, _stand_in_embedder())
    report = _judge(store, settings, pairs, judge_protocol, judge)
    counts = report.counts | {f"items_{why}": count for why, count in items.left_out.items()}
    if not_given := sum(not item.image_ids for item in items.judged.values()):
        counts["items_images_not_given"] = not_given
    counts |= order_counts(store, pairs, judge_protocol, judge.version)
    return report.model_copy(update={"counts": dict(sorted(counts.items()))})


def _judge(
    store: Store, settings: Settings, pairs: Sequence[AnswerPair], judge_protocol: Protocol, judge: Judge
) -> StageReport:
    work = ask(store, pairs, judge_protocol, judge, settings.batch_hours if settings.batch else None)
    return work.report(judge_protocol.counted, [judge.note] if judge.note else [])


@step
def rate_submissions(settings: Settings, version: str) -> StageReport:
    """Write the board of a written benchmark to a dated file; earlier ones stay. A note where there is none yet."""
    store, chosen = Store.open(settings.store), settings.evaluate
    shuffled = chosen.elo_order == "shuffled"
    try:
        board = stored_board(store, chosen.bench or SAMPLED, version, method_of(settings), shuffled)
    except BadInput as error:  # no verdict so far, as when the budget is used up or the judge is down
        return StageReport(stage="board", notes=[str(error)])
    players = len({row.model for row in board})
    return StageReport(stage="board", counts={"players": players}, result=keep_board(store, board))


@step
def rate_written(settings: Settings, choices: Callable[[str], pl.DataFrame]) -> StageReport:
    """Write `written_board` and `written_metrics`: what a release says of models on written benchmarks.

    `choices`: benchmark -> what people chose between two answers, as battles; no rows where nobody did.
    """
    store, shuffled = Store.open(settings.store), settings.evaluate.elo_order == "shuffled"
    board, metrics, notes = list[WrittenRating](), list[WrittenMetric](), list[str]()
    for bench, versions in judged_benches(store).items():
        try:
            board += board_for_release(store, bench, versions, settings.judge_version, method_of(settings), shuffled)
            metrics += _metrics(store, bench, choices(bench), settings)
        except BadInput as error:  # such as two versions of a model's answers
            notes.append(one_line(f"benchmark {bench!r}: {error}", 300))
    store.replace("written_board", frame_of(WrittenRating, board))
    store.replace("written_metrics", frame_of(WrittenMetric, metrics))
    counts = {"benchmarks": len({row.bench for row in board}), "metrics": len({row.metric for row in metrics})}
    return StageReport(stage="rate_written", counts=counts, notes=notes)


def _metrics(store: Store, bench: str, choices: pl.DataFrame, settings: Settings) -> list[WrittenMetric]:
    """How many choices of people each metric and judge reproduces."""
    if choices.is_empty():
        return []
    rows, stored_bench = comparisons(choices, f"choices on {bench!r}", votes=None).rows, stored(store, bench, True)
    winners_of_metric = dict(
        said_of(rows, stored_bench, Providers(settings.providers)["text_embedding"], settings.seed)
    )
    return [
        WrittenMetric(**row.model_dump(), bench=bench)
        for row in every(rows, winners_of_metric, settings.bootstraps, settings.seed)[0]
    ]


@step
def rate_judged(settings: Settings, versions: Versions, release: Path) -> StageReport:
    """Write `judge_ratings`, `judge_agreement` and `judge_cards`: the judge's board of the release in this folder.

    They are empty when no verdict is on the draw that is released. The people's board is that of `ratings`.
    """
    store = Store.open(settings.store)
    groups = (g for file in sorted(release.glob("bench/data/*.parquet")) for g in read_parquet_groups(file, _ASKED))
    prompts = sorted(pl.concat([pl.DataFrame(schema=dict.fromkeys(_ASKED, pl.String)), *groups])["question_id"])
    board, about, cards, left_out = list[JudgeRating](), list[JudgeAgreement](), list[JudgeCard](), list[str]()
    if chosen := chosen_verdicts(store, prompts, settings.judge_version):
        verdicts, left_out = chosen
        board = released_board(store, verdicts, prompts, settings, versions)
        people = [Rating(**row) for row in store.read("ratings").filter(slice=OVERALL).iter_rows(named=True)]
        about, cards = [judge_agreement(verdicts, board, people)], judge_cards(verdicts)
    store.replace("judge_ratings", frame_of(JudgeRating, board))
    store.replace("judge_agreement", frame_of(JudgeAgreement, about))
    store.replace("judge_cards", frame_of(JudgeCard, cards))
    counts = {"prompts": len(prompts), "verdicts": len(cards), "boards": len({row.slice for row in board})}
    # whose verdicts are released, and how many judge versions are left out
    notes = [f"board by {row.judge}, {row.protocol}, against {row.baseline}, draw {row.draw}" for row in about]
    if left_out:
        notes.append(f"verdicts of {len(left_out)} other judge versions on this draw are not released")
    return StageReport(stage="rate_judged", counts=counts, notes=[one_line(note) for note in notes])
