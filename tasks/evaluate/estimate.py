"""What missing answers and verdicts would cost at paid services. Sends nothing."""

from collections.abc import Sequence

from schemas.asked_model import AskedModel
from schemas.run import Estimate, Prices
from schemas.settings import EvaluateSettings
from tasks.evaluate.answers import answers_by_model, unanswered
from tasks.evaluate.compare import judge_version, pairs, unjudged
from tasks.evaluate.protocols import protocol
from tasks.evaluate.questions import Bench
from tasks.evaluate.sources import EMBEDDED, bench_of, judge_of, models_of, versions_of
from tasks.evaluate.visit.compare import OrderedPair, judge_prompt, without_verdict
from tasks.evaluate.visit.protocol import VisitProtocol
from tasks.evaluate.visit.sources import VISIT, battles_to_judge
from tasks.evaluate.votes import battles_of, message, without_vote
from tasks.evaluate.votes import judge_version as vote_version
from tasks.providers.chat_cost import Count, chat_cost
from tasks.storage.queries.shown_battles import ShownBattle
from tasks.storage.tables import Store

ANSWER_TOKENS, VERDICT_TOKENS = 150, 400
"""Expected lengths: of answers on WildVision-Bench's printed board, and of a judge that answers first itself."""
VISIT_VERDICT_TOKENS = 250
"""Expected length of a verdict with its reasons, as VisIT-Bench estimates it."""


def estimate_evaluation(store: Store, chosen: EvaluateSettings, prices: Prices, count: Count) -> list[Estimate]:
    """Of each model that lacks answers, and of a judge that lacks verdicts on stored answers, by both ways to call."""
    bench, found = bench_of(store, chosen), list[Estimate]()
    for asked in (models_of(chosen) or []) if chosen.models else []:
        wanted = unanswered(store, bench, asked)
        texts = [(f"{asked.system}\n{each.prompt}", bench.images(each)) for each in wanted]
        found += chat_cost(asked, f"answers of {asked.name}", texts, ANSWER_TOKENS, prices, count)
    if chosen.judge and chosen.judge != EMBEDDED:
        found += _verdicts(store, bench, chosen, prices, count)
    return found


def estimate_votes(
    store: Store, chosen: EvaluateSettings, battles: Sequence[ShownBattle], prices: Prices, count: Count
) -> list[Estimate]:
    """One row for a judge that has not voted on all drawn battles; none for the embedded one."""
    if not chosen.judge or chosen.judge == EMBEDDED:
        return []
    judge, drawn = judge_of(chosen), battles_of(store, battles)
    wanted = without_vote(store, battles, vote_version(judge))
    texts = [(message(each), drawn.images(each)) for each in wanted]
    return chat_cost(judge, f"votes of {judge.name}", texts, VERDICT_TOKENS, prices, count)[:1]  # votes have no batch


def _verdicts(store: Store, bench: Bench, chosen: EvaluateSettings, prices: Prices, count: Count) -> list[Estimate]:
    judge = judge_of(chosen)
    if chosen.protocol == VISIT:
        how_told = VisitProtocol(chosen.with_reference)
        _, pairs_to_judge = battles_to_judge(store, chosen)
        return estimate_without_images(store, pairs_to_judge, judge, how_told, prices, count)
    how, baseline = protocol(chosen.protocol), chosen.baseline or ""
    every = list(pairs(bench, answers_by_model(store, bench, versions_of(chosen, bench), baseline), how, baseline))
    wanted, _ = unjudged(store, every, judge_version(judge.version, how.version), draw=bench.draw, baseline=baseline)
    texts = []
    for pair in wanted:
        told = how.messages(pair.question.prompt, pair.first["text"], pair.second["text"])
        texts.append((f"{told.system}\n{told.user}", bench.images(pair.question)))
    return chat_cost(judge, f"verdicts of {judge.name}", texts, VERDICT_TOKENS, prices, count)


def estimate_without_images(
    store: Store, wanted: Sequence[OrderedPair], judge: AskedModel, how: VisitProtocol, prices: Prices, count: Count
) -> list[Estimate]:
    """Of a judge that reads captions and lacks some of these verdicts, by both ways to call."""
    texts = [
        ("\n".join(message.text for message in judge_prompt(how, pair).messages), ())
        for pair in without_verdict(store, wanted, judge_version(judge.version, how.version))
    ]
    return chat_cost(judge, f"verdicts of {judge.name}", texts, VISIT_VERDICT_TOKENS, prices, count)
