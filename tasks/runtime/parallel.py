"""Where work runs: `map` on threads, processes or the workers of a task runner, and models on the CPU or a card.

A bounded number of results is in flight. BLAS may be limited to one thread. The setting `device` reaches every process
that loads models in CURATE_DEVICE.
"""

import ctypes
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from schemas.errors import BadInput, EngineUnwell, MissingProvider
from schemas.settings import THREADS, Settings

if TYPE_CHECKING:
    import onnxruntime

Item = TypeVar("Item")
Result = TypeVar("Result")
_DEVICE, _AUTO, _CPU, _CUDA = "CURATE_DEVICE", "auto", "cpu", "cuda"
_ON_CARD, _ON_CPU = "CUDAExecutionProvider", "CPUExecutionProvider"


def map_ordered(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """`map(function, items)` on `workers` threads; at most `2 * workers` results are in flight."""
    return _in_order(ThreadPoolExecutor(workers), function, items, workers)


def map_in_processes(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """`map(function, items)` in `workers` processes; at most `2 * workers` results are in flight."""
    spawn = multiprocessing.get_context("spawn")  # a fork would copy the locks of Prefect's and polars' threads
    return _in_order(ProcessPoolExecutor(workers, mp_context=spawn), function, items, workers)


def _in_order(
    pool: Executor, function: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Iterator[Result]:
    running: deque[Future[Result]] = deque()
    with ended_processes_named(), pool:
        try:
            for item in items:
                running.append(pool.submit(function, item))
                if len(running) >= 2 * workers:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


_ENDED = {
    *("BrokenProcessPool", "KilledWorker", "NoWorkerError", "NoValidWorkerError"),
    *("WorkerCrashedError", "OutOfMemoryError", "NodeDiedError"),
}
"""Errors of Python, Dask and Ray for work whose process ended, or whose processes are all gone."""


@contextmanager
def ended_processes_named() -> Iterator[None]:
    """Turn what pools raise when a process of theirs ended into EngineUnwell; other errors pass unchanged."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ not in _ENDED:
            raise
        raise EngineUnwell(
            f"a worker process ended in the middle of its work ({type(error).__name__}), most likely for lack of "
            "memory; give fewer --workers, or a machine with more memory. What was stored stays: run again, and it "
            "goes on from there"
        ) from error


def map_as_done(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """`map(function, items)` on `workers` threads, in the order of completion; on one thread in their own."""
    running = list[Future[Result]]()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for item in items:
                running.append(pool.submit(function, item))
                if len(running) >= 2 * workers:
                    yield from _first_done(running)
            while running:
                yield from _first_done(running)
        finally:
            pool.shutdown(cancel_futures=True)


def _first_done(running: list[Future[Result]]) -> list[Result]:
    """Wait for the first; removes all that are done, and gives their results in order."""
    done = wait(running, return_when=FIRST_COMPLETED).done
    ended = [future for future in running if future in done]
    running[:] = [future for future in running if future not in done]
    return [future.result() for future in ended]


class ShardRunner(Protocol):
    """Runs shards in other processes."""

    def map_ordered(self, work: Callable[[Item], Result], shards: Iterable[Item]) -> Iterator[Result]:
        """`map(work, shards)`, concurrently. `work` and shards are pickled; workers must reach store and files."""
        ...


_chosen: ContextVar[ShardRunner | None] = ContextVar("shard_runner", default=None)


@contextmanager
def shards_on(runner: ShardRunner) -> Iterator[None]:
    """Inside it, steps run their shards on `runner`."""
    token = _chosen.set(runner)
    try:
        yield
    finally:
        _chosen.reset(token)


def shard_runner(settings: Settings) -> ShardRunner | None:
    """The runner of these settings; None for threads of this process."""
    return None if settings.task_runner == THREADS else _chosen.get()


def map_shards(work: Callable[[Item], Result], shards: Iterable[Item], settings: Settings) -> Iterator[Result]:
    """`map(work, shards)` in order, on the runner of these settings or on threads of this process."""
    runner = shard_runner(settings)
    return runner.map_ordered(work, shards) if runner else map_ordered(work, shards, settings.workers)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Context manager and decorator: limits BLAS to one thread, in all threads of this process and until it ends.

    So results do not depend on the number of cores, and small matrices are faster. The limit is not lifted at the end,
    because other threads may still be computing, and a sum over two threads rounds differently. `map_ordered` and the
    libraries' own pools spread work over cores.
    """
    _limit()
    yield


@cache
def _limit() -> None:
    import scipy.linalg  # noqa: F401 - loads scipy's OpenBLAS, so that it is limited as well as numpy's
    from threadpoolctl import threadpool_limits

    threadpool_limits(1, "blas")


def use_device(device: str) -> None:
    """Choose the device of models that this process loads from now on."""
    if device == _AUTO:
        os.environ.pop(_DEVICE, None)
    else:
        os.environ[_DEVICE] = device


@cache
def cards() -> int:
    """Number of NVIDIA cards that the driver shows to this process; CUDA_VISIBLE_DEVICES narrows them."""
    try:
        driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(0)
    except OSError:
        return 0
    return count.value if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0


def on_card() -> bool:
    """Whether models of this process run on a card. Raises BadInput where `cuda` is set and this process sees none."""
    if card_demanded() and not cards():
        raise BadInput(
            "--set device=cuda: this process sees no NVIDIA card (driver, container or CUDA_VISIBLE_DEVICES hide it); "
            "give device=cpu, or auto for a card only where one is"
        )
    return os.environ.get(_DEVICE) != _CPU and cards() > 0


def product_device() -> str:
    """`cuda` for products of matrices where models run on a card and there is torch with CUDA, else `cpu`."""
    if not on_card() or find_spec("torch") is None:
        return _CPU
    import torch

    return _CUDA if torch.cuda.is_available() else _CPU


def batch_of(items_on_cpu: int) -> int:
    """Number of items of one batch: on a card four times as many, for it waits for small ones."""
    return 4 * items_on_cpu if on_card() else items_on_cpu


def card_demanded() -> bool:
    """Whether a model that cannot run on a card may not run at all."""
    return os.environ.get(_DEVICE) == _CUDA


def execution_providers() -> list[Any]:
    """ONNX Runtime's names of the device, and of the CPU for what a card cannot compute.

    Raises BadInput or MissingProvider where `cuda` is set and there is no card, or the runtime cannot use it.
    """
    there = on_card() and _onnx_on_card()
    if card_demanded() and not there:
        raise MissingProvider(
            "--set device=cuda: this ONNX Runtime cannot compute on the card; install onnxruntime-gpu in place of "
            "onnxruntime, with the CUDA and cuDNN that it needs, or give device=auto"
        )
    chosen = {
        "use_tf32": "0",  # with it, values would differ from the CPU's in the third digit
        "cudnn_conv_algo_search": "HEURISTIC",  # the default tries all ways for each size of a batch
    }
    return [(_ON_CARD, chosen), _ON_CPU] if there else [_ON_CPU]


@cache
def _onnx_on_card() -> bool:
    """Whether a session runs on the card: ONNX Runtime falls back to the CPU where a library of CUDA is missing."""
    import onnxruntime
    from onnx import TensorProto, helper

    if _ON_CARD not in onnxruntime.get_available_providers():
        return False
    graph_input, graph_output = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("given", "made")
    )
    graph = helper.make_graph(
        [helper.make_node("Identity", ["given"], ["made"])], "probe", [graph_input], [graph_output]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=[_ON_CARD, _ON_CPU])
    return bool(session.get_providers()[0] == _ON_CARD)


def onnx_session(model: bytes, on_cpu: bool = False) -> "onnxruntime.InferenceSession":
    """A session of a serialized model with one thread per call, because one call runs per core.

    It runs on the chosen device unless `on_cpu` is set: for models in 8 bits, whose products no card has, and for
    images of any size, since CUDA prepares for each new size, which takes about a second.
    Raises BadInput or MissingProvider where a card is demanded and cannot be used.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # images differ in size, and an arena keeps the largest of every size
    options.log_severity_level = 3
    if on_cpu:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return onnxruntime.InferenceSession(model, options, providers=execution_providers())
