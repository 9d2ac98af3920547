"""Answers and verdicts by a model on the server of `benchmarks.llm_throughput`: lost and repeated ones, and CPU.

python -m benchmarks.judging.llm_throughput --n 10000 --rate 30 [--only judge]
"""

import argparse
import os
import time
from typing import Any

from benchmarks.llm_throughput import RATE, N, Work, row


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
    from tasks.judging.protocols import VISIT_PROTOCOLS, AnswerPair, protocol
    from tasks.storage.tables import Store

    store, asked = Store.open(folder), AskedModel(name="j", vendor="openai", model="m", base_url=f"{url}/v1")
    row = {"model_a": "x", "model_b": "y", "answer_a": "1", "answer_b": "1", "baseline": "", "draw": "b"}
    row |= {"protocol": VISIT_PROTOCOLS[0]}
    every = [
        AnswerPair(
            row | {"question_id": f"i{n}", "shown": f"i{n}"}, "What?", "Of x.", "Of y.", captions=[f"Caption i{n}."]
        )
        for n in range(n)
    ]
    how = protocol(VISIT_PROTOCOLS[0])
    began, cpu = time.perf_counter(), time.process_time()
    while ask(store, every, how, model_judge(asked, how)).failures:  # repeated runs, for what failed after all retries
        pass
    labelled = store.read("verdicts", ["label"])["label"].count()
    return labelled, time.perf_counter() - began, time.process_time() - cpu


_OF: dict[Work, str] = {answer: "_of_answers", judge: "_of_verdicts"}


def run(n: int = N, rate: float = RATE) -> list[dict[str, Any]]:
    """A row for answers and one for verdicts."""
    return [row(n, rate, True, work, of) for work, of in _OF.items()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=N)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--only", choices=sorted(work.__name__ for work in _OF))
    given = parser.parse_args()
    for work, of in _OF.items():
        if given.only in (None, work.__name__):
            row(given.n, given.rate, True, work, of)
