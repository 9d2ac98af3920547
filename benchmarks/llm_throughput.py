"""Labels by a model on a loopback server with a rate limit, where 1 % of requests fail.

The peer is the server's rate limit, the lower bound. `lost` items have no label at the end, `repeated` ones
were answered twice. `client_cpu` is the share of one core that our process uses.

    python -m benchmarks.llm_throughput --n 10000 --rate 30
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

N, RATE, FAIL_EVERY = 600, 20.0, 100
Work = Callable[[str, str, int], tuple[int, float, float]]


@contextmanager
def server(rate: float, headers: bool) -> Iterator[str]:
    """Address of a server in another process."""
    mode = "headers" if headers else "silent"
    command = [sys.executable, "-m", "benchmarks.llm_server", str(rate), str(FAIL_EVERY), mode]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


def label(url: str, folder: str, n: int) -> tuple[int, float, float]:
    """Label n documents with the real SDK, loop and store; returns signals, wall seconds, CPU seconds."""
    os.environ |= {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{url}/v1", "NO_PROXY": "127.0.0.1"}
    from tasks.providers import Providers
    from tasks.providers.capabilities import Document
    from tasks.signals.paid import Asked, measure_paid
    from tasks.signals.registry import signal_of
    from tasks.signals.run import missing
    from tasks.storage.tables import Store

    def load(ids: Sequence[str]) -> list[Document]:
        return [Document(each, f"Question {each}?", 0, (), "", 0.0, 0) for each in ids]

    store, signal = Store.open(folder), signal_of("categories", Providers({"categories": "openai"}))
    assert signal.model is not None
    ids = [f"{number:032x}" for number in range(n)]
    began, cpu = time.perf_counter(), time.process_time()
    while wanted := missing(store, signal, ids):  # repeated runs, for what failed after all retries
        measure_paid(store, [Asked(signal, signal.model, wanted, load)], None, datetime.now(UTC))
    return store.read("signals/categories").height, time.perf_counter() - began, time.process_time() - cpu


def row(n: int, rate: float, headers: bool, work: Work = label, of: str = "") -> dict[str, Any]:
    """One measurement; `of` is the end of its name."""
    with server(rate, headers) as url, tempfile.TemporaryDirectory() as folder:
        labelled, wall, cpu = work(url, folder, n)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        counts = json.loads(opener.open(f"{url}/counts").read())
    best = (counts["taken"] - rate) / rate  # the bucket is full at the start
    result = {
        "bench": f"llm_throughput{of}",
        "n": n,
        "ours_s": round(wall, 2),
        "peer": f"the server's own limit of {rate:g} requests/s, {100 / FAIL_EVERY:g} % of which fail",
        "peer_s": round(best, 2),
        "ratio": round(best / wall, 3),
        "lost": n - labelled,
        "repeated": counts["repeated"],
        "failed": counts["failed"],
        "refused": counts["refused"],
        "client_cpu": round(cpu / wall, 2),
        "client_ms_a_call": round(1000 * cpu / n, 1),
    }
    print(json.dumps(result), flush=True)
    return result


def run(n: int = N, rate: float = RATE) -> list[dict[str, Any]]:
    """Labels with OpenAI's rate-limit headers, and without."""
    return [row(n, rate, True), row(n, rate, False, label, "_without_headers")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=N)
    parser.add_argument("--rate", type=float, default=RATE)
    given = parser.parse_args()
    run(given.n, given.rate)
