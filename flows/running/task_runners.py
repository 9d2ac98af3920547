"""Dask and Ray: Prefect's task runners run the shards of a step as tasks."""

import logging
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, TypeVar

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.futures import PrefectFuture
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.task_runners import TaskRunner

from schemas.errors import BadInput
from schemas.settings import Settings
from tasks.runtime.parallel import ended_processes_named, shard_runner, shards_on, use_device

Shard = TypeVar("Shard")
Done = TypeVar("Done")

_DASK = {
    "distributed.admin.large-graph-warning-threshold": "1GB",  # a shard of images in Parquet rows is about 30 MB
    "distributed.comm.timeouts.connect": "120s",  # a machine that uses all its cores answers late
    "distributed.scheduler.no-workers-timeout": "10 minutes",  # shards would wait for ever for workers that are gone
}


@task(name="shard", cache_policy=NO_CACHE, persist_result=False)
def run_shard(work_and_shard: bytes) -> Any:
    """Process one shard in a worker. The argument is pickled so that no engine inspects, copies or prints it."""
    work, shard, device = pickle.loads(work_and_shard)  # noqa: S301 - only `PrefectShards` makes these bytes
    use_device(device)
    return work(shard)


class PrefectShards:
    """Runs shards on a task runner, which is started with the first shard."""

    def __init__(self, settings: Settings, stack: ExitStack) -> None:
        self._settings, self._stack = settings, stack
        self._runner: TaskRunner[Any] | None = None
        self._api = ""
        self._share = 0.0

    def map_ordered(self, work: Callable[[Shard], Done], shards: Iterable[Shard]) -> Iterator[Done]:
        """`map(work, shards)` in order; at most two shards per worker are submitted at a time.

        Raises EngineUnwell for a shard whose processes end, on several workers.
        """
        flying: deque[Any] = deque()
        with ended_processes_named():
            for shard in shards:
                flying.append(self._submit(pickle.dumps((work, shard, self._settings.device))))
                if len(flying) >= 2 * self._settings.workers:
                    yield flying.popleft().result()
            while flying:
                yield flying.popleft().result()

    def _submit(self, work_and_shard: bytes) -> PrefectFuture[Any]:
        if self._runner is None:
            with get_client(sync_client=True) as client:
                self._api = str(client.api_url)
            self._runner = self._stack.enter_context(
                _dask(self._settings) if self._settings.task_runner == "dask" else _ray(self._settings)
            )
            self._share = _share_of_cards(self._settings, self._runner)
        # without the address of this server, each worker starts its own
        with temporary_settings({PREFECT_API_URL: self._api}), _on_cards(self._settings, self._share):
            future: PrefectFuture[Any] = self._runner.submit(run_shard, {"work_and_shard": work_and_shard})
        return future


@contextmanager
def shards_by(settings: Settings) -> Iterator[None]:
    """Steps inside run their shards on the settings' task runner; inner flows share the outermost flow's."""
    if shard_runner(settings) is not None:
        yield
        return
    with ExitStack() as stack, shards_on(PrefectShards(settings, stack)):
        yield


def _share_of_cards(settings: Settings, runner: Any) -> float:
    """Share of a card that a shard takes. Raises BadInput when no worker has it, because shards would wait for ever."""
    share = settings.gpus_a_worker or 0.0
    if settings.task_runner == "ray":
        import ray

        there = float(ray.cluster_resources().get("GPU", 0.0))  # type: ignore[no-untyped-call]
        if not settings.gpus_a_worker and not settings.task_runner_address and settings.device != "cpu":
            share = min(1.0, there / settings.workers)
    else:
        workers = runner.client.scheduler_info(n_workers=-1)["workers"].values() if share else ()
        there = max((float(worker["resources"].get("GPU", 0.0)) for worker in workers), default=0.0)
    if share > there:
        raise BadInput(
            f"--set gpus_a_worker={share}: the cluster offers no card; start its workers with cards (Dask: with "
            "--resources GPU=1 and one card in CUDA_VISIBLE_DEVICES), or leave it out"
        )
    return share


def _on_cards(settings: Settings, share: float) -> Any:
    """Shards that are submitted inside take this share of a card."""
    if not share:
        return nullcontext()
    if settings.task_runner == "ray":
        from prefect_ray.context import remote_options

        return remote_options(num_gpus=share, max_calls=0)  # a worker keeps its models for the next shard
    from dask.base import annotate

    return annotate(resources={"GPU": share})


def _dask(settings: Settings) -> Any:
    import dask
    from distributed import Security
    from prefect_dask.task_runners import DaskTaskRunner

    dask.config.set(_DASK)
    logging.getLogger("distributed").setLevel(logging.ERROR)  # it logs every worker that connects or disconnects
    if settings.task_runner_address:
        return DaskTaskRunner(address=settings.task_runner_address)
    return DaskTaskRunner(
        cluster_kwargs={
            "n_workers": settings.workers,
            "threads_per_worker": 1,
            "host": "127.0.0.1",
            # Without a key, every user of this machine could submit work.
            "security": Security.temporary(),  # type: ignore[no-untyped-call]
            "dashboard_address": None,
            "memory_limit": 0,  # models need more than an equal share on a small machine; the system guards memory
            "silence_logs": "ERROR",
        }
    )


def _ray(settings: Settings) -> Any:
    import os

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_task_oom_retries", "3")  # it would try for ever; Dask tries three times, too
    from prefect_ray import RayTaskRunner

    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if settings.task_runner_address:
        return RayTaskRunner(address=settings.task_runner_address, init_kwargs=quiet)
    local = {"num_cpus": settings.workers, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    return RayTaskRunner(init_kwargs=quiet | local)
