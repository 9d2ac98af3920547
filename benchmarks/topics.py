"""Topic engines umap and evoc against BERTopic's default pipeline on planted topics; purity on images; memory.

    python -m benchmarks.topics                    # 2,000 documents; 20,000 as well with `20000`
    python -m benchmarks.topics fit 100000         # one fit of the default engine: seconds and peak memory
    python -m benchmarks.topics mates DATA         # three labelled sets: is the nearest prompt of one's cluster?
    python -m benchmarks.topics purity DIR…        # one set of images per folder: are topics of one set?

Seconds are CPU seconds of the second fit in a process; the first one compiles. Ours include the map, BERTopic's do not.
"""

import hashlib
import json
import resource
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import adjusted_rand_score

from schemas.settings import TopicSettings
from tasks.topics.cluster import assign, cluster, reach_of

SIZE = 2_000
DIMENSION, TOPICS = 384, 40
STRAY = 0.05
"""Share of documents that belong to no topic."""
PEER = "BERTopic, default pipeline"
SUFFIXES = {".png", ".jpg", ".jpeg", ".webp"}
BATCH = 32
MATES = {
    "Arena-Hard's clusters": ("text-categories/arena-hard-v0.1.jsonl", "prompt", "cluster"),
    "VisIT-Bench's families": ("text-categories/visit-bench-even.jsonl", "instruction", "instruction_category"),
    "questions in 12 languages": ("text-language/chat-prompts-12lang.jsonl", "text", "question_id"),
}
"""Set -> file, field of the text, field of its class."""

Vectors = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int32]


def planted(n: int, draw: int = 0) -> tuple[Vectors, Labels]:
    """Unit vectors float32 (n, 384) and their topics, of uneven size, some alike; -1 for strays.

    40 centres under 8 parents, sizes falling with rank ** 0.7, noise in 12 directions of each topic's own and in all.
    All draws share the same topics.
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


def ours(vectors: Vectors, engine: str) -> Labels:
    """Topics of our engine; the map is computed too."""
    return cluster(vectors, TopicSettings.model_validate({"engine": engine}), seed=0).labels


def theirs(vectors: Vectors) -> Labels:
    """Topics of BERTopic's default pipeline, without a map."""
    warnings.simplefilter("ignore")
    from bertopic import BERTopic

    topics, _ = BERTopic().fit_transform([f"word{n % 50} text" for n in range(len(vectors))], vectors)
    return np.array(topics, np.int32)


def run(n: int = SIZE) -> list[dict[str, Any]]:
    """One row per engine against BERTopic, and one row on how 1 % new documents change the labels of the old ones."""
    vectors, owner = planted(n)
    finders = {"umap": lambda v: ours(v, "umap"), "evoc": lambda v: ours(v, "evoc"), PEER: theirs}
    warm = planted(SIZE)[0]
    seconds, rand = {}, {}
    for name, find in finders.items():
        find(warm)
        started = time.process_time()
        labels = find(vectors)
        seconds[name] = round(time.process_time() - started, 2)
        rand[name] = round(float(adjusted_rand_score(owner, labels)), 3)
    rows = [
        {
            "bench": f"topics: {name}",
            "n": n,
            "ours_s": seconds[name],
            "peer": PEER,
            "peer_s": seconds[PEER],
            "ratio": round(seconds[PEER] / seconds[name], 2),
            "ours_adjusted_rand": rand[name],
            "peer_adjusted_rand": rand[PEER],
        }
        for name in ("umap", "evoc")
    ]
    return _printed([*rows, stability(n)])


def stability(n: int) -> dict[str, Any]:
    """Adds 1 % new documents: how old labels change when the new are assigned, and when all are fitted again."""
    vectors, owner = planted(n + n // 100)
    old, fresh = vectors[:n], vectors[n:]
    model = cluster(old, TopicSettings(), seed=0)
    started = time.process_time()
    assigned, _ = assign(old, model, reach_of(old, 1), fresh)
    seconds = time.process_time() - started
    anew = ours(vectors, "umap")
    return {
        "bench": "topics: 1 % new, assigned",
        "n": n,
        "ours_s": round(seconds, 4),
        "adjusted_rand_of_old": 1.0,
        "adjusted_rand_of_old_if_fitted_anew": round(float(adjusted_rand_score(model.labels, anew[:n])), 3),
        "adjusted_rand_of_new": round(float(adjusted_rand_score(owner[n:], assigned.labels)), 3),
    }


def fit(n: int) -> list[dict[str, Any]]:
    """One fit of the default engine in a process of its own."""
    vectors, owner = planted(n)
    started, began = time.process_time(), time.perf_counter()
    labels = ours(vectors, "umap")
    row = {
        "bench": "topics: one fit, compiling included",
        "n": n,
        "ours_s": round(time.process_time() - started, 1),
        "wall_s": round(time.perf_counter() - began, 1),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
        "adjusted_rand": round(float(adjusted_rand_score(owner, labels)), 3),
    }
    return _printed([row])


def purity(folders: list[str]) -> list[dict[str, Any]]:
    """Share of images whose topic is mostly of their set, by the embedded embedder; outliers count as wrong."""
    names, vectors = _embedded(folders)
    sets, owner = np.unique(names, return_inverse=True)
    return _printed([_purity(name, ours(vectors, name), owner, len(sets)) for name in ("umap", "evoc")])


def _purity(engine: str, labels: Labels, owner: npt.NDArray[np.int64], sets: int) -> dict[str, Any]:
    counts = np.zeros((labels.max() + 1, sets), int)
    np.add.at(counts, (labels[labels >= 0], owner[labels >= 0]), 1)
    inside = int((labels >= 0).sum())
    return {
        "bench": f"topics of real images: {engine}",
        "n": len(labels),
        "topics": len(counts),
        "outliers": len(labels) - inside,
        "purity": round(int(counts.max(axis=1).sum()) / len(labels), 3),
        "purity_without_outliers": round(int(counts.max(axis=1).sum()) / max(1, inside), 3),
    }


def _embedded(folders: list[str]) -> tuple[list[str], Vectors]:
    """The folder and the unit vector of every image."""
    from tasks.images.decode import open_image
    from tasks.providers import Providers

    embedder = Providers()["image_embedding"]
    files = [path for folder in folders for path in sorted(Path(folder).rglob("*")) if path.suffix.lower() in SUFFIXES]
    vectors = [
        vector
        for start in range(0, len(files), BATCH)
        for vector in embedder.embed_images([open_image(path.read_bytes()) for path in files[start : start + BATCH]])
    ]
    stacked = np.array(vectors, np.float32)
    named = {path: folder for folder in folders for path in files if path.is_relative_to(folder)}
    return [named[path] for path in files], stacked / np.linalg.norm(stacked, axis=1, keepdims=True)


def mates(data: str, sets: Sequence[str] = tuple(MATES)) -> list[dict[str, Any]]:
    """Share of prompts whose nearest is of their class, by the embedded encoder and TF-IDF, and CPU ms a prompt.

    Sets of the shared data: clusters of Arena-Hard, families of VisIT-Bench, and questions in 12 languages, where the
    nearest English prompt should be the same question. Halves are of the classes, by hash.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    from tasks.providers import Providers

    encoder, tf_idf = Providers()["text_embedding"], TfidfVectorizer(sublinear_tf=True, stop_words="english")
    encoder.embed_texts(["loads the weights"])
    ways = {encoder.version: encoder.embed_texts, "TF-IDF": lambda texts: tf_idf.fit_transform(texts).toarray()}
    found = []
    for name in sets:
        file, text, kind = MATES[name]
        rows = [json.loads(line) for line in (Path(data) / file).read_text("utf-8").splitlines()]
        texts, classes = [row[text] for row in rows], np.array([str(row[kind]) for row in rows])
        english = np.array([row.get("lang") == "en" for row in rows])
        for engine, embed in ways.items():
            start = time.process_time()
            vectors = np.asarray(embed(texts))
            seconds = time.process_time() - start
            right = _mate_found(vectors, classes, english)
            halves = np.array([hashlib.sha256(each.encode()).digest()[0] % 2 for each in classes])
            about = {"bench": f"topics: nearest prompt is of the class, {name}", "engine": engine, "n": len(texts)}
            shares = {f"half_{n}": round(float(np.nanmean(right[halves == n])), 3) for n in (0, 1)}
            share, cpu_ms = round(float(np.nanmean(right)), 3), round(1e3 * seconds / len(texts), 2)
            found.append(about | {"share": share, **shares, "cpu_ms": cpu_ms})
    return _printed(found)


def _mate_found(vectors: Vectors, classes: npt.NDArray[np.str_], english: npt.NDArray[np.bool_]) -> Vectors:
    """float32 (n,): 1 where the nearest other row is of the class.

    If rows are English, the nearest of these counts, and they are NaN themselves.
    """
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -1)
    if english.any():
        cosines[:, ~english] = -1
    right = (classes[cosines.argmax(axis=1)] == classes).astype(np.float32)
    return np.where(english, np.float32(np.nan), right)


def _printed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for row in rows:
        print(json.dumps(row), flush=True)
    return rows


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["fit", count]:
            fit(int(count))
        case ["mates", data]:
            mates(data)
        case ["purity", *given]:
            purity(given)
        case arguments:
            run(int(arguments[0]) if arguments else SIZE)
