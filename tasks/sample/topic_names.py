"""Names of topics. What a provider was shown once it is never shown, nor paid, again."""

import hashlib
import json
from collections.abc import Sequence

import polars as pl

from schemas.topic import TopicName
from tasks.providers.capabilities import Failed, TopicEvidence, TopicNamer
from tasks.sample.engines import Labels
from tasks.tables import Store, frame_schema

TABLE = "topic_names"
KEYWORDS = 4
OUTLIERS = "outliers"


def topic_names(
    store: Store, evidence: Sequence[TopicEvidence], ids: pl.Series, labels: Labels, namer: TopicNamer
) -> dict[int, str]:
    """Topic -> name, -1 included; `ids` and `labels` are those of the fitted documents.

    The table `topic_names` keeps a name with a hash of its evidence and with the topic's documents, so that a
    takedown of one of them removes it. A topic that the provider could not name has its words, and is asked again;
    one that a takedown left without a document has no name.
    """
    kept = store.read(TABLE).filter(version=namer.version)
    known = dict(kept.select("evidence", "name").iter_rows())
    topics = set(labels.tolist())
    keys = {n: _key(each) for n, each in enumerate(evidence) if n in topics}
    fresh = [n for n, key in keys.items() if key not in known]
    answers = namer.name_topics([evidence[n] for n in fresh]) if fresh else []
    known |= {keys[n]: name for n, name in zip(fresh, answers, strict=True) if not isinstance(name, Failed)}
    rows = [
        {"evidence": key, "version": namer.version, "name": known[key], "document_ids": ids.filter(labels == n)}
        for n, key in keys.items()
        if key in known
    ]
    if fresh or len(rows) != kept.height:
        store.replace(TABLE, pl.DataFrame(rows, schema=frame_schema(TopicName)))
    names = {n: known.get(key) or ", ".join(evidence[n].keywords[:KEYWORDS]) or "untitled" for n, key in keys.items()}
    return names | {-1: OUTLIERS}


def _key(evidence: TopicEvidence) -> str:
    content = json.dumps([evidence.keywords, evidence.exemplars]).encode()
    return hashlib.blake2b(content, digest_size=16).hexdigest()
