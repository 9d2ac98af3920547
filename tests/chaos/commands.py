"""Kills a process that works on a store often, at random moments, and looks whether anything acknowledged is lost.

    python -m tests.chaos commands STORE [--times 50] [review | takedown | migrate | publish | compact | collect]…

works on copies of STORE. A process says each piece of work that it has acknowledged; after SIGKILL, and after the store
was opened again as the next command does, all of them must hold, and nothing else may be missing.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import polars as pl

from flows.products import parts_of_release
from flows.written_bench.command import take_in
from schemas.items.image import Image
from schemas.items.review import Review
from schemas.settings import Settings
from schemas.tables import TABLES
from tasks.publish.hub import hub_api
from tasks.publish.plan import plan_upload
from tasks.publish.push import publish_release
from tasks.publish.records import publications
from tasks.release.fetched import read_manifest
from tasks.storage.keyed_ids import UNFINISHED
from tasks.storage.lock import remove_leftovers, writing
from tasks.storage.migrate import migrate, migration
from tasks.storage.parquet import digest_of
from tasks.storage.parts import SMALL_PARTS, listed_in_batches
from tasks.storage.reviews import keep, reviews_of, take_in_journal
from tasks.storage.tables import Store, frame_of
from tasks.takedown.take_down import take_down
from tests.builders import facts_frame, image_bytes
from tests.hub_server import TOKEN, LoopbackHub
from tests.older_store import make_older
from tests.places import ROOT


def _conversations(store: Store) -> list[str]:
    return sorted(store.read("conversations", ["conversation_id"])["conversation_id"])


def _review(store: Store) -> Iterator[str]:
    """Give verdicts, as the review pages do: into the journal, and from there into the table."""
    for number in range(10**6):
        for conversation_id in _conversations(store)[:50]:
            name = f"{os.getpid()}-{number}-{conversation_id}"
            now = datetime.now(UTC)
            given = Review(conversation_id=conversation_id, content_id=name, reasons=[], verdict="drop", queue="held",
                           item_id=name, reviewer="Ada", reviewed_at=now)  # fmt: skip
            keep(store, given)
            yield name
            with writing(store.root):
                take_in_journal(store)


def _lost_reviews(store: Store, said: list[str], _: dict[str, int], __: LoopbackHub) -> set[str]:
    with writing(store.root):
        take_in_journal(store)
    return set(said) - set(reviews_of(store)["item_id"])


def _takedown(store: Store) -> Iterator[str]:
    """Take conversations down, one after the other."""
    while left := _conversations(store):
        with writing(store.root):
            take_down(store, [left[0]], [], datetime.now(UTC), False)
        yield left[0]


def _lost_takedowns(store: Store, said: list[str], before: dict[str, int], _: LoopbackHub) -> set[str]:
    """Acknowledged ones that are still there, or stayed half done, and others that came."""
    with writing(store.root):
        begun = store.read_bytes(UNFINISHED) is not None
        if begun:
            take_down(store, [], [], datetime.now(UTC), False)
    there = set(_conversations(store))
    half = {"unfinished"} if store.read_bytes(UNFINISHED) is not None else set()
    records = len(list(Path(store.at("takedown")).glob("*.json")))
    more = {"more"} if len(there) > before["conversations"] else set()
    return (set(said) & there) | half | ({"record"} if records < len(said) else set()) | more


def _migrate(store: Store) -> Iterator[str]:
    """Make the store an older one, and bring it on."""
    store.any_layout = True
    for number in range(10**6):
        make_older(store)
        with writing(store.root, any_layout=True):
            migrate(store)
        yield f"{os.getpid()}-{number}"


def _lost_rows(store: Store, _: list[str], before: dict[str, int], __: LoopbackHub) -> set[str]:
    """Tables that have other numbers of rows, or other columns than today's, after the next migration."""
    with writing(store.root, any_layout=True):
        migrate(store)
    left = {change.table for change in migration(store)}
    return {table for table in TABLES if Store.existing(store.root).height(table) != before[table]} | left


def _publish(store: Store) -> Iterator[str]:
    """Publish the first release to one repository after the other, first to those that a killed process left."""
    release = sorted(Path(store.at("releases")).iterdir())[0]
    accepted = read_manifest(release).embedded_providers
    plan = plan_upload(release, "org/any", parts_of_release, False, False, False, store, accepted=accepted)
    left = [row.repo for row in publications(store) if not row.commit]
    for repo in chain(left, (f"org/r{os.getpid()}-{number}" for number in range(10**6))):
        own = plan.model_copy(update={"uploads": [plan.uploads[0].model_copy(update={"repo": repo})]})
        publish_release(hub_api(), release, own, store, datetime.now(UTC))
        yield repo


def _lost_publications(store: Store, said: list[str], _: dict[str, int], hub: LoopbackHub) -> set[str]:
    """Versions that were acknowledged and are not on the Hub or on record, and those on the Hub without a record."""
    on_record = {row.repo: row for row in publications(store)}
    ended = {repo for repo, row in on_record.items() if row.commit and row.version in hub.repos[repo].tags}
    return (set(said) - ended) | (hub.repos.keys() - on_record.keys())


def _collect(store: Store) -> Iterator[str]:
    """Collect benchmarks of two items and a reference, one after the other."""
    for number in range(10**6):
        bench = f"b{os.getpid()}-{number}"
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
            (Path(folder) / "1.png").write_bytes(image_bytes(number))
            asked = {"family": "counting", "images": "1.png", "reference": "Two."}
            rows = [json.dumps(asked | {"instruction": f"How many {n} in {bench}?"}) for n in range(2)]
            (Path(folder) / "items.jsonl").write_text("\n".join(rows))
            take_in(Path(folder) / "items.jsonl", Settings(store=store.root), bench, Path(folder))
        yield bench


def _lost_items(store: Store, said: list[str], before: dict[str, int], _: LoopbackHub) -> set[str]:
    """Benchmarks that were acknowledged and lack an item, its conversation or its reference."""
    items = store.read("bench_items").filter(pl.col("bench").is_in(said))
    for table, column in (("conversations", "conversation_id"), ("references", "item_id")):
        items = items.filter(pl.col("item_id").is_in(store.read(table)[column].implode()))
    whole = dict(items.group_by("bench").len().iter_rows())
    gone = {"conversations"} if store.height("conversations") < before["conversations"] else set()
    return {bench for bench in said if whole.get(bench) != 2} | gone


def _compact(store: Store) -> Iterator[str]:
    """List small parts of a signal and of images, and merge them."""
    for number in range(10**6):
        name = f"{os.getpid()}-{number}"
        with writing(store.root), listed_in_batches(store) as list_parts:
            for each in _ids_of(name):
                picture = Image(image_id=each, bytes=each.encode(), format="png", width=1, height=1)
                rows = {"signals/tokens": facts_frame("tokens", {each: {"tokens": 1}})}
                rows["images"] = frame_of(Image, [picture])
                list_parts((table, store.write_part(table, some)) for table, some in rows.items())
        yield name


def _ids_of(name: str) -> list[str]:
    return [digest_of(f"{name}-{number}".encode()) for number in range(SMALL_PARTS)]


def _lost_parts(store: Store, said: list[str], before: dict[str, int], _: LoopbackHub) -> set[str]:
    """Acknowledged pieces that lack a row, tables with fewer or doubled rows, and files that no list names."""
    with writing(store.root):
        remove_leftovers(store)
    lost, own = set[str](), pl.DataFrame({"id": [each for name in said for each in _ids_of(name)]})
    for table, column in (("signals/tokens", "content_id"), ("images", "image_id")):
        found = own.join(store.read(table, [column]), left_on="id", right_on=column)
        files = {path.name for path in Path(store.at(f"tables/{table}")).glob("*.parquet")}
        whole = found["id"].sort().equals(own["id"].sort()) and store.height(table) >= before[table]
        lost |= set() if whole and files == {*store.parts(table)} else {table}
    return lost


class Kind(NamedTuple):
    """Work that is killed."""

    work: Callable[[Store], Iterator[str]]
    """Does it, and yields what it has acknowledged."""
    lost: Callable[[Store, list[str], dict[str, int], LoopbackHub], set[str]]
    """(store, everything that was acknowledged, rows of each table before, the Hub) -> what is lost."""
    seconds_max: float = 1.0
    """Time of a piece of work, within which it is killed."""


KINDS = {
    "review": Kind(_review, _lost_reviews),
    "takedown": Kind(_takedown, _lost_takedowns),
    "migrate": Kind(_migrate, _lost_rows, 2.0),
    "publish": Kind(_publish, _lost_publications),
    "compact": Kind(_compact, _lost_parts),
    "collect": Kind(_collect, _lost_items, 15.0),
}


def killed(
    kind: str, store: Store, times: int, seed: int, seconds_max: float | None = None
) -> tuple[int, int, set[str]]:
    """Kills, acknowledged pieces of work, and what was lost."""
    drawn, said, lost = random.Random(f"{kind} {seed}"), list[str](), set[str]()
    work, hub = KINDS[kind], LoopbackHub()
    own = {"HF_ENDPOINT": hub.endpoint, "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_XET": "1"}
    for _ in range(times):
        store.any_layout = True
        before = {table: store.height(table) for table in TABLES}
        command = [sys.executable, "-m", "tests.chaos", "commands", store.root, "--work", kind]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=os.environ | own) as process:
            said.append(process.stdout.readline().strip())
            if not said[-1]:
                raise RuntimeError(f"{kind} ended by itself, with {process.wait()}")
            time.sleep(drawn.uniform(0, seconds_max or work.seconds_max))
            process.kill()
            said += [line.strip() for line in process.stdout if line.endswith("\n")]
        lost |= work.lost(store, said, before, hub)
    hub.close()
    return times, len(said), lost


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `python -m tests.chaos commands`."""
    parser.add_argument("store", type=Path)
    parser.add_argument("kinds", nargs="*", choices=[[], *KINDS], default=[])
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", choices=KINDS)


def run(options: argparse.Namespace) -> int:
    """Print a line for each kind; 1 when something was lost."""
    if options.work:
        for done in KINDS[options.work].work(Store(str(options.store))):
            print(done, flush=True)  # noqa: T201 - read by `killed`
        return 0
    every = set[str]()
    for kind in options.kinds or KINDS:
        with tempfile.TemporaryDirectory() as folder:
            store = Store(str(shutil.copytree(options.store, Path(folder) / "store")))
            times, done, lost = killed(kind, store, options.times, options.seed)
        print(f"{kind}: {times} SIGKILLs, {done} acknowledged, {len(lost)} lost {sorted(lost)[:3]}", flush=True)  # noqa: T201
        every |= lost
    return int(bool(every))
