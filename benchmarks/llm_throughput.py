"""Labels, answers, verdicts and images by a model on a loopback server with a rate limit, where 1 % of requests fail.

The peer is the server's rate limit, the lower bound. `lost` items have no label, answer, verdict or image at the end,
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
    from tasks.signals.paid import Asked, measure_one_by_one
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
        measure_one_by_one(store, Asked(signal, signal.model, wanted, load), now=datetime.now(UTC))
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


def draw(url: str, folder: str, n: int) -> tuple[int, float, float]:
    """Order n images with the real SDK, loop and store; returns images, wall seconds, CPU seconds."""
    os.environ |= {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{url}/v1", "NO_PROXY": "127.0.0.1"}
    from schemas.benches.generated import GeneratedBench, GeneratedDescription
    from schemas.policy import GeneratedRule
    from tasks.generated_bench.bench_state import BenchState, ItemProgress
    from tasks.generated_bench.making import draw_missing
    from tasks.providers import Providers
    from tasks.providers.ask_items import Work
    from tasks.storage.tables import Store

    store, pictures = Store.open(folder), Providers({"pictures": "openai"})["pictures"]
    bench = GeneratedBench(
        bench="b", capability="{}", general=1, fine=1, per_aspect=n, levels=["easy"], graph=True, seed=0, providers=[]
    )
    described = [
        GeneratedDescription(
            description_id=f"{place:032x}", bench="b", aspect=0, level="easy", number=place,
            description=f"Cup {place}.", topic_word="cup", key_words=[], kept_out=[], checks=[], version="1",
        )
        for place in range(n)
    ]  # fmt: skip
    made = BenchState(bench, progress=[ItemProgress(each, [], {}, [], None) for each in described])
    began, cpu, failed = time.perf_counter(), time.process_time(), True
    while failed:  # repeated runs, for what failed after all retries
        draw_missing(store, made, pictures, GeneratedRule(), work := Work())
        failed = bool(work.failures)
    return store.height("drawings"), time.perf_counter() - began, time.process_time() - cpu


def row(n: int, rate: float, headers: bool, work: Work = label) -> dict[str, Any]:
    """One measurement."""
    with server(rate, headers) as url, tempfile.TemporaryDirectory() as folder:
        labelled, wall, cpu = work(url, folder, n)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        counts = json.loads(opener.open(f"{url}/counts").read())
    best = (counts["taken"] - rate) / rate  # the bucket is full at the start
    result = {
        "bench": "llm_throughput" + _OF.get(work, "" if headers else "_without_headers"),
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


_OF: dict[Work, str] = {answer: "_of_answers", judge: "_of_verdicts", draw: "_of_images"}


def run(n: int = N, rate: float = RATE) -> list[dict[str, Any]]:
    """Labels with OpenAI's rate-limit headers and without, then answers, verdicts and images with them."""
    return [row(n, rate, True), row(n, rate, False), *(row(n, rate, True, work) for work in _OF)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=N)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--only", choices=sorted(work.__name__ for work in _OF))
    given = parser.parse_args()
    if given.only:
        row(given.n, given.rate, True, next(work for work in _OF if work.__name__ == given.only))
    else:
        run(given.n, given.rate)
