"""Where a store stands: what it holds, its last runs, what waits, and what this month cost.

Before a first run: its time and room from figures that were measured, and a sample on which a policy is tried.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import polars as pl

from schemas.run import Scale, Use
from schemas.settings import Settings
from schemas.upkeep import Due, Holdings, MonthCost, MonthLimit, PastRun
from tasks.ingest.shrunk import shrunk_files
from tasks.runtime.budget import covers
from tasks.storage.keyed_ids import UNFINISHED
from tasks.storage.reviews import journalled
from tasks.storage.tables import Store

Records = Sequence[Mapping[str, Any]]
BATCHES = "batches"
"""Folder with a record of each batch at a vendor."""


def holdings(store: Store, records: Records) -> Holdings:
    """Counts of a store, by the footers of its parts."""
    folders = [store.fs.glob(store.at(f"releases/*/{name}.json")) for name in ("manifest", "withdrawn")]
    finish_times = [record["finished_at"] for record in records if record["state"] == "completed"]
    release_results = [
        stage["result"] for record in records for stage in record["stages"] if stage["result"].startswith("releases/")
    ]
    return Holdings(
        **{table: store.height(table) for table in ("conversations", "battles", "images")},
        releases=len(folders[0]) - len(folders[1]),
        newest=release_results[-1].removeprefix("releases/") if release_results else "",
        last_completed=datetime.fromisoformat(finish_times[-1]) if finish_times else None,
    )


NIGHTLY = "nightly"
"""Deployment of the nightly run."""


def last_completed(records: Records) -> dict[str, datetime]:
    """Deployment or flow -> end of its last run that was completed."""
    return {
        deployment_of(record): datetime.fromisoformat(record["finished_at"])
        for record in records
        if record["state"] == "completed"
    }


def deployment_of(record: Mapping[str, Any]) -> str:
    """Deployment or flow of a run; where an earlier version recorded none, a run with planted probes was a night."""
    probed = any(stage["stage"] == "canaries" for stage in record["stages"])
    return str(record.get("run", NIGHTLY if probed else ""))


def past_run(record: Mapping[str, Any]) -> PastRun:
    """A run by its record."""
    counts = {stage["stage"]: stage["counts"] for stage in record["stages"]}
    started, ended = (record[name] and datetime.fromisoformat(record[name]) for name in ("started_at", "finished_at"))
    results = [stage["result"] for stage in record["stages"] if stage["result"]]
    return PastRun(
        started_at=started,
        state=record["state"],
        minutes=round((ended - started).total_seconds() / 60, 1) if ended else None,
        new_lines=counts.get("read_logs", {}).get("lines", 0),
        new_images=counts.get("take_in_images", {}).get("images", 0),
        failed=sum(sum(stage["failures"].values()) for stage in record["stages"]),
        usd=round(sum(use.usd + use.usd_unconfirmed for use in service_uses([record]).values()), 4),
        result=record["error"] or (results[-1] if results else ""),
    )


def month_costs(records: Records, now: datetime) -> list[MonthCost]:
    """Cost of the runs that began in this month, by service, the dearest first."""
    uses = service_uses([record for record in records if record["started_at"][:7] == f"{now:%Y-%m}"])
    rows = [
        MonthCost(
            service=service,
            requests=use.calls,
            requests_unpriced=use.calls_unpriced,
            usd=use.usd,
            usd_unconfirmed=max(0.0, use.usd_unconfirmed - use.usd_settled),  # of a killed run nothing is recorded
        )
        for service, use in uses.items()
    ]
    return sorted(rows, key=lambda row: (-row.usd - row.usd_unconfirmed, row.service))


def month_limits(records: Records, settings: Settings, now: datetime) -> list[MonthLimit]:
    """The limits of a month's cost in the settings, that of all services first, and what its runs have spent."""
    limits = {} if settings.month_usd_max is None else {"": settings.month_usd_max}
    limits |= settings.month_usd_max_by
    costs = month_costs(records, now)
    spent = {
        provider: sum(row.usd + row.usd_unconfirmed for row in costs if covers(provider, row.service))
        for provider in limits
    }
    return [MonthLimit(provider=name, usd=spent[name], usd_max=usd_max) for name, usd_max in limits.items()]


def waiting_questions(store: Store) -> dict[str, int]:
    """Paid service -> questions that an earlier run sent in batches, and whose answers no run has collected."""
    question_counts: dict[str, int] = defaultdict(int)
    for name in store.json_files(BATCHES):
        with suppress(ValueError, KeyError, TypeError):  # an unreadable record is deleted by the run that collects
            batch = json.loads(store.read_bytes(f"{BATCHES}/{name}") or b"")
            question_counts[batch["service"]] += len(batch["names"])
    return question_counts


def due(store: Store, records: Records) -> Iterator[Due]:
    """Things that may wait for the next run or for somebody, also none of them; questions to people are others."""
    last_state = records[-1]["state"] if records else ""
    for state in ("held", "failed", "killed"):
        advice = "see its line; the next `curate run` goes on"
        yield Due(what=f"the last run, which is {state}", count=int(last_state == state), next=advice)
    shrunk, interrupted = len(shrunk_files(store)), store.read_bytes(UNFINISHED) is not None
    yield Due(what="log files that lost lines", count=shrunk, next="put them back whole, then curate run")
    yield Due(what="verdicts that no run has taken in", count=len(journalled(store)), next="curate run")
    yield Due(what="a takedown that was interrupted", count=int(interrupted), next="curate takedown")
    yield Due(what="batches at vendors", count=len(store.fs.find(store.at(BATCHES))), next="curate run")


def service_uses(records: Records) -> dict[str, Use]:
    """Paid service -> its use in these runs."""
    uses: dict[str, Use] = defaultdict(Use)
    for record in records:
        for stage in record["stages"]:
            for service, use in stage["use"].items():
                uses[service] = uses[service].plus(Use.model_validate(use))
    return uses


LINE_S, MESSAGE_S, IMAGE_S, CONVERSATION_S = 0.00012, 0.006, 0.4, 0.01
"""Core seconds with the embedded models; of a conversation, those of all stages over the whole set."""
BASE_MB, CONVERSATION_BYTES = 2_330, 3_000
"""Peak memory of a run with the embedded models on two workers, and what each further conversation adds."""
MESSAGE_BYTES, IMAGE_BYTES = 1_500, 130_000
"""On disk, with the signals, in the store and in one release."""


def expected(lines: int, conversations: int, messages: int, images: int, workers: int) -> Scale:
    """Hours, memory and disk of a first run, embedded models, on as many cores as workers."""
    seconds = lines * LINE_S + messages * MESSAGE_S + images * IMAGE_S + conversations * CONVERSATION_S
    return Scale(
        lines=lines, conversations=conversations, messages=messages, images=images, workers=workers,
        hours=round(seconds / 3600 / workers, 2),
        peak_mb=BASE_MB + conversations * CONVERSATION_BYTES // 2**20,
        disk_mb=2 * (messages * MESSAGE_BYTES + images * IMAGE_BYTES) // 2**20,
    )  # fmt: skip


def sample_store(source: Store, conversations: pl.DataFrame, documents_max: int, folder: str) -> Store:
    """A store in `folder` with the conversations of the first documents by content id, their images, and the presets.

    Nothing is measured or decided there. `conversations` are rows of `source`; a document id is a hash, so the first
    ones are a random sample, and all conversations of a document come together.
    """
    store = Store.open(folder)
    document_ids = conversations["document_id"].unique().sort()[:documents_max]
    sampled = conversations.filter(pl.col("document_id").is_in(document_ids.implode()))
    store.replace("conversations", sampled.select(store.empty("conversations").columns))
    image_ids = sampled["image_ids"].explode().drop_nulls().unique()
    for rows in source.read_parts("images"):
        store.append("images", rows.filter(pl.col("image_id").is_in(image_ids.implode())))
    store.replace("presets", source.read("presets"))
    return store
