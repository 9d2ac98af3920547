"""Dask and Ray, started on this machine, give the same tables as threads."""

import json
import os
import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from schemas.errors import BadInput, EngineUnwell
from schemas.settings import Settings, TopicSettings
from schemas.tables import TABLES
from tasks.runtime.parallel import cards, shard_runner
from tasks.signals import run
from tasks.signals.run import MeasuringObserver
from tasks.storage.tables import Store
from tasks.topics.fit import AskedDocuments, TopicDocuments, fit_and_assign
from tests.builders import image_bytes
from tests.s3_server import s3_here
from tests.tasks.ingest.logs import DAY, chat, image_name, vote, write
from tests.tasks.topics.test_fit import planted_documents
from tests.waiting import wait_until

IMAGES = 20
WORDS = ("Was zeigt das Bild?", "Count the stripes of it.", "Mail me at ann@example.org", "Translate the sign, please.")


@pytest.fixture(scope="module", autouse=True)
def small_shards():
    """Two shards of images, some of texts and of pairs, and one key for all stores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.ingest.take_in.FILES_A_SHARD", 16)
        patch.setattr(run, "TEXTS_A_PART", run.ITEMS_A_CALL)
        patch.setattr("tasks.storage.queries.signals.VECTORS_A_BLOCK", 7)
        patch.setenv("CURATE_USER_KEY", "one key for all stores of this test")
        yield


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Path:
    """Conversations with a small image each; two images are the same under other names."""
    folder = tmp_path_factory.mktemp("logs")
    names = [image_name(f"p{number:02}") for number in range(IMAGES)]
    said = [(f"{WORDS[number % 4]} {number}", f"It is number {number}.") for number in range(IMAGES)]
    lines = [chat(name[-6:], *texts, images=[name]) for name, texts in zip(names, said, strict=True)]
    write(folder, DAY, *lines, *(vote(f"v{number}", f"w{number}", at=20.0 + number) for number in range(20)))
    (folder / "serve_images").mkdir()
    for number, name in enumerate(names):
        form = "BMP" if number == IMAGES - 1 else "PNG"
        (folder / "serve_images" / f"{name}.png").write_bytes(image_bytes(number % (IMAGES - 1), file_format=form))
    return folder


def _curated(settings: Settings) -> Store:
    """Run every stage that has shards, and the decisions between them, on one cluster."""
    from flows.running.task_runners import shards_by
    from flows.stages import decide, describe, ingest, screen

    with shards_by(settings):
        for stage in (ingest, screen, decide, describe):
            stage(settings)
        if settings.task_runner == "ray":
            seen = list(shard_runner(settings).map_ordered(_cards, range(4)))
            assert {card for card, _ in seen} == {"0", "1"} and {device for _, device in seen} == {""}
    return Store.existing(settings.store)


@pytest.fixture(scope="module")
def of_threads(prefect_server, logs, tmp_path_factory) -> Store:
    return _curated(Settings(logs=str(logs), store=str(tmp_path_factory.mktemp("threads")), workers=2))


@pytest.mark.parametrize("runner", ["dask", "ray"])
def test_tables_are_those_of_threads_and_ray_gives_each_process_its_card(
    of_threads, logs, tmp_path, monkeypatch, runner
):
    """The cards are Ray's count, so that a machine without any can test it; CUDA_VISIBLE_DEVICES is what models see."""
    if runner == "ray":
        import ray

        monkeypatch.setattr(ray, "init", partial(ray.init, num_gpus=2))
    monkeypatch.setattr(MeasuringObserver, "measure", lambda *_: pytest.fail("images are measured in other processes"))
    monkeypatch.setattr("tasks.dedup.near_images.read_block", lambda *_: pytest.fail("others compare vectors"))
    _assert_same(of_threads, _curated(Settings(logs=str(logs), store=str(tmp_path), workers=2, task_runner=runner)))


def _assert_same(store: Store, other: Store) -> None:
    for table in TABLES:
        parts, others = (
            [part.drop("measured_at", strict=False) for part in s.read_parts(table)] for s in (store, other)
        )
        assert len(parts) == len(others) and all(map(lambda a, b: a.equals(b), parts, others)), table
    assert len(other.parts("signals/faces")) == 2 and other.height("semantic_images")


def test_a_worker_that_is_killed_on_a_store_in_a_bucket_leaves_the_same_tables(of_threads, logs):
    from distributed import LocalCluster

    local = {"n_workers": 1, "threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": None}
    with s3_here("arena"), LocalCluster(**local) as cluster, ThreadPoolExecutor() as beside:
        killed = beside.submit(_kill_after_first_shard, cluster, "s3://arena/store")
        chosen = {"task_runner": "dask", "task_runner_address": cluster.scheduler_address}
        _assert_same(of_threads, _curated(Settings(logs=str(logs), store="s3://arena/store", workers=1, **chosen)))
        assert killed.result(timeout=0) not in [worker.pid for worker in cluster.workers.values()]


def _kill_after_first_shard(cluster, store: str) -> int:
    """Kill the only worker once the first of two shards of images is in the store; returns its process id."""
    wait_until(lambda: Store(store).parts("images"))
    (worker,) = cluster.workers.values()
    process: int = worker.pid
    os.kill(process, signal.SIGKILL)
    return process


def _process(number: int) -> tuple[int, int]:
    if number < 0:
        raise ValueError("a shard that fails")
    return number, os.getpid()


def _dies_once(mark: Path) -> bool:
    if mark.exists():
        return True
    mark.touch()
    os._exit(1)


def _dies(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)  # what Linux does for lack of memory


@contextmanager
def _cluster(workers: int, **of_scheduler):
    import dask
    from distributed import LocalCluster

    options = {"n_workers": workers, "threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": ":0"}
    with (
        dask.config.set({f"distributed.scheduler.{name}": value for name, value in of_scheduler.items()}),
        LocalCluster(**options) as started,
    ):
        yield started


@pytest.fixture(scope="module")
def cluster():
    """One worker, which no test kills."""
    with _cluster(1) as started:
        yield started


@pytest.fixture
def mortal():
    """A worker that tests kill, and a scheduler that gives a shard up when it has killed it twice, not four times."""
    with _cluster(1, **{"allowed-failures": 1}) as started:
        yield started


@pytest.fixture
def deserted():
    """A scheduler whose workers are gone."""
    with _cluster(0, **{"no-workers-timeout": "1s"}) as started:
        yield started


def _cards(_: int) -> tuple[str, str]:
    time.sleep(1)  # or one process would do the work of two
    return os.environ.get("CUDA_VISIBLE_DEVICES", ""), os.environ.get("CURATE_DEVICE", "")


@pytest.fixture
def placed(prefect_server):
    """What shards on a cluster with these settings see."""
    from flows.running.task_runners import shards_by

    def seen(work=_cards, shards=4, **chosen):
        settings = Settings(store="", **chosen)
        with shards_by(settings):
            return list(shard_runner(settings).map_ordered(work, range(shards)))

    return seen


def test_dask_gives_shards_to_workers_with_a_card(placed, cluster):
    from distributed import LocalCluster

    asked = {"workers": 1, "task_runner": "dask", "gpus_a_worker": 1}
    with pytest.raises(BadInput, match="the cluster offers no card"):
        placed(task_runner_address=cluster.scheduler_address, **asked)
    with LocalCluster(
        n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address=":0", resources={"GPU": 1}
    ) as with_card:
        assert placed(task_runner_address=with_card.scheduler_address, device="cpu", **asked) == [("", "cpu")] * 4


def _embed(_: int) -> int:
    from tasks.images.decode import open_image
    from tasks.providers.embedded.embeddings import EfficientNet

    return len(EfficientNet().embed_images([open_image(image_bytes(1))]))


@pytest.mark.skipif(cards() > 0, reason="this machine has a card")
def test_a_worker_without_a_card_computes_nothing_on_its_cpu(placed, cluster):
    with pytest.raises(BadInput, match="this process sees no NVIDIA card"):
        placed(_embed, 1, workers=1, task_runner="dask", task_runner_address=cluster.scheduler_address, device="cuda")


def test_a_running_scheduler_is_given_the_shards(prefect_server, mortal, tmp_path):
    from flows.running.task_runners import shards_by

    settings = Settings(store="", workers=1, task_runner="dask", task_runner_address=mortal.scheduler_address)
    with shards_by(settings):
        done = list(shard_runner(settings).map_ordered(_process, range(5)))
        assert [number for number, _ in done] == list(range(5))
        assert {process for _, process in done} == {worker.pid for worker in mortal.workers.values()}
        with pytest.raises(ValueError, match="a shard that fails"):
            list(shard_runner(settings).map_ordered(_process, [1, -1]))
        assert list(shard_runner(settings).map_ordered(_dies_once, [tmp_path / "died"])) == [True]
        with pytest.raises(EngineUnwell, match=r"a worker process ended in the middle of its work \(KilledWorker\)"):
            list(shard_runner(settings).map_ordered(_dies, [1]))


def test_shards_do_not_wait_for_ever_for_workers_that_are_gone(prefect_server, deserted):
    from flows.running.task_runners import shards_by

    settings = Settings(store="", workers=1, task_runner="dask", task_runner_address=deserted.scheduler_address)
    with shards_by(settings), pytest.raises(EngineUnwell, match=r"worker process ended .*NoWorkerError"):
        list(shard_runner(settings).map_ordered(_process, [1]))


def test_documents_join_topics_on_workers_as_on_threads(prefect_server, cluster, tmp_path, monkeypatch):
    from flows.running.task_runners import shards_by

    monkeypatch.setattr("tasks.topics.fit.DOCUMENTS_AT_ONCE", 64)
    monkeypatch.setattr("tasks.topics.engines.COSINES_A_THREAD", 64 * 100)
    here = Settings(store=str(tmp_path), workers=1, topics=TopicSettings(fit_max=100))
    away = here.model_copy(update={"task_runner": "dask", "task_runner_address": cluster.scheduler_address})
    days, ids, vectors = planted_documents([300])
    every = np.ones(300, bool)
    documents = TopicDocuments(days, ids, vectors, every, every)
    asked = AskedDocuments(pl.DataFrame({"document_id": ids, "day": days}), "a", "a")
    with shards_by(away):
        found = [fit_and_assign(Store.open(here.store), documents, asked, each) for each in (here, away)]
    one, other = ([*vars(topics.found).values(), topics.far] for topics in found)
    assert [each.tobytes() for each in one] == [each.tobytes() for each in other]
    assert len(set(one[0])) > 2 and not [*tmp_path.rglob("*.parquet")]


@pytest.fixture
def refused(curate, tmp_path):
    """The one-line error of a run that is refused before any work."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "2024-06-20-conv.json").write_text(json.dumps({}) + "\n")

    def told(*options: str) -> str:
        status, out, err = curate("run", "--logs", tmp_path / "logs", "--store", tmp_path / "store", *options)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert not list(tmp_path.glob("store/tables/*/*"))
        return err

    return told


def test_an_address_out_of_reach_is_told(refused):
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        free = listening.getsockname()[1]
    for address in (f"tcp://127.0.0.1:{free}", "127.0.0.1", "tcp://127.0.0.1:99999"):
        assert f"--set task_runner_address='{address}' cannot be reached" in refused(
            "--set", "task_runner=dask", "--set", f"task_runner_address={address}"
        )


def test_a_task_runner_that_is_not_installed_or_threads_with_cards_are_refused(refused, monkeypatch):
    assert "threads have none" in refused("--set", "task_runner_address=tcp://127.0.0.1:8786")
    assert "threads have none" in refused("--set", "gpus_a_worker=1")
    assert "Dask places cards of clusters only" in refused("--set", "gpus_a_worker=1", "--set", "task_runner=dask")
    monkeypatch.setitem(sys.modules, "prefect_ray", None)
    assert 'install -c constraints.txt -e ".[scale]"' in refused("--set", "task_runner=ray")
