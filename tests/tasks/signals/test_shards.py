"""Shards that other processes measure give the parts that threads of one process give."""

import pickle
from collections import Counter

import polars as pl
import pytest

from schemas.errors import BadInput
from schemas.items.reject import TakenDownKind
from schemas.settings import Settings
from schemas.tables import TABLES
from tasks.images.decode import open_image
from tasks.ingest import steps as ingest
from tasks.providers import Providers
from tasks.providers.embedded.screening import OpenNsfw
from tasks.runtime.parallel import shards_on
from tasks.signals import run
from tasks.signals.run import MeasuringObserver
from tasks.signals.steps import catch_up_images, measure_texts
from tasks.storage.keyed_ids import Tombstones, store_key
from tasks.storage.tables import Store
from tests.builders import NOON, conversation, image, image_bytes, store_with
from tests.builders import drawn_image as drawn
from tests.tasks.ingest.logs import DAY, chat, image_name, write

IMAGES = 20
SAME = {3: 1, 17: 1, 19: 5}
"""Images in files of their own that show what another file shows: in the same shard, and in others."""


class Elsewhere:
    """Stands where a task runner stands: everything travels pickled, and the last shard is worked on first."""

    def __init__(self):
        self.shards = Counter()

    def map_ordered(self, work, shards):
        sent = [pickle.dumps((work, shard)) for shard in shards]
        self.shards[work.__name__] += len(sent)
        done = [pickle.dumps(self._work(each)) for each in reversed(sent)]
        yield from map(pickle.loads, reversed(done))

    def _work(self, sent):
        work, shard = pickle.loads(sent)
        return work(shard)


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr("tasks.ingest.take_in.FILES_A_SHARD", 16)
    monkeypatch.setattr(run, "TEXTS_A_PART", run.ITEMS_A_CALL)
    monkeypatch.setattr(run, "IMAGES_A_PART", run.ITEMS_A_CALL)
    monkeypatch.setenv("CURATE_USER_KEY", "one key for all stores of this test")


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    names = [image_name(f"p{number:02}") for number in range(IMAGES)]
    write(folder, DAY, *(chat(name[-6:], images=[name]) for name in names))
    (folder / "serve_images").mkdir()
    for number, name in enumerate(names):
        shown, form = (SAME[number], "BMP") if number in SAME else (number, "PNG")
        (folder / "serve_images" / f"{name}.png").write_bytes(image_bytes(shown, file_format=form))
    return folder


def taken_in(logs, folder, runner="threads", prepare=lambda store: None, providers=None, **changes):
    settings = Settings(logs=str(logs), store=str(folder), workers=2, task_runner=runner, **changes)
    store = Store.open(settings.store)
    prepare(store)
    ingest.read_log_lines.fn(settings)
    return store, ingest.take_in_images.fn(settings, MeasuringObserver(store, providers or Providers(), NOON))


def parts(store):
    return {table: store.parts(table) for table in TABLES}


def test_images_taken_in_elsewhere_are_the_same_parts(logs, tmp_path):
    here, report = taken_in(logs, tmp_path / "here")
    with shards_on(elsewhere := Elsewhere()):
        there, spread_report = taken_in(logs, tmp_path / "there", "dask")
    assert elsewhere.shards == {"read_shard": 2}
    assert parts(there) == parts(here)
    assert len(parts(here)["images"]) == len(parts(here)["signals/faces"]) == 2
    assert spread_report.counts == report.counts
    assert report.counts["images"] == IMAGES - len(SAME)


def test_nothing_but_what_is_listed_stays_of_images_that_two_shards_had(logs, tmp_path):
    with shards_on(Elsewhere()):
        store, _ = taken_in(logs, tmp_path, "dask")
    for table in ("images", "signals/nsfw"):
        on_disk = {path.rsplit("/", 1)[-1] for path in store.fs.ls(store.at(f"tables/{table}"), detail=False)}
        assert on_disk == {*store.parts(table), "parts.json"}
        ids = store.read(table)[:, 0]
        assert ids.n_unique() == len(ids) == IMAGES - len(SAME)


def test_what_was_taken_down_is_not_looked_at_elsewhere(logs, tmp_path):
    gone = open_image(image_bytes(7)).image_id

    def take_down(store):
        Tombstones(store, store_key(store)).add({TakenDownKind.IMAGE: [gone]}, NOON)

    with shards_on(Elsewhere()):
        store, report = taken_in(logs, tmp_path, "ray", take_down)
    assert gone not in store.read("images")["image_id"]
    assert gone not in store.read("signals/nsfw")["content_id"]
    assert report.counts["taken_down"] == 1
    assert store.read("image_files").filter(pl.col("problem").is_not_null() | pl.col("image_id").eq(gone)).is_empty()
    names = {name.rpartition(".")[0] for name in store.read("image_files")["name"]}
    (name,) = {name for part in store.read_parts("sightings", ["images"]) for name in part["images"].explode()} - names
    assert Tombstones(store, store_key(store)).holds(TakenDownKind.IMAGE, [name]) == {name}


def test_a_known_image_is_quarantined_elsewhere(logs, tmp_path):
    listed = tmp_path / "known.txt"
    listed.write_text(f"pixels {open_image(image_bytes(7)).image_id}\n")
    with shards_on(Elsewhere()):
        store, report = taken_in(logs, tmp_path / "store", "dask", known_hashes=[str(listed)])
    assert report.counts["known"] == 1
    assert report.counts["images"] == IMAGES - len(SAME) - 1
    assert store.read("quarantine").filter(kind="image").height == 1


def test_a_worker_with_another_hash_list_stops_the_run(logs, tmp_path):
    listed = tmp_path / "known.txt"
    listed.write_text(f"pixels {open_image(image_bytes(7)).image_id}\n")

    class OtherMachine(Elsewhere):
        def _work(self, sent):
            listed.write_text("")
            return super()._work(sent)

    with shards_on(OtherMachine()), pytest.raises(BadInput, match="other lists"):
        taken_in(logs, tmp_path / "store", "dask", known_hashes=[str(listed)])


def test_less_than_two_shards_are_not_sent_away(logs, tmp_path, monkeypatch):
    monkeypatch.setattr("tasks.ingest.take_in.FILES_A_SHARD", 48)
    with shards_on(elsewhere := Elsewhere()):
        taken_in(logs, tmp_path, "dask")
    assert not elsewhere.shards


class Paid(OpenNsfw):
    """A provider of one's own, which asks a service."""

    service = "a service"


def test_what_is_paid_for_is_left_to_this_process(logs, tmp_path):
    providers = Providers({"nsfw": f"{__name__}:Paid"})
    with shards_on(Elsewhere()):
        store, report = taken_in(logs, tmp_path, "dask", providers=providers)
        assert report.model_calls["faces"] >= IMAGES - len(SAME) and "nsfw" not in report.model_calls
        caught_up = catch_up_images.fn(Settings(store=str(tmp_path), task_runner="dask"), providers)
    assert caught_up.model_calls == {"nsfw": IMAGES - len(SAME)}
    assert store.read("signals/nsfw").height == IMAGES - len(SAME)


@pytest.fixture(params=["texts", "images"])
def measured(request):
    """A step that measures what a store lacks, on settings; and how many shards it has."""
    providers = Providers()
    if request.param == "images":
        return lambda settings: catch_up_images.fn(settings, providers), {"measure": 2}
    return lambda settings: measure_texts.fn(settings, providers, "screen_texts", kept_only=False), {"measure": 11}


def test_what_is_measured_elsewhere_is_the_same_parts(tmp_path, measured):
    work, shards = measured
    said = [conversation(f"c{number}", f"What is {number}?", f"It is {number}@example.org.") for number in range(70)]
    images = [image(drawn(number)) for number in range(40)]
    stores = [store_with(tmp_path / name, conversations=said, images=images) for name in ("here", "there")]
    report = work(Settings(store=stores[0].root, workers=2))
    with shards_on(elsewhere := Elsewhere()):
        spread_report = work(Settings(store=stores[1].root, workers=2, task_runner="ray"))
    assert elsewhere.shards == shards
    assert spread_report.model_calls == report.model_calls
    assert spread_report.failures == report.failures
    for table in sorted(name for name in TABLES if name.startswith("signals/")):
        here, there = ([frame.drop("measured_at") for frame in store.read_parts(table)] for store in stores)
        assert len(here) == len(there) and all(map(lambda one, other: one.equals(other), here, there)), table
