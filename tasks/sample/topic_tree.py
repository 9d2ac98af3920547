"""Which topics are alike: the tree by which they merge, from their centroids."""

import numpy as np
import polars as pl
from scipy.cluster.hierarchy import linkage

from tasks.sample.engines import Labels, Vectors


def topic_tree(vectors: Vectors, labels: Labels) -> pl.DataFrame:
    """Rows of the `topic_tree` table: average linkage of the cosine distances between the centroids of topics.

    `vectors` float32 (n, dimension) of the fitted documents, `labels` int32 (n,). Merge i makes the node `topics` + i,
    as in scipy; topics that a takedown left without a document have a number and no place in the tree.
    """
    count = int(labels.max(initial=-1)) + 1
    topics = np.unique(labels[labels >= 0])
    columns = {"node": pl.Int32, "left": pl.Int32, "right": pl.Int32, "distance": pl.Float32, "documents": pl.Int64}
    if len(topics) < 2:
        return pl.DataFrame(schema=columns)
    centroids = np.stack([vectors[labels == topic].mean(axis=0, dtype=np.float64) for topic in topics])
    merges = linkage(centroids, method="average", metric="cosine")
    nodes = np.concatenate([topics, count + np.arange(len(merges))])
    merges[:, :2] = nodes[merges[:, :2].astype(int)]
    sizes = list(np.bincount(labels[labels >= 0], minlength=count))
    for left, right in merges[:, :2].astype(int):
        sizes.append(sizes[left] + sizes[right])
    rows = [
        (count + place, int(min(left, right)), int(max(left, right)), float(distance), int(sizes[count + place]))
        for place, (left, right, distance, _) in enumerate(merges)
    ]
    return pl.DataFrame(rows, schema=columns, orient="row")
