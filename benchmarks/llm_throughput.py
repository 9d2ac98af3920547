"""Labels, answers and verdicts by a model on a loopback server with a rate limit, where 1 % of requests fail.

The peer is the server's rate limit, the lower bound. `lost` items have no label, answer or verdict at the end,
`repeated` ones were answered twice. `client_cpu` is the share of one core that our process uses.

    python -m benchmarks.llm_throughput --n 10000 --rate 30 [--only judge]
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


def answer(url: str, folder: str, n: int) -> tuple[int, float, float]:
    """Ask one model n questions with the real SDK, loop and store; returns answers, wall seconds, CPU seconds."""
    os.environ |= {"NO_PROXY": "127.0.0.1"}
    from schemas.asked_model import AskedModel
    from tasks.judging.answers import ask_models
    from tasks.judging.questions import Bench, BenchQuestion
    from tasks.storage.tables import Store

    store, asked = Store.open(folder), AskedModel(name="m", vendor="openai", model="m", base_url=f"{url}/v1")
    bench = Bench("1", [BenchQuestion(f"q{place}", f"Question:\n{place}?", ()) for place in range(n)], lambda _: ())
    began, cpu = time.perf_counter(), time.process_time()
    while ask_models(store, bench, [asked]).failures:  # repeated runs, for what failed after all retries
        pass
    return store.height("answers"), time.perf_counter() - began, time.process_time() - cpu


def judge(url: str, folder: str, n: int) -> tuple[int, float, float]:
    """Ask a judge without images for n verdicts; returns verdicts, wall seconds, CPU seconds."""
    os.environ |= {"NO_PROXY": "127.0.0.1"}
    from schemas.asked_model import AskedModel
    from tasks.judging.ask import ask, model_judge
    from tasks.judging.protocols import VISIT, AnswerPair, protocol
    from tasks.storage.tables import Store

    store, asked = Store.open(folder), AskedModel(name="j", vendor="openai", model="m", base_url=f"{url}/v1")
    row = {"model_a": "x", "model_b": "y", "answer_a": "1", "answer_b": "1", "baseline": "", "draw": "b"}
    row |= {"protocol": VISIT[0]}
    every = [
        AnswerPair(
            row | {"question_id": f"i{n}", "shown": f"i{n}"}, "What?", "Of x.", "Of y.", captions=[f"Caption i{n}."]
        )
        for n in range(n)
    ]
    how = protocol(VISIT[0])
    began, cpu = time.perf_counter(), time.process_time()
    while ask(store, every, how, model_judge(asked, how)).failures:  # repeated runs, for what failed after all retries
        pass
    labelled = store.read("verdicts", ["label"])["label"].count()
    return labelled, time.perf_counter() - began, time.process_time() - cpu


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


_OF: dict[Work, str] = {label: "", answer: "_of_answers", judge: "_of_verdicts"}


def run(n: int = N, rate: float = RATE) -> list[dict[str, Any]]:
    """Labels, answers and verdicts with OpenAI's rate-limit headers, and labels without."""
    return [*(row(n, rate, True, work, of) for work, of in _OF.items()), row(n, rate, False, label, "_without_headers")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=N)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--only", choices=sorted(work.__name__ for work in _OF))
    given = parser.parse_args()
    if given.only:
        row(given.n, given.rate, True, *next(each for each in _OF.items() if each[0].__name__ == given.only))
    else:
        run(given.n, given.rate)
