"""The Prefect task of the report."""

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.policy import policy_hash, released_policy
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.providers import Providers
from tasks.runtime.steps import step
from tasks.storage.queries.conversation_features import Tallies
from tasks.storage.queries.released import days, decided_policy, release_version
from tasks.storage.tables import Store

if TYPE_CHECKING:
    from tasks.report.page import Part


@step
def report_release(
    settings: Settings, providers: Providers, staging: Path, tallies: Tallies,
    more: "Callable[[Store], Iterable[Part]]", stand_ins: Collection[str], benchmark_alone: bool = False,
) -> StageReport:  # fmt: skip
    """Write the report of the release that is being built in `staging`, whose rows are counted in `tallies`.

    `more` gives the sections of products, `stand_ins` names theirs. `benchmark_alone`: it holds nothing but items of
    benchmarks, and its page does not speak of logs.
    """
    from tasks.report.content import report_content  # imported late: matplotlib and Jinja are slow to load
    from tasks.report.page import write_report

    store = Store.open(settings.store)
    content = report_content(store, tallies, more(store))
    of_days = days(store)
    policy = decided_policy(store)
    about = {
        "version": release_version(store, settings.release),
        "first_day": of_days[0],
        "last_day": of_days[-1],
        "policy": policy.name if policy else "unknown",
        "policy_hash": policy_hash(released_policy(policy)) if policy else "unknown",
        "embedded": sorted([*providers.stand_ins, *stand_ins]),
        "benchmark_alone": benchmark_alone,
    }
    write_report(staging / "report", content, about)
    return StageReport(stage="report", counts={"sections": len(content.parts)})
