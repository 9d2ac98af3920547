"""Surroundings of a whole run: a cheap call to each paid service and planted probes before it, retention at its end."""

import io
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import PIL.Image
from prefect import tags
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterEndTime, FlowRunFilterTags
from prefect.runtime import deployment
from prefect.settings import PREFECT_HOME

from flows.running.checked_flow import PROBES, flow
from flows.running.run_names import OURS
from flows.stages import decide, ingest, screen
from schemas.errors import CanaryEscaped, MissingProvider
from schemas.run import SETUP_FAILURES, StageReport
from schemas.settings import Settings
from schemas.signals import MeasuredOn
from schemas.tables import SIGNAL_ENTRIES
from tasks.images.decode import decode_stored
from tasks.policy.canaries import escaped, plant, probes
from tasks.policy.policy_file import load_policy
from tasks.providers import MAKERS, Providers
from tasks.providers.capabilities import Document, Failed, TopicEvidence
from tasks.runtime.budget import ledger
from tasks.runtime.progress import tell, timed
from tasks.signals.registry import signal_of
from tasks.storage.lock import writing
from tasks.storage.tables import Store
from tasks.upkeep.retention import removable, remove

_ON_IMAGES = (MeasuredOn.IMAGES, MeasuredOn.ITEM_IMAGES)


def services_answer(settings: Settings) -> Iterator[StageReport]:
    """Ask the services of a deployment's run before it measures. Raises MissingProvider when one refuses.

    One that is only down for now does not stop the night: its calls are tried again, and fail closed.
    """
    if deployment.id is not None and settings.providers:
        yield _ask_services(settings)


@timed
def _ask_services(settings: Settings) -> StageReport:
    answers = dict(first_answers(Providers(settings.providers)))
    if refused := [f"{service}: {SETUP_FAILURES[why]}" for service, why in answers.items() if why in SETUP_FAILURES]:
        raise MissingProvider(
            f"{'; '.join(refused)}; nothing was measured; put it right, and see `curate doctor --ask`"
        )
    return StageReport(stage="services", counts={"asked": len(answers), "silent": sum(map(bool, answers.values()))})


def first_answers(providers: Providers) -> Iterator[tuple[str, str]]:
    """(service, reason why it gave no answer, or nothing) of every paid one, each asked once. Pictures are not."""
    services = set[str]()
    paid = providers.paid(providers.names.keys() - MAKERS)
    cheapest = ("topic_names", "moderation")  # the others' instructions are longer
    for capability in sorted(paid, key=lambda name: (name not in cheapest, name)):
        service = str(providers[capability].service)
        if service not in services:
            services.add(service)
            (answer,) = _answers(capability, providers)
            yield service, answer.reason if isinstance(answer, Failed) else ""


def _answers(capability: str, providers: Providers) -> Any:
    if capability == "topic_names":
        return providers[capability].name_topics([TopicEvidence(("tree", "leaf"), ("Which tree is this?",))])
    on = SIGNAL_ENTRIES[capability].on
    item: Any = _white() if on in _ON_IMAGES else "hello"
    if on in (MeasuredOn.DOCUMENTS, MeasuredOn.FAILURES):
        item = Document("hello", "hello", 0, (), "", 0.0, 0)
    return signal_of(capability, providers).values([item])


def _white() -> Any:
    sink = io.BytesIO()
    PIL.Image.new("RGB", (64, 64), "white").save(sink, "PNG")
    return decode_stored(sink.getvalue(), "png", "white")


@flow(name="canaries")
def canaries(settings: Settings) -> list[StageReport]:
    """Plant, measure and decide the probes. Raises CanaryEscaped when the policy does not catch one."""
    started, before, planted = time.monotonic(), ledger().use(), probes()
    with tempfile.TemporaryDirectory(prefix="canaries-") as folder:
        probe_settings = plant(planted, Path(folder), settings)
        with tags(PROBES), writing(probe_settings.store):
            reports = [report for stage in (ingest, screen, decide) for report in stage(probe_settings)]
    through = escaped(Store.existing(probe_settings.store), planted, load_policy(probe_settings.policy))
    if through:
        escapes = "; ".join(f"{name}: {way}" for name, way in through.items())
        raise CanaryEscaped(f"nothing is released, because planted probes got through the policy ({escapes})")
    calls = sum((Counter(report.model_calls) for report in reports), Counter[str]())
    failures = sum((Counter(report.failures) for report in reports), Counter[str]())
    counts = {"probes": len(planted), "caught": len(planted)}
    use = ledger().since(before)
    return [
        StageReport(
            stage="canaries",
            seconds=time.monotonic() - started,
            counts=counts,
            model_calls=dict(calls),
            failures=dict(failures),
            use=use,
        )
    ]


def keep_only(settings: Settings) -> None:
    """Remove old releases, run records and probes of the store, and old flow runs of ours from Prefect's history."""
    store, now = Store.open(settings.store), datetime.now(UTC)
    outdated = removable(store, settings, now)
    remove(store, outdated)
    gone = dict(outdated.counts)
    if days := settings.retention.prefect_days:
        gone |= {"flow runs": forget_flow_runs(settings.store, now - timedelta(days=days))}
    if removed := ", ".join(f"{name} {count:,}" for name, count in gone.items() if count):
        tell(f"removed, because `retention` no longer keeps it: {removed}")


def forget_flow_runs(store: str, before: datetime) -> int:
    """Delete at most 200 runs that ended before then, the most that Prefect lists at once; the next run goes on.

    All runs of a history in the store, which is that of the command `curate`; of any other history those of our
    deployments, since it may have runs of others, also where a profile names the server, or none is named.
    """
    in_store = PREFECT_HOME.value() == Path(store).resolve() / ".prefect" and "PREFECT_API_URL" not in os.environ
    tags = None if in_store else FlowRunFilterTags(all_=[OURS])
    with get_client(sync_client=True) as client:
        old = client.read_flow_runs(
            flow_run_filter=FlowRunFilter(end_time=FlowRunFilterEndTime(before_=before), tags=tags), limit=200
        )
        for run in old:
            client.delete_flow_run(run.id)
    return len(old)
