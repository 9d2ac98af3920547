"""The listing: one row for each conversation, battle and benchmark prompt that can be shown, newest first."""

import hashlib
from collections.abc import Callable, Mapping
from itertools import chain
from typing import NamedTuple

import polars as pl

from schemas.items.conversation import UNDATED_BEFORE
from schemas.tags import TAGS
from tasks.explore.masking import NOT_SEARCHED, masked_text
from tasks.explore.tolerant import TolerantTables
from tasks.storage.content_id import Distinct
from tasks.storage.parquet import compact
from tasks.storage.queries.conversation_features import english_name, marks
from tasks.storage.queries.repeated_values import with_repeats

_CONVERSATION = [
    "conversation_id", "model", "turns", "num_turns", "prompt_id", "document_id", "image_ids", "tstamp", "day",
]  # fmt: skip
_SECONDS = pl.when(pl.col("tstamp") >= UNDATED_BEFORE).then(pl.col("tstamp").dt.timestamp("us").cast(pl.Float64) / 1e6)
_LOGGED_DAY = pl.when(pl.col("tstamp") >= UNDATED_BEFORE).then(pl.col("day").cast(pl.String))
IMAGE_ID = r"^([0-9a-f]{32})\.[a-z]+$"
"""Names of other forms, which no release of ours has, name no image: they become addresses and file names."""
ROWS = 16_384
"""Conversations whose texts are in memory at a time."""
SNIPPET_CHARACTERS = 280
"""Characters of a prompt that a card shows."""
SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "kind": pl.String,
    "id": pl.String,
    "models": pl.List(pl.String),
    "vote": pl.String,
    "language": pl.String,
    "topic": pl.String,
    "tags": pl.List(pl.String),
    "preset": pl.String,
    "day": pl.String,
    "bench": pl.String,
    "outcome": pl.String,
    "reasons": pl.List(pl.String),
    "image_ids": pl.List(pl.String),
    "turns": pl.Int64,
    "tstamp": pl.Float64,
    "x": pl.Float32,
    "y": pl.Float32,
    "topic_id": pl.Int32,
    "prompt": pl.String,
    "answers": pl.String,
    "place": pl.Int32,
}
"""Columns that sources fill in; `prompt` and `answers` are masked texts, `place` is where the source finds the row."""
IN_BENCH, NOT_IN_BENCH = "in the benchmark", "not in it"
NO_TOPIC, OUTLIERS = "no topic", -1
UPLOAD, EXAMPLE = "upload", "example image"
CONVERSATION, BATTLE, PROMPT, FAILURE = "conversation", "battle", "prompt", "failed prompt"
SIDE = "side of a battle"
"""Kind of a conversation that a battle shows too; it is listed only when it is asked for."""


def kinds_name(kind: str) -> str:
    """The name of several items of a kind."""
    return "sides of battles" if kind == SIDE else f"{kind}s"


class Facet(NamedTuple):
    """One column by which the listing is filtered and counted."""

    name: str
    """Parameter in links."""
    title: str
    column: str
    many: bool = False
    """Whether a row has a list of values."""


KIND = Facet("kind", "Kind", "kind")
FACETS = (
    Facet("outcome", "Decision", "outcome"),
    Facet("reason", "Reason", "reasons", many=True),
    KIND,
    Facet("model", "Model", "models", many=True),
    Facet("vote", "Vote", "vote"),
    Facet("topic", "Topic", "topic"),
    Facet("language", "Language", "language"),
    Facet("tag", "Tag", "tags", many=True),
    Facet("preset", "Image from", "preset"),
    Facet("bench", "Benchmark", "bench"),
    Facet("day", "Day", "day"),
)


def item_key(kind: str, item_id: str) -> str:
    """16 hex digits that name an item in links and file names; ids of logs may hold anything."""
    kind = CONVERSATION if kind == SIDE else kind
    return hashlib.blake2b(f"{kind} {item_id}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def finished(rows: list[pl.DataFrame]) -> pl.DataFrame:
    """The listing from rows with the columns of `SCHEMA`; those that are missing are null.

    Adds `key`, `snippet` and `searched` (prompt and answers in lower case). Leaves `answers` and `prompt` out.
    """
    frames = [_typed(pl.DataFrame(schema=SCHEMA)), *map(_typed, rows)]
    whole = pl.concat(frames, how="diagonal").sort(
        "tstamp", "kind", "id", descending=[True, False, False], nulls_last=True
    )
    keys = [item_key(kind, item_id) for kind, item_id in whole.select("kind", "id").iter_rows()]
    names = [facet.column for facet in FACETS if not facet.many]
    lists = [facet.column for facet in FACETS if facet.many]
    return whole.with_columns(
        pl.col(names).cast(pl.Categorical()),
        pl.col(lists).fill_null([]).cast(pl.List(pl.Categorical())),
        pl.col("image_ids").fill_null([]),
        key=pl.Series(keys, dtype=pl.String),
    )


def _typed(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the types of `SCHEMA`, and `snippet` and `searched` in place of their texts."""
    typed = rows.with_columns(pl.col(name).cast(kind) for name, kind in SCHEMA.items() if name in rows.columns)
    answers = pl.col("answers").fill_null("") if "answers" in rows.columns else pl.lit("")
    return typed.with_columns(
        snippet=pl.col("prompt").str.head(SNIPPET_CHARACTERS),
        searched=pl.concat_str("prompt", pl.lit("\n"), answers).str.to_lowercase(),
    ).drop("prompt", "answers", strict=False)


def _marks(models: list[pl.Expr]) -> pl.Expr:
    """The `MARKS` of answers of these models."""
    flags = marks(models, pl.col("answers").fill_null(""))
    return pl.concat_list(pl.when(holds).then(pl.lit(name)) for name, holds in flags.items()).list.drop_nulls()


def with_marks(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the `MARKS` of their answers among `tags`."""
    both = [pl.col("models").list.first(), pl.col("models").list.last()]
    return rows.with_columns(tags=pl.concat_list(pl.col("tags").fill_null([]), _marks(both)))


def release_rows(config: str, rows: pl.DataFrame, points: pl.DataFrame) -> pl.DataFrame:
    """Rows of a row group of a configuration, with the paths of their images; `points` are those of the map."""
    listed = _row_of[config](rows, points)
    return with_marks(listed) if "answers" in listed.columns else listed


def _text(column: str, role: str | None = None) -> pl.Expr:
    turn = pl.element().struct
    chosen = pl.element() if role is None else pl.element().filter(turn.field("role") == role)
    return pl.col(column).list.eval(chosen.struct.field("content")).list.join("\n\n")


_TAGS = pl.col("categories")
_DAY = pl.from_epoch(pl.col("tstamp").cast(pl.Int64), "s").dt.date().cast(pl.String)
_EXAMPLE = pl.when("is_preset").then(pl.lit(EXAMPLE)).otherwise(pl.lit(UPLOAD))
_IMAGES = pl.col("images").list.eval(pl.element().struct.field("path").str.extract(IMAGE_ID)).list.drop_nulls()


def _tags(rows: pl.DataFrame) -> pl.Expr:
    names = rows["categories"].struct.fields
    told = [pl.when(_TAGS.struct.field(name)).then(pl.lit(name)) for name in names]
    return pl.concat_list(told).list.drop_nulls()


def _shared(rows: pl.DataFrame, key: str, kind: str, asked: str) -> dict[str, pl.Expr]:
    """Columns that all rows have; `asked` is the column with the user's messages."""
    shown = {"id": pl.col(key), "kind": pl.lit(kind), "tags": _tags(rows), "image_ids": _IMAGES}
    return shown | {"prompt": _text(asked, None if asked == "turns" else "user")}


def _placed(rows: pl.DataFrame, key: str, points: pl.DataFrame) -> pl.DataFrame:
    known = points.select(pl.col("id").alias(key), "x", "y", point_topic="topic_id")
    return rows.join(known, on=key, how="left", maintain_order="left")


def _chat(rows: pl.DataFrame, points: pl.DataFrame) -> pl.DataFrame:
    return _placed(rows, "conversation_id", points).select(
        *("language", "tstamp", "topic_id", "x", "y"),
        **_shared(rows, "conversation_id", CONVERSATION, "conversation"),
        models=pl.concat_list("model"),
        topic=pl.col("topic").fill_null(NO_TOPIC),
        preset=pl.coalesce("preset_dataset", _EXAMPLE),
        day=_DAY,
        bench=pl.lit(NOT_IN_BENCH),
        turns=pl.col("num_turns").cast(pl.Int64),
        answers=_text("conversation", "assistant"),
    )


def _battle(rows: pl.DataFrame, points: pl.DataFrame) -> pl.DataFrame:
    in_bench = pl.when("in_bench").then(pl.lit(IN_BENCH)).otherwise(pl.lit(NOT_IN_BENCH))
    return _placed(rows, "question_id", points).select(
        *("language", "tstamp", "x", "y"),
        **_shared(rows, "question_id", BATTLE, "conversation_a"),
        topic_id="point_topic",
        models=pl.concat_list("model_a", "model_b"),
        vote=pl.col("winner").replace("tie (bothbad)", "tie_bothbad"),
        preset=_EXAMPLE,
        day=_DAY,
        bench=in_bench,
        turns=pl.col("num_turns").cast(pl.Int64),
        answers=pl.concat_str(_text("conversation_a", "assistant"), pl.lit("\n"), _text("conversation_b", "assistant")),
    )


def _bench(rows: pl.DataFrame, points: pl.DataFrame) -> pl.DataFrame:
    return _placed(rows, "question_id", points).select(
        *("topic", "topic_id", "x", "y"),
        **_shared(rows, "question_id", PROMPT, "turns"),
        bench=pl.lit(IN_BENCH),
        turns=pl.lit(1, pl.Int64),
    )


def _failure(rows: pl.DataFrame, points: pl.DataFrame) -> pl.DataFrame:
    shared = _shared(rows, "question_id", FAILURE, "turns")
    return _placed(rows, "question_id", points).select("models", "x", "y", **shared, topic_id="point_topic")


_row_of: Mapping[str, Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame]] = {
    "chat": _chat,
    "battle": _battle,
    "bench": _bench,
    "failures": _failure,
}


def store_listing(tables: TolerantTables, searched: bool = False) -> pl.DataFrame:
    """The listing, without what is quarantined; only with `searched` it has that column, ten times all others."""
    votes = tables.read("battles", ["conversation_a", "conversation_b", "model_a", "model_b"])
    sides = [votes.select(conversation_id="conversation_a", other="model_b")]
    sides += [votes.select(conversation_id="conversation_b", other="model_a")]
    others = pl.concat(sides).unique("conversation_id")
    described = _described(tables, _conversations(tables, others, searched))
    outcomes = tables.read("decisions", ["item_kind", "item_id", "keep", "held", "reasons", "tags", "preset_dataset"])
    side = pl.col("conversation_id").is_in(others["conversation_id"].implode())
    kind = pl.when(side).then(pl.lit(SIDE)).otherwise(pl.lit(CONVERSATION))
    tags = {"tags": pl.concat_list("tags", "marks")}
    chats = _decided(described, outcomes.filter(item_kind="conversation"), "conversation_id").select(
        *_SHOWN, id="conversation_id", models=pl.concat_list("model"), kind=kind, **tags
    )
    battles = _decided(_battles(tables, described), outcomes.filter(item_kind="battle"), "battle_id").select(
        *_SHOWN, "vote", id="battle_id", models=pl.concat_list("model_a", "model_b"), kind=pl.lit(BATTLE), **tags
    )
    whole = finished([chats, battles])
    return whole if searched else whole.drop("searched")


_SHOWN = [
    "language", "topic", "topic_id", "x", "y", "preset", "bench", "image_ids", "prompt", "answers", "outcome",
    "reasons", "turns", "tstamp", "day", "place",
]  # fmt: skip


def _conversations(tables: TolerantTables, others: pl.DataFrame, searched: bool) -> pl.DataFrame:
    """Conversations that are not quarantined, with masked texts, `marks`, and the number of their part as `place`.

    `others` has the `other` model of sides of battles, for `battle_marks`. Texts are joined and masked some at a time,
    and kept whole only when `searched`. Raises StoreUnwell when the quarantine cannot be read.
    """
    quarantined = tables.store.read("quarantine", ["key"])["key"]
    spans, searched_texts = tables.latest("text_pii", ["spans"], strict=True), Distinct()
    searched_texts.add(spans["content_id"])
    found = spans.filter(pl.col("spans").list.len() > 0)
    parts = [(0, tables.store.empty("conversations", _CONVERSATION))]
    of_parts = (
        (n, some) for n, rows in tables.parts("conversations", _CONVERSATION) for some in rows.iter_slices(ROWS)
    )

    def told(number: int, rows: pl.DataFrame) -> pl.DataFrame:
        shown = rows.filter(~pl.col("conversation_id").is_in(quarantined.implode()))
        texts = _with_texts(shown, found, searched_texts).join(
            others, on="conversation_id", how="left", maintain_order="left"
        )
        own, both = _marks([pl.col("model")]), _marks([pl.col("model"), pl.col("other")])
        texts = texts.lazy().with_columns(marks=own, battle_marks=both, place=pl.lit(number, pl.Int32)).collect()
        some = {} if searched else {"prompt": pl.col("prompt").str.head(SNIPPET_CHARACTERS), "answers": pl.lit("")}
        return compact(texts.with_columns(**some).drop("other"))

    return pl.concat(told(number, rows) for number, rows in chain(parts, of_parts))


def _with_texts(conversations: pl.DataFrame, found: pl.DataFrame, searched: Distinct) -> pl.DataFrame:
    """`prompt` and `answers` in place of `turns`, masked; `found` has the `spans` of searched texts that have some."""
    turn = pl.col("turns").struct
    turns = conversations.select("conversation_id", "turns").explode("turns").drop_nulls("turns")
    turns = turns.select("conversation_id", turn.field("role"), turn.field("content"), turn.field("text_id"))
    turns = turns.join(found, left_on="text_id", right_on="content_id", how="left", maintain_order="left")
    holds, none = turns.drop_nulls("spans")["conversation_id"], pl.lit([], turns.schema["spans"])
    turns = turns.with_columns(searched=searched.hold(pl.col("text_id")))
    turns = turns.with_columns(spans=pl.when("searched").then(pl.col("spans").fill_null(none)))
    personal = turns.filter(pl.col("conversation_id").is_in(holds.implode())).unique(["conversation_id", "text_id"])
    turns = turns.join(_masked(personal), on=["conversation_id", "text_id"], how="left", maintain_order="left")
    known = pl.when("searched").then(pl.coalesce("masked", "content")).otherwise(pl.lit(f"[{NOT_SEARCHED}]"))
    asked = pl.col("role") == "user"
    texts = (
        turns.select("conversation_id", "role", text=known)
        .group_by("conversation_id", maintain_order=True)
        .agg(
            prompt=pl.col("text").filter(asked).str.join("\n\n"), answers=pl.col("text").filter(~asked).str.join("\n\n")
        )
    )
    return conversations.drop("turns").join(texts, on="conversation_id", how="left", maintain_order="left")


def _masked(personal: pl.DataFrame) -> pl.DataFrame:
    """conversation_id, text_id and masked text of conversations in which personal data was found."""
    rows = list[tuple[str, str, str]]()
    for name, text_ids, *said in personal.group_by("conversation_id").agg("text_id", "content", "spans").iter_rows():
        texts = list(zip(*said, strict=True))
        masks = [masked_text(text, spans) for (text, _), spans in zip(texts, with_repeats(texts), strict=True)]
        rows += [(name, *each) for each in zip(text_ids, masks, strict=True)]
    return pl.DataFrame(rows, dict.fromkeys(("conversation_id", "text_id", "masked"), pl.String), orient="row")


def _described(tables: TolerantTables, conversations: pl.DataFrame) -> pl.DataFrame:
    """Conversations with language, topic, tags and whether they are in the benchmark."""
    spoken = tables.latest("language", ["language"])
    languages = pl.Series([english_name(code) for code in spoken["language"]], dtype=pl.String)
    known = tables.latest("categories", TAGS)
    tags = known.select(
        "content_id", tags=pl.concat_list(pl.when(tag).then(pl.lit(tag)) for tag in TAGS).list.drop_nulls()
    )
    topics = tables.read("topics", ["document_id", "topic", "name", "x", "y"]).unique("document_id")
    named = topics.select("document_id", "x", "y", topic="name", topic_id="topic")
    drawn = tables.read("bench", ["conversation_id"])["conversation_id"]
    in_bench = pl.col("conversation_id").is_in(drawn.implode())
    named_items = [tables.read(table, ["item_id", "bench"]) for table in ("bench_items", "generated_items")]
    benches = dict(pl.concat(named_items).iter_rows())
    return (
        conversations.join(
            spoken.select("content_id", language=languages), left_on="prompt_id", right_on="content_id", how="left"
        )
        .join(tags, left_on="document_id", right_on="content_id", how="left")
        .join(named, on="document_id", how="left")
        .with_columns(
            pl.col("topic").fill_null(NO_TOPIC),
            bench=pl.col("conversation_id").replace_strict(
                benches,
                default=pl.when(in_bench).then(pl.lit(IN_BENCH)).otherwise(pl.lit(NOT_IN_BENCH)),
                return_dtype=pl.String,
            ),
            turns=pl.col("num_turns").cast(pl.Int64),
            day=_LOGGED_DAY,
            tstamp=_SECONDS,
        )
    )


def _battles(tables: TolerantTables, conversations: pl.DataFrame) -> pl.DataFrame:
    """Votes with the columns of their left conversation and the answers of both sides."""
    names = ["battle_id", "conversation_a", "conversation_b", "model_a", "model_b", "winner", "tstamp", "day"]
    votes = tables.read("battles", names).with_columns(tstamp=_SECONDS, day=_LOGGED_DAY)
    left = conversations.drop("model", "tstamp", "day").rename({"conversation_id": "conversation_a"})
    right = conversations.select(conversation_b="conversation_id", right="answers", more="battle_marks")
    both = votes.join(left, on="conversation_a").join(right, on="conversation_b")
    return both.with_columns(
        vote=pl.col("winner"),
        answers=pl.concat_str("answers", pl.lit("\n"), pl.col("right"), ignore_nulls=True),
        marks=pl.concat_list("battle_marks", "more").list.unique().list.sort(),
    )


def _decided(rows: pl.DataFrame, outcomes: pl.DataFrame, key: str) -> pl.DataFrame:
    """The rows with `outcome`, `reasons`, where their image is from, and the policy's tags among `tags`."""
    outcome = pl.when("keep").then(pl.lit("kept")).when("held").then(pl.lit("held")).otherwise(pl.lit("dropped"))
    known = outcomes.select(
        pl.col("item_id").alias(key), "reasons", "preset_dataset", outcome=outcome, told=pl.col("tags"),
    )  # fmt: skip
    return rows.join(known, on=key, how="left").with_columns(
        pl.col("outcome").fill_null("not decided"),
        tags=pl.concat_list(pl.col("tags").fill_null([]), pl.col("told").fill_null([])),
        preset=pl.col("preset_dataset").fill_null(UPLOAD),
    )
