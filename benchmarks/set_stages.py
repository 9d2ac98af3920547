"""Peak memory, CPU seconds and rows read of every stage over the whole set, each in a process of its own.

`python -m benchmarks.set_stages --conversations 300000 --images 300000` fills a synthetic store, with a vote for every
ten conversations, and prints a line of JSON a stage. `peak_mb` is the proportional set size of all processes of the
stage above that of its imports, `rows_read` the rows of the parts, or groups of images, that it opened.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from benchmarks.release_store import fill_signals, logged_store
from flows.products import (
    PRODUCTS,
    explorer_here,
    item_findings,
    item_ids,
    parts_of_release,
    problems_of,
    report_sections,
)
from schemas.settings import Settings, TopicSettings
from tasks.bench.steps import draw_bench, find_failures
from tasks.ingest.assemble import assemble_store
from tasks.leaderboard.steps import rate_models
from tasks.policy.steps import decide_items, find_near_images, redact_items
from tasks.providers import Providers
from tasks.release.diff import diff_releases
from tasks.release.steps import build_release, seal_release
from tasks.report.steps import report_release
from tasks.signals.steps import measure_documents, measure_texts, signal_versions
from tasks.storage import parquet
from tasks.storage.queries.explain import removal_reasons
from tasks.storage.tables import Store
from tasks.takedown.take_down import take_down
from tasks.topics.steps import find_topics

CONVERSATIONS, FIT_MAX, VERSION = 5_000, 5_000, "1.0.0"
EVERY_SECONDS = 0.1
STAGES = (
    "assemble", "fill", "screen", "near_images", "decide", "describe", "topics", "bench", "rate", "release", "verify",
    "diff", "takedown", "explore", "search",
)  # fmt: skip
"""In order. `fill` stands for the models; `screen` and `describe` find that nothing is missing."""


def run(conversations: int = CONVERSATIONS, images: int | None = None, stages: str = "") -> list[dict[str, Any]]:
    """One row a stage; `stages` names the ones to run, after `assemble` and `fill`; each needs what is before it."""
    chosen = stages.split(",") if stages else list(STAGES)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        logged_store(Path(folder) / "store", conversations, conversations // 10, images or conversations)
        for stage in [name for name in STAGES if name in {"assemble", "fill", *chosen}]:
            row = {"bench": f"set stage: {stage}", "stage": stage, "n": conversations}
            row |= _measured(stage, Path(folder) / "store")
            print(json.dumps(row), flush=True)
            rows.append(row)
    return rows


def _measured(stage: str, store: Path) -> dict[str, float]:
    """Peak MB above the imports, CPU seconds and rows read of one stage, in a process of its own."""
    with tempfile.TemporaryFile("w+") as told:
        command = [sys.executable, "-m", "benchmarks.set_stages", "--store", str(store), "--stages", stage]
        worker = subprocess.Popen(command, stdout=told)
        base = peak = 0
        while worker.poll() is None:
            now = tree_mb(worker.pid)
            told.seek(0)
            base, peak = (base, max(peak, now)) if "ready" in told.read() else (max(base, now), peak)
            time.sleep(EVERY_SECONDS)
        if worker.returncode:
            raise RuntimeError(f"stage {stage} ended with {worker.returncode}")
        told.seek(0)
        return {"peak_mb": max(0, peak - base)} | json.loads(told.read().strip().rpartition("\n")[2])


def _run_one(stage: str, store: str) -> None:
    """Run a stage; the last line on stdout has its CPU seconds and rows read."""
    rows, opened = Counter[str](), parquet.open_part

    def counted(fs: Any, path: str, names: Any = None, group: int | None = None, **options: Any) -> Any:
        part = opened(fs, path, names, group, **options)
        rows["read"] += (part.metadata if group is None else part.metadata.row_group(group)).num_rows
        return part

    parquet.open_part = counted
    print("ready", flush=True)
    time.sleep(3 * EVERY_SECONDS)
    began = _cpu_seconds()
    _work(stage, Settings(store=store, release=VERSION, workers=2, topics=TopicSettings(fit_max=FIT_MAX)))
    print(json.dumps({"cpu_s": round(_cpu_seconds() - began, 1), "rows_read": rows["read"]}))


def _work(stage: str, settings: Settings) -> None:
    """What the flows do in this stage."""
    store, providers = Store.open(settings.store), Providers()
    versions = signal_versions(providers)
    if stage == "assemble":
        assemble_store(store, settings.workers)
    elif stage == "fill":
        fill_signals(store, versions)
    elif stage == "screen":
        measure_texts.fn(settings, providers, "screen_texts", kept_only=False)
    elif stage == "near_images":
        find_near_images.fn(settings, versions)
    elif stage == "decide":
        redact_items.fn(settings, versions, item_findings)
        decide_items.fn(settings, versions, item_findings)
    elif stage == "describe":
        measure_texts.fn(settings, providers, "describe_texts", kept_only=True)
        measure_documents.fn(settings, providers)
    elif stage == "topics":
        find_topics.fn(settings, providers, versions)
    elif stage == "bench":
        draw_bench.fn(settings, versions)
        find_failures.fn(settings, versions)
    elif stage == "rate":
        rate_models.fn(settings, versions)
    else:
        _after_rating(stage, settings, store, providers)


def _after_rating(stage: str, settings: Settings, store: Store, providers: Providers) -> None:
    folder, versions = Path(settings.store) / "releases" / VERSION, signal_versions(providers)
    if stage == "release":
        built = build_release.fn(settings, versions, item_ids(store), ())
        rate_models.fn(settings, versions, built.staging)
        report_release.fn(settings, providers, built.staging, built.tallies, report_sections, ())
        seal_release.fn(settings, providers, versions, built, ())
    elif stage == "verify":
        assert not (problems := problems_of(folder)), problems[:3]
    elif stage == "diff":
        new = Path(shutil.copytree(folder, folder.with_name("1.1.0")))  # no links: every row is compared
        diff_releases(folder, new, parts_of_release, removal_reasons(store))
        shutil.rmtree(new)
    elif stage == "takedown":
        user = next(store.read_slices("conversations", ["user_id"], 1)).item()
        take_down(store, [user], [], datetime.now(UTC), dry_run=False)
    elif stage in ("explore", "search"):
        shown = explorer_here()
        app, link = shown.app(shown.of_store(store, PRODUCTS), lambda: 80, None, ())
        client = TestClient(app, base_url="http://127.0.0.1:80", follow_redirects=False)
        client.get(link)
        assert client.get("/?q=ba1" if stage == "search" else "/").status_code == 200


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def tree_mb(pid: int) -> int:
    """Proportional set size in MB of a process and its children."""
    kilobytes = 0
    with suppress(OSError):  # it ended meanwhile
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        kilobytes = sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        kilobytes += 1024 * sum(tree_mb(int(child)) for child in children)
    return kilobytes // 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Memory, CPU and rows of every stage over the whole set.")
    parser.add_argument("--conversations", type=int, default=CONVERSATIONS)
    parser.add_argument("--images", type=int, help="distinct images; by default one a conversation")
    parser.add_argument("--stages", default="", help="such as decide,topics; all by default")
    parser.add_argument("--store", help="run one stage on this store, unmeasured")
    given = parser.parse_args()
    if given.store:
        _run_one(given.stages, given.store)
    else:
        run(given.conversations, given.images, given.stages)
