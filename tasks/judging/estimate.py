"""Cost of missing answers and verdicts at paid services. Sends nothing."""

from collections.abc import Iterator, Sequence

from schemas.asked_model import AskedModel
from schemas.run import Estimate, Prices
from schemas.settings import EvaluateSettings
from tasks.judging.answers import answers_by_model, unanswered
from tasks.judging.ask import judge_version, unjudged
from tasks.judging.pairs import ShownBattle, pairs_of_battles, pairs_with_baseline
from tasks.judging.protocols import VISIT_PROTOCOLS, VOTE, AnswerPair, Protocol, protocol
from tasks.judging.sources import KeyedItemsOf, bench_of, item_pairs, no_keyed_items, protocol_of, versions_of
from tasks.providers.asked_models import judge_of, models_of
from tasks.providers.cost import Count, Sent, chat_cost
from tasks.storage.tables import Store

_ANSWER_TOKENS = 150
"""Expected length of answers, those on WildVision-Bench's printed board."""


def estimate_evaluation(
    store: Store, chosen: EvaluateSettings, prices: Prices, count: Count, keyed: KeyedItemsOf = no_keyed_items
) -> list[Estimate]:
    """Cost of the missing answers per model and of a judge's missing verdicts, for single calls and for batches."""
    bench, estimates = bench_of(store, chosen, keyed), list[Estimate]()
    for model in (models_of(chosen) or []) if chosen.models else []:
        questions = unanswered(store, bench, model)
        texts = [(f"{model.system}\n{question.prompt}", bench.images(question)) for question in questions]
        estimates += chat_cost(model, f"answers of {model.name}", texts, _ANSWER_TOKENS, prices, count)
    if judge := judge_of(chosen):
        judge_protocol, baseline = protocol_of(chosen), chosen.baseline or ""
        if judge_protocol.name in VISIT_PROTOCOLS:
            pairs = item_pairs(store, chosen, judge_protocol)[1]
        else:
            answers = answers_by_model(store, bench, versions_of(chosen, bench), baseline)
            pairs = list(pairs_with_baseline(bench, answers, judge_protocol, baseline))
        estimates += estimate_judging(store, pairs, judge, judge_protocol, prices, count)
    return estimates


def estimate_votes(
    store: Store, chosen: EvaluateSettings, battles: Sequence[ShownBattle], prices: Prices, count: Count
) -> list[Estimate]:
    """Cost of a judge's missing votes on drawn battles; none for the embedded one."""
    if not (judge := judge_of(chosen)):
        return []
    return estimate_judging(store, pairs_of_battles(store, battles), judge, protocol(VOTE), prices, count)


def estimate_judging(
    store: Store, pairs: Sequence[AnswerPair], judge: AskedModel, how: Protocol, prices: Prices, count: Count
) -> list[Estimate]:
    """Cost of what a judge lacks on these pairs, for single calls and for the batch API."""

    def sent() -> Iterator[Sent]:
        for pair in unjudged(store, pairs, how, judge_version(judge, how))[0]:
            messages = how.prompt(pair).messages
            yield (
                "\n".join(message.text for message in messages),
                [image for message in messages for image in message.images],
            )

    return chat_cost(judge, f"{how.counted} of {judge.name}", list(sent()), how.reply_tokens, prices, count)
