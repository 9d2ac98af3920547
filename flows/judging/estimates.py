"""Cost of `curate judge answer`, `compare` and `votes`, for `curate estimate --models`, `--judge` and `--sample`."""

from flows.commands.estimate import tokens_in
from flows.commands.options import existing
from flows.judging.calls import with_bench
from schemas.errors import BadInput
from schemas.run import Estimate
from schemas.settings import Settings


def judging_estimates(settings: Settings, writer: str | None) -> list[Estimate] | None:
    """Cost of missing answers, verdicts or votes; None where the settings name no models, no judge and no sample."""
    from flows.judging.evaluate import released_battles
    from flows.products import keyed_items
    from tasks.judging.estimate import estimate_evaluation, estimate_votes
    from tasks.judging.pairs import anonymous_battles, shown
    from tasks.runtime.budget import load_prices
    from tasks.storage.tables import Store

    if not (settings.evaluate.models or settings.evaluate.judge or settings.evaluate.sample):
        return None
    settings = with_bench(settings)
    prices, chosen, count = load_prices(settings.prices), settings.evaluate, tokens_in()
    if chosen.sample is not None:
        if chosen.judge is None:
            raise BadInput("--sample needs --judge FILE, the judge that would vote")
        battles = shown(anonymous_battles(released_battles(settings))[: chosen.sample])
        return estimate_votes(existing(settings.store), chosen, battles, prices, count)
    store = Store(settings.store) if settings.evaluate.bench_release else existing(settings.store)
    return estimate_evaluation(store, chosen, prices, count, keyed_items)


ESTIMATES = judging_estimates
