"""Figures of the texts of benchmarks made on demand, with and without the graph of words (AutoBench-V Fig. 10 to 12).

How alike descriptions are, where they lie in a plane, and the words of descriptions and questions. Likeness and map are
of all descriptions and show no text; words are those of kept items alone.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.benches.generated import GeneratedDescription, GeneratedItem
from schemas.errors import BadInput
from tasks.generated_bench.bench_state import BenchState, read_bench
from tasks.generated_bench.descriptions import WordGraph
from tasks.generated_bench.items import kept_items
from tasks.generated_bench.results.figures import ALL_LEVELS, likeness_by_level
from tasks.generated_bench.wordings import words_of
from tasks.providers.capabilities import TextEmbedder
from tasks.report.boards import rounded_table
from tasks.report.figures import line_chart, paired_bars, point_panels
from tasks.report.page import Part, part
from tasks.storage.tables import Store

FIGURE_WORDS_MAX = 20
"""Most words of a figure; its table lists all."""
_PERPLEXITY = 30.0
"""t-SNE's usual one (scikit-learn); fewer points take a third of their number."""
_MADE_WITH = ("general", "fine", "per_aspect", "levels", "seed", "providers")
"""Fields that are equal in a fair comparison with and without the graph."""


@dataclass(frozen=True)
class BenchTexts:
    """The texts of one benchmark."""

    made: BenchState
    items: Sequence[GeneratedItem]
    """Kept items."""

    @property
    def graph(self) -> str:
        """`with` or `without`: whether words that many descriptions share were kept out of later ones."""
        return "with" if self.made.bench.graph else "without"

    @property
    def title(self) -> str:
        """Name on a figure."""
        return f"{self.made.bench.bench}, {self.graph} the graph"

    @property
    def descriptions(self) -> list[GeneratedDescription]:
        """All descriptions, also of items that were dropped."""
        return [progress.description for progress in self.made.progress]

    @property
    def columns(self) -> list[pl.Expr]:
        """Columns `bench` and `graph` of every table."""
        return [pl.lit(self.made.bench.bench).alias("bench"), pl.lit(self.graph).alias("graph")]


def bench_texts(store: Store, benches: Sequence[str]) -> list[BenchTexts]:
    """The texts of benchmarks of one capability. Raises BadInput, also as `kept_items` does."""
    if again := next((name for name, count in Counter(benches).items() if count > 1), None):
        raise BadInput(f"--bench {again!r} is given twice; name another one of the same capability")
    texts = [BenchTexts(read_bench(store, name), kept_items(store, name).items) for name in benches]
    for one, other in pairwise(texts):
        if one.made.capability != other.made.capability:
            raise BadInput(
                f"--bench {other.made.bench.bench!r}: it tests another capability than {one.made.bench.bench!r}"
            )
    return texts


def unlike(texts: Sequence[BenchTexts]) -> list[str]:
    """Sentences about a comparison with and without the graph: what it lacks."""
    lacking = []
    if len({bench_texts.graph for bench_texts in texts}) == 1:
        setting = "no" if texts[0].made.bench.graph else "yes"
        lacking.append(
            f"every benchmark here was made {texts[0].graph} the graph of words; to compare, make one by `curate "
            f"bench generate` with --set generate.graph={setting}, and give both as --bench"
        )
    differing = [
        name for name in _MADE_WITH if len({repr(getattr(bench_texts.made.bench, name)) for bench_texts in texts}) > 1
    ]
    if differing:
        lacking.append(f"they differ in {', '.join(differing)}, too: the graph alone does not explain a difference")
    return lacking


def text_parts(texts: Sequence[BenchTexts], embedder: TextEmbedder) -> Iterator[Part]:
    """The four figures with their tables; those of descriptions only where there are two."""
    vectors = {bench_texts.title: _vectors(bench_texts.descriptions, embedder) for bench_texts in texts}
    yield _likeness(texts, vectors, embedder.version)
    if sum(map(len, vectors.values())) > 1:
        yield _map(texts, vectors, embedder.version)
    yield _words(
        "description_words", texts, {bench_texts.title: _words_of_descriptions(bench_texts) for bench_texts in texts}
    )
    yield _words(
        "question_words", texts, {bench_texts.title: _words_of_questions(bench_texts.items) for bench_texts in texts}
    )


def _vectors(descriptions: Sequence[GeneratedDescription], embedder: TextEmbedder) -> npt.NDArray[np.float32]:
    return np.asarray(embedder.embed_texts([description.description for description in descriptions]), np.float32)


def _likeness(texts: Sequence[BenchTexts], vectors: Mapping[str, npt.NDArray[np.float32]], embedder: str) -> Part:
    tables = {
        bench_texts.title: likeness_by_level(bench_texts.made, vectors[bench_texts.title]) for bench_texts in texts
    }
    table = pl.concat(tables[bench_texts.title].select(*bench_texts.columns, pl.all()) for bench_texts in texts)
    # levels of any benchmark, easiest first, and all of them last
    levels = [*dict.fromkeys(table.filter(pl.col("level") != ALL_LEVELS)["level"]), ALL_LEVELS]
    cosines = {title: dict(rows.select("level", "mean_cosine").iter_rows()) for title, rows in tables.items()}
    series = {title: [by_level.get(level) for level in levels] for title, by_level in cosines.items()}
    figure = line_chart(levels, series, "mean cosine", breaks=[len(levels) - 1])
    return part("description_likeness", rounded_table(table, 4), figure, embedder=embedder)


def _map(texts: Sequence[BenchTexts], vectors: Mapping[str, npt.NDArray[np.float32]], embedder: str) -> Part:
    positions = _in_plane(np.concatenate([*vectors.values()]))
    ends = np.cumsum([len(rows) for rows in vectors.values()])
    panels = dict(zip(vectors, np.split(positions, ends[:-1]), strict=True))
    levels = {
        bench_texts.title: [description.level for description in bench_texts.descriptions] for bench_texts in texts
    }
    aspects = {
        bench_texts.title: [description.aspect for description in bench_texts.descriptions] for bench_texts in texts
    }
    tables = []
    for bench_texts in texts:
        x, y = panels[bench_texts.title].T.astype(np.float64)
        columns = {"aspect": aspects[bench_texts.title], "level": levels[bench_texts.title], "x": x, "y": y}
        tables.append(pl.DataFrame(columns).select(*bench_texts.columns, pl.all()))
    names = [*dict.fromkeys(level for bench_texts in texts for level in bench_texts.made.bench.levels)]
    figure = point_panels(names, panels, levels)
    return part("description_map", rounded_table(pl.concat(tables), 3), figure, embedder=embedder)


def _in_plane(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Positions by t-SNE, float32 (n, 2), the same for the same vectors; n is at least 2."""
    from sklearn.manifold import TSNE  # slow to import

    perplexity = min(_PERPLEXITY, (len(vectors) - 1) / 3)
    layout = TSNE(perplexity=perplexity, metric="cosine", init="random", random_state=0, n_jobs=1)
    return np.asarray(layout.fit_transform(vectors), np.float32)


def _words_of_descriptions(texts: BenchTexts) -> pl.DataFrame:
    """word, neighbours, items and share of the topic and key words of kept items' descriptions."""
    kept, graph, words = {item.description_id for item in texts.items}, WordGraph(), list[set[str]]()
    for description in texts.descriptions:
        if description.description_id in kept:
            graph.add(description.topic_word, description.key_words)
            words.append({description.topic_word, *description.key_words})
    neighbours = pl.col("word").replace_strict(graph.neighbours(), default=0, return_dtype=pl.Int64)
    return _counted(words).with_columns(neighbours=neighbours)


def _words_of_questions(items: Sequence[GeneratedItem]) -> pl.DataFrame:
    """word, items and share of the words of questions, without English stop words."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS  # slow to import

    return _counted([{*words_of(item.question)} - ENGLISH_STOP_WORDS for item in items])


def _counted(words: Sequence[Collection[str]]) -> pl.DataFrame:
    """word, items that have it, and their share, 0 to 1. `words`: those of each item, each once."""
    counts = Counter(word for words_of_item in words for word in words_of_item)
    rows = [(word, count, count / len(words)) for word, count in counts.items()]
    return pl.DataFrame(rows, {"word": pl.String, "items": pl.Int64, "share": pl.Float64}, orient="row")


def _words(key: str, texts: Sequence[BenchTexts], counted: Mapping[str, pl.DataFrame]) -> Part:
    """A figure of the words that most texts of all benchmarks have, and the table of all words."""
    tables = [counted[bench_texts.title].select(*bench_texts.columns, pl.all()) for bench_texts in texts]
    table = pl.concat(tables).sort("bench", "items", "word", descending=[False, True, False])
    # words by the sum of their shares in all benchmarks
    by_share = table.group_by("word").agg(pl.col("share").sum()).sort("share", "word", descending=[True, False])
    words = by_share["word"].head(FIGURE_WORDS_MAX).to_list()
    shares = {title: dict(rows.select("word", "share").iter_rows()) for title, rows in counted.items()}
    percent = {title: [100 * share.get(word, 0.0) for word in words] for title, share in shares.items()}
    return part(key, rounded_table(table, 4), paired_bars(words, percent, "% of items", digits=1))
