"""Purity of the topics of real pictures against the sets they come from: `python -m benchmarks.topics_purity DIR…`.

Every folder is a set; its pictures are embedded by the embedded embedder. Purity is the share of pictures whose topic
is mostly of their set; outliers count as wrong.
"""

import json
import sys
from pathlib import Path

import numpy as np

from schemas.settings import TopicSettings
from tasks.pixels.pictures import PictureRejected, open_picture
from tasks.providers import Providers
from tasks.sample.clusters import cluster

SUFFIXES = {".png", ".jpg", ".jpeg", ".webp"}
BATCH = 32


def main(folders: list[str]) -> None:
    """Print one JSON object."""
    embedder = Providers()["image_embedding"]
    names, vectors = [], []
    for folder in map(Path, folders):
        files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
        for start in range(0, len(files), BATCH):
            pictures = []
            for path in files[start : start + BATCH]:
                try:
                    pictures.append(open_picture(path.read_bytes()))
                except PictureRejected as error:
                    print(f"{path.name}: {error}", file=sys.stderr)
            vectors += list(embedder.embed_images(pictures))
            names += [folder.name] * len(pictures)
        print(f"{folder.name}: {names.count(folder.name)}", file=sys.stderr, flush=True)
    stacked = np.array(vectors, np.float32)
    stacked /= np.linalg.norm(stacked, axis=1, keepdims=True)
    sets, owner = np.unique(names, return_inverse=True)
    labels = cluster(stacked, TopicSettings(), seed=0).labels
    counts = np.zeros((labels.max() + 1, len(sets)), int)
    np.add.at(counts, (labels[labels >= 0], owner[labels >= 0]), 1)
    inside = int((labels >= 0).sum())
    row = {
        "bench": "topics of real pictures",
        "n": len(names),
        "sets": {str(name): names.count(str(name)) for name in sets},
        "topics": len(counts),
        "outliers": len(names) - inside,
        "purity": round(int(counts.max(axis=1).sum()) / len(names), 3),
        "purity_without_outliers": round(int(counts.max(axis=1).sum()) / max(1, inside), 3),
    }
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
