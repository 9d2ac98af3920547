"""Describes topics: class TF-IDF words and central documents (as BERTopic defines them), names, and the merge tree.

Personal data is kept out of names.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, count

import numpy as np
import polars as pl

from schemas.items.topic import NAMELESS, KeptTopicName, TopicMerge
from schemas.signals import PiiSpan
from tasks.providers.capabilities import Failed, PiiFinder, TopicEvidence, TopicNamer
from tasks.runtime.arrays import RowNumbers, Vectors
from tasks.runtime.untrusted import one_line
from tasks.storage.queries.bench import fit_in_use
from tasks.storage.queries.signals import Versions, signal_values
from tasks.storage.tables import Store, frame_schema
from tasks.topics.engines import ClusterLabels
from tasks.topics.fit import Fit
from tasks.topics.words import PEOPLE_MIN, shared_words

WORDS, EXEMPLARS_A_TOPIC = 10, 5
TOPIC_NAMES = "topic_names"
KEYWORDS_A_NAME = 4
NAME_CHARACTERS_MAX = 60
SEARCHED = ("searched_by", "personal")
"""Columns of `topic_names` about a search of the name for personal data."""
OUTLIERS_NAME = "outliers"
LABEL_SHARE_MIN = 0.5
"""A tag or category describes a topic when this share of its documents has it."""


def topic_evidence(documents: pl.DataFrame, labels: ClusterLabels, vectors: Vectors) -> list[TopicEvidence]:
    """Words, exemplars and tags of topics 0, 1, …; empty for a topic without documents. Outliers are ignored.

    Words are those of the topic's most common language.

    `documents` has, of each row of `vectors` float32 (n, dimension): text, person (who wrote it), language (ISO 639),
    and tags (a list of what taggers say of it). Where all documents are of one person, each counts as another's.
    """
    people = documents["person" if documents["person"].n_unique() > 1 else "text"]
    topics = [np.flatnonzero(labels == n) for n in range(int(labels.max(initial=-1)) + 1)]
    texts, languages = documents["text"], documents["language"]
    spoken = [_main_language(languages, rows) for rows in topics]
    keywords = _class_tf_idf([shared_words(texts[rows], people[rows], languages[rows]) for rows in spoken])
    exemplars = [_exemplars(texts, vectors, rows) for rows in topics]
    tags = [_common_tags(documents["tags"][rows]) for rows in topics]
    prompts = [_shared_prompt(texts[rows], people[rows]) for rows in topics]
    return [TopicEvidence(*fields) for fields in zip(keywords, exemplars, tags, prompts, strict=True)]


def _shared_prompt(texts: pl.Series, people: pl.Series) -> str:
    """The prompt that most people wrote word for word; empty if fewer did than a word needs, and for long ones."""
    lines = texts.str.replace_all(r"\s+", " ").str.strip_chars()
    written = pl.DataFrame({"line": lines, "person": people})
    # A row is a short prompt with a word in it, and the number of people who wrote it.
    short = written.filter(
        pl.col("line").str.len_chars() <= NAME_CHARACTERS_MAX, pl.col("line").str.contains(r"\pL\pL")
    )
    counts = short.group_by("line").agg(people=pl.col("person").n_unique())
    shared = counts.filter(pl.col("people") >= PEOPLE_MIN).sort("people", "line", descending=[True, False])
    return str(shared["line"][0]) if shared.height else ""


def _main_language(languages: pl.Series, rows: RowNumbers) -> RowNumbers:
    """The rows in their most common known language; all rows when none is known."""
    known_languages = languages[rows].replace("unknown", None).drop_nulls()
    return rows[(languages[rows] == known_languages.mode().min()).to_numpy()] if len(known_languages) else rows


def _class_tf_idf(topics: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Top words of each topic by (term frequency in the topic) * log(1 + mean words per topic / total frequency)."""
    if not any(topics):
        return [() for _ in topics]
    from sklearn.feature_extraction.text import (
        CountVectorizer,
    )  # slow to import, and a night without new topics needs none

    vectorizer = CountVectorizer(analyzer=lambda topic: topic)
    counts = vectorizer.fit_transform(topics).tocsr()
    names = vectorizer.get_feature_names_out()
    rarity = np.log1p(counts.sum() / len(topics) / np.asarray(counts.sum(axis=0)).ravel())
    words_of_topics = []
    for row in counts:
        weights = row.data / max(1, row.data.sum()) * rarity[row.indices]
        strongest = row.indices[np.lexsort((row.indices, -weights))[:WORDS]]
        words_of_topics.append(tuple(str(word) for word in names[strongest]))
    return words_of_topics


def _common_tags(tags: pl.Series) -> tuple[str, ...]:
    """Tags of at least half of the documents, the most frequent first."""
    # One row is one tag, and how many of the documents have it.
    counted = (
        pl.DataFrame({"tag": tags.list.unique().explode().drop_nulls()})
        .group_by("tag")
        .len()
        .sort("len", "tag", descending=[True, False])
    )
    return tuple(counted.filter(pl.col("len") >= LABEL_SHARE_MIN * len(tags))["tag"])


def _exemplars(texts: pl.Series, vectors: Vectors, members: RowNumbers) -> tuple[str, ...]:
    """Distinct texts of the documents nearest to the topic's centroid."""
    if not len(members):
        return ()
    cosine = vectors[members] @ vectors[members].mean(axis=0)
    nearest = members[np.argsort(-cosine, kind="stable")]
    return tuple(texts[nearest].unique(maintain_order=True)[:EXEMPLARS_A_TOPIC])


def topic_names(
    store: Store,
    evidence: Sequence[TopicEvidence],
    ids: pl.Series,
    labels: ClusterLabels,
    namer: TopicNamer,
    stay: Mapping[int, str] | None = None,
) -> dict[int, str]:
    """Topic -> name, including -1. `ids` and `labels` are those of the fitted documents that are kept.

    Names are cached in the table `topic_names` by a hash of the evidence, so the provider is asked once. The row lists
    the topic's documents, so that a takedown of one of them removes it. A topic that the provider failed to name is
    named by its words or tags and asked again on the next run; a topic without documents gets no name. No two names are
    equal and none has more than 60 characters. `stay` are names of topics whose fit stays, which are taken as they are;
    then the rows of the table stay, too, for a policy that is undone.
    """
    kept = store.read(TOPIC_NAMES).filter(version=namer.version)
    kept_names = dict(kept.select("evidence", "name").iter_rows())
    topics = set(labels.tolist()) - (stay or {}).keys()
    keys = {n: _key(facts) for n, facts in enumerate(evidence) if n in topics}
    fresh = [n for n, key in keys.items() if key not in kept_names]
    answers = namer.name_topics([evidence[n] for n in fresh]) if fresh else []
    for n, name in zip(fresh, answers, strict=True):
        if not isinstance(name, Failed) and name.strip():
            kept_names[keys[n]] = name
    names = {-1: OUTLIERS_NAME, **(stay or {})}
    for n, key in sorted(keys.items()):
        names[n] = _unlike(
            names.values(),
            kept_names.get(key) or evidence[n].name_of(evidence[n].keywords[:KEYWORDS_A_NAME]),
            n,
            evidence[n].keywords,
        )
    rows = [
        {
            "evidence": key,
            "version": namer.version,
            "name": kept_names[key],
            "document_ids": ids.filter(labels == n),
            "shown": names[n],
        }
        for n, key in keys.items()
        if key in kept_names
    ]
    of_now = pl.DataFrame(rows, schema=frame_schema(KeptTopicName)).drop(*SEARCHED)
    searched = kept.select("evidence", "shown", *SEARCHED)
    of_now = of_now.join(searched, on=["evidence", "shown"], how="left", maintain_order="left")
    if stay is not None:
        of_now = pl.concat([of_now, kept.join(of_now, on="evidence", how="anti").select(of_now.columns)])
    if not of_now.equals(kept):
        store.replace(TOPIC_NAMES, of_now)
    return names


def names_that_stay(store: Store, fit: Fit, kept: pl.Series, evidence: Sequence[TopicEvidence]) -> dict[int, str]:
    """Topic -> name of the topics of a fit that stays, as far as the name says nothing of what is not kept any more.

    It does not if all fitted documents are `kept`, or if each of its words is among the evidence, which is of these.
    """
    past = fit_in_use(store)
    if past is None or past.model != fit.about.model:
        return {}
    members = store.read("topics", ["document_id", "topic", "name"])
    fitted = members.join(fit.table.select("document_id", fitted_topic="topic"), on="document_id")
    if (fitted["topic"] != fitted["fitted_topic"]).any():  # a run was killed before it wrote the topics of this fit
        return {}
    # One row is one topic with its name; the table has a row a document, and outliers are no topic.
    named = members.select("topic", "name").unique().filter(pl.col("topic") >= 0).sort("topic")
    lost = set(fit.table.filter(~pl.col("document_id").is_in(kept.implode()))["topic"])
    stay = {}
    for topic, name in named.iter_rows():
        words = {*evidence[topic].keywords, *evidence[topic].tags} if topic < len(evidence) else set[str]()
        if not re.fullmatch(NAMELESS, name) and (topic not in lost or words.issuperset(name.split(", "))):
            stay[topic] = name
    return stay


def _unlike(others: Collection[str], name: str, topic: int, more_words: Sequence[str]) -> str:
    """The name, with another of the topic's words or at last the topic's number if it is taken."""
    words = (f", {word}" for word in more_words if word not in name and len(word) < NAME_CHARACTERS_MAX // 2)
    numbers = (f" ({number})" for number in count(topic))
    longer_names = (f"{one_line(name, NAME_CHARACTERS_MAX - len(end))}{end}" for end in chain([""], words, numbers))
    return next(longer for longer in longer_names if longer not in others)


def _key(evidence: TopicEvidence) -> str:
    # The prompt names a topic that has neither words nor tags; of others it would only have a provider asked again.
    prompts = [] if evidence.keywords or evidence.tags else [evidence.prompt]
    content = json.dumps([evidence.keywords, evidence.exemplars, evidence.tags, *prompts]).encode()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def topic_tree(vectors: Vectors, labels: ClusterLabels) -> pl.DataFrame:
    """Rows of the `topic_tree` table: average linkage on cosine distances between topic centroids.

    `vectors` float32 (n, dimension) and `labels` int32 (n,) are of the fitted documents. With k topics, merge i makes
    node k + i, as in scipy. Topics that takedowns left without documents count in k but are not in the tree.
    """
    count = int(labels.max(initial=-1)) + 1
    topics = np.unique(labels[labels >= 0])
    sizes = dict(enumerate(np.bincount(labels[labels >= 0], minlength=count).tolist()))
    rows: list[tuple[int, int, int, float, int]] = []
    if len(topics) > 1:
        from scipy.cluster.hierarchy import linkage  # slow to load

        centroids = np.stack([vectors[labels == topic].mean(axis=0, dtype=np.float64) for topic in topics])
        nodes = [*topics.tolist(), *range(count, count + len(topics) - 1)]
        for node, merge in enumerate(linkage(centroids, method="average", metric="cosine"), count):
            left, right = sorted(nodes[int(place)] for place in merge[:2])
            sizes[node] = sizes[left] + sizes[right]
            rows.append((node, left, right, float(merge[2]), sizes[node]))
    return pl.DataFrame(rows, schema=frame_schema(TopicMerge), orient="row")


def impersonal_prompts(store: Store, documents: pl.DataFrame, versions: Versions) -> pl.Series:
    """Users' messages of each document without the personal data found in them; unsearched messages are left out."""
    turn = pl.col("turns").struct
    # One row is one message of a user, with the number of its document.
    messages = (
        documents.with_row_index("row").select("row", "turns").explode("turns").filter(turn.field("role") == "user")
    )
    messages = messages.select("row", text=turn.field("content"), content_id=turn.field("text_id"))
    personal_spans = signal_values(store, "text_pii", versions["text_pii"], ["spans"], messages["content_id"].unique())
    searched = messages.join(personal_spans, on="content_id", how="inner", maintain_order="left")
    texts = [_without(text, spans) for text, spans in searched.select("text", "spans").iter_rows()]
    prompts = (
        searched.with_columns(text=pl.Series(texts, dtype=pl.String))
        .group_by("row")
        .agg(pl.col("text").str.join("\n\n"))
    )
    rows = pl.DataFrame({"row": range(documents.height)}, schema={"row": messages.schema["row"]})
    return rows.join(prompts, on="row", how="left", maintain_order="left")["text"].fill_null("")


def _without(text: str, spans: list[Mapping[str, int]]) -> str:
    pieces, end = list[str](), 0
    for span in sorted(spans, key=lambda spot: spot["start"]):
        pieces += [text[end : span["start"]], " "]
        end = max(end, span["end"])
    return "".join([*pieces, text[end:]])


def personal_names(store: Store, names: Mapping[int, str], finder: PiiFinder) -> set[int]:
    """The topics whose name holds personal data, or could not be searched for it.

    A name that a provider gave is searched once by each version of the finder: `topic_names` keeps the answer.
    A single word is no person here: lists of words (`giraffe, savanna`) look like lists of first names to the finder.
    Of what it takes for one person, each piece between commas counts for itself.
    """
    kept = store.read(TOPIC_NAMES)
    earlier_verdicts = dict(kept.filter(searched_by=finder.version).select("shown", "personal").iter_rows())
    fresh = sorted(set(names.values()) - earlier_verdicts.keys() - {OUTLIERS_NAME})
    answers = zip(fresh, finder.find_pii(fresh) if fresh else [], strict=True)
    new_verdicts = {name: _holds(name, spans) for name, spans in answers if not isinstance(spans, Failed)}
    if not kept.filter(pl.col("shown").is_in(list(new_verdicts))).is_empty():
        new = pl.col("shown").replace_strict(new_verdicts, default=None, return_dtype=pl.Boolean)
        by = pl.when(new.is_null()).then("searched_by").otherwise(pl.lit(finder.version))
        store.replace(TOPIC_NAMES, kept.with_columns(searched_by=by, personal=pl.coalesce(new, "personal")))
    return {
        topic
        for topic, name in names.items()
        if (earlier_verdicts | new_verdicts | {OUTLIERS_NAME: False}).get(name, True)
    }


def _holds(name: str, spans: Iterable[PiiSpan]) -> bool:
    matches = ((span.type, name[span.start : span.end]) for span in spans)
    return any(kind != "person" or any(" " in piece.strip() for piece in value.split(",")) for kind, value in matches)
