"""The Prefect task of written benchmarks: kept items -> `captions` and `references` that they lack."""

from datetime import UTC, datetime

from schemas.asked_model import AskedModel
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.runtime.steps import step
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store
from tasks.written_bench.write import STAND_IN_NOTE, reference_gaps, write_by_model, write_by_rules
from tasks.written_bench.written_items import check_known, items_for_judging


@step
def write_missing(settings: Settings, writer: AskedModel | None, versions: Versions) -> StageReport:
    """Write the captions and references that a benchmark's kept items lack; without a writer, by the stand-in.

    A model gets nothing of hidden items unless the settings say so.
    """
    store, name, now = Store.open(settings.store), settings.written.name, datetime.now(UTC)
    check_known(store, name)
    batch_hours = settings.batch_hours if settings.batch else None
    if writer:
        work = write_by_model(store, name, writer, now, settings.written.hidden, batch_hours)
    else:
        work = write_by_rules(store, name, versions, now)
    notes = [] if writer else [STAND_IN_NOTE]
    if writer and not settings.written.hidden:
        notes.append("hidden items are left out; with --hidden a writer on a server of your own writes for them, too")
    lacking = reference_gaps(store, name, over_stand_in=writer is not None)
    bench_counts = {"items": len(items_for_judging(store, name)), "without_reference": len(lacking)}
    report = work.report("write_items", notes)
    return report.model_copy(update={"counts": report.counts | bench_counts})
