"""Topics of planted embeddings: our engine against BERTopic's default pipeline, warm and in a fresh process.

`python -m benchmarks.topics 20000:101 50000:101` measures other sizes, and draws that nothing was chosen on, one round
each.
"""

import json
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import adjusted_rand_score

from benchmarks.timing import compare
from schemas.settings import TopicSettings
from tasks.sample.assign import assign, reach_of
from tasks.sample.clusters import cluster

SIZES = (2_000, 5_000)
DIMENSION, TOPICS = 384, 40
STRAY = 0.05
"""Share of documents that belong to no topic."""
PEER = "BERTopic, default pipeline"

Vectors = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int32]


def planted(n: int, draw: int = 0) -> tuple[Vectors, Labels]:
    """Unit vectors float32 (n, 384) and their topics, of uneven size, some alike; -1 for strays.

    40 centres under 8 parents, sizes falling with rank ** 0.7, noise in 12 directions of each topic's own and in all.
    Every draw is of the same topics.
    """
    random = np.random.default_rng(0)
    parents = random.normal(size=(8, DIMENSION))[random.integers(0, 8, TOPICS)]
    centres = 0.7 * parents + random.normal(size=(TOPICS, DIMENSION))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    own = random.normal(size=(TOPICS, 12, DIMENSION)) / np.sqrt(DIMENSION * 12)
    random = np.random.default_rng([draw, n])
    share = 1 / np.arange(1, TOPICS + 1) ** 0.7
    owner = random.choice(TOPICS, n, p=share / share.sum())
    vectors = centres[owner] + 0.7 * random.normal(size=(n, DIMENSION)) / np.sqrt(DIMENSION)
    for topic in range(TOPICS):
        vectors[owner == topic] += 0.5 * random.normal(size=((owner == topic).sum(), 12)) @ own[topic]
    stray = random.random(n) < STRAY
    vectors[stray] = random.normal(size=(stray.sum(), DIMENSION))
    owner[stray] = -1
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), owner.astype(np.int32)


def ours(vectors: Vectors) -> Labels:
    """Topics, and the map."""
    return cluster(vectors, TopicSettings(), seed=0).labels


def theirs(vectors: Vectors) -> Labels:
    """BERTopic as it comes, without a map."""
    warnings.simplefilter("ignore")
    from bertopic import BERTopic

    topics, _ = BERTopic().fit_transform([f"word{n % 50} text" for n in range(len(vectors))], vectors)
    return np.array(topics, np.int32)


def run() -> list[dict[str, Any]]:
    """CPU seconds and adjusted Rand index against the planted topics; then the same in processes that start anew."""
    return [*map(_against_bertopic, SIZES), _fresh(SIZES[0]), stability(SIZES[1])]


def _against_bertopic(n: int) -> dict[str, Any]:
    vectors, owner = planted(n)
    rand = {
        f"{who}_adjusted_rand": round(float(adjusted_rand_score(owner, find(vectors))), 3)
        for who, find in (("ours", ours), ("peer", theirs))
    }
    return compare("topics", n, lambda: ours(vectors), PEER, lambda: theirs(vectors), **rand)


def _fresh(n: int) -> dict[str, Any]:
    seconds = {}
    for who in ("ours", "ours", "theirs"):  # the first fills the cache of compiled code
        code = f"import time, benchmarks.topics as b; b.{who}(b.planted({n})[0]); print(time.process_time())"
        answer = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        seconds[who] = float(answer.stdout.split()[-1])
    row = {"bench": "topics, fresh process", "n": n, "ours_s": round(seconds["ours"], 2), "peer": PEER}
    row |= {"peer_s": round(seconds["theirs"], 2), "ratio": round(seconds["theirs"] / seconds["ours"], 2)}
    print(json.dumps(row), flush=True)
    return row


def stability(n: int) -> dict[str, Any]:
    """1 % new rows: the labels of the old ones when the new are assigned, and when all are fitted anew."""
    vectors, owner = planted(n + n // 100)
    old, fresh = vectors[:n], vectors[n:]
    model = cluster(old, TopicSettings(), seed=0)
    started = time.process_time()
    assigned = assign(old, model, reach_of(old, 1), fresh, 1)
    seconds = time.process_time() - started
    anew = cluster(vectors, TopicSettings(), seed=0)
    row = {
        "bench": "topics: 1 % new, assigned",
        "n": n,
        "ours_s": round(seconds, 4),
        "adjusted_rand_of_old": 1.0,
        "adjusted_rand_of_old_if_fitted_anew": round(float(adjusted_rand_score(model.labels, anew.labels[:n])), 3),
        "adjusted_rand_of_new": round(float(adjusted_rand_score(owner[n:], assigned.found.labels)), 3),
    }
    print(json.dumps(row), flush=True)
    return row


def once(n: int, draw: int) -> dict[str, Any]:
    """One round of both."""
    vectors, owner = planted(n, draw)
    row: dict[str, Any] = {"bench": "topics, one round", "n": n, "draw": draw}
    for name, find in (("ours", ours), ("peer", theirs)):
        started = time.process_time()
        labels = find(vectors)
        row[f"{name}_s"] = round(time.process_time() - started, 1)
        row[f"{name}_topics"] = int(labels.max()) + 1
        row[f"{name}_adjusted_rand"] = round(float(adjusted_rand_score(owner, labels)), 4)
    return row | {"ratio": round(row["peer_s"] / row["ours_s"], 2)}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        ours(planted(1_000)[0])
        theirs(planted(1_000)[0])
        for n, _, draw in (argument.partition(":") for argument in sys.argv[1:]):
            print(json.dumps(once(int(n), int(draw or 0))), flush=True)
    else:
        run()
