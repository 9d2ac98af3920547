"""The listing: one row for each conversation, battle and benchmark prompt that can be shown, newest first.

In: row groups of a release (`release_rows`), or a store (`store_listing`). Out: frames with the columns of `SCHEMA`,
which `finished` makes one sorted listing. A further configuration of a release is an entry of `_row_of`; a further kind
of item in a store is a `yield` in `_store_rows`. A further filter is a line of `FACETS`, with its column in `SCHEMA`,
in the queries of stores and in the functions of `_row_of`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

import polars as pl

from schemas.tags import TAGS
from tasks.explore.masking import MaskedStore, masked_text
from tasks.runtime.times import IS_DATED
from tasks.shown import BATTLE, CONVERSATION, FAILURE, PROMPT, SIDE, item_key
from tasks.storage.parquet import compact
from tasks.storage.queries.conversation_features import english_name, marks
from tasks.storage.queries.repeated_values import FoundSpan, values_of_items, with_repeats
from tasks.storage.queries.signals import latest_query

_SECONDS = pl.when(IS_DATED).then(pl.col("tstamp").dt.timestamp("us").cast(pl.Float64) / 1e6)
_LOGGED_DAY = pl.when(IS_DATED).then(pl.col("day").cast(pl.String))
IMAGE_ID = r"^([0-9a-f]{32})\.[a-z]+$"
"""Names of other forms, which no release of ours has, name no image: they become addresses and file names."""
LISTED_AT_ONCE = 4_096
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


KIND_FACET = Facet("kind", "Kind", "kind")
FACETS = (
    Facet("outcome", "Decision", "outcome"),
    Facet("reason", "Reason", "reasons", many=True),
    KIND_FACET,
    Facet("model", "Model", "models", many=True),
    Facet("vote", "Vote", "vote"),
    Facet("topic", "Topic", "topic"),
    Facet("language", "Language", "language"),
    Facet("tag", "Tag", "tags", many=True),
    Facet("preset", "Image from", "preset"),
    Facet("bench", "Benchmark", "bench"),
    Facet("day", "Day", "day"),
)


def finished(rows: list[pl.DataFrame]) -> pl.DataFrame:
    """The listing from rows with the columns of `SCHEMA`; those that are missing are null.

    Adds `key`, `snippet` and `searched` (prompt and answers in lower case). Leaves `answers` and `prompt` out.
    """
    frames = [_typed(pl.DataFrame(schema=SCHEMA)), *map(_typed, rows)]
    whole = pl.concat(frames, how="diagonal").sort(
        "tstamp", "kind", "id", descending=[True, False, False], nulls_last=True
    )
    keys = [item_key(kind, item_id) for kind, item_id in whole.select("kind", "id").iter_rows()]
    single_valued = [facet.column for facet in FACETS if not facet.many]
    list_valued = [facet.column for facet in FACETS if facet.many]
    return whole.with_columns(
        pl.col(single_valued).cast(pl.Categorical()),
        pl.col(list_valued).fill_null([]).cast(pl.List(pl.Categorical())),
        pl.col("image_ids").fill_null([]),
        key=pl.Series(keys, dtype=pl.String),
    )


def _typed(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the types of `SCHEMA`, and `snippet` and `searched` in place of their texts, if they have some."""
    typed = rows.with_columns(pl.col(name).cast(dtype) for name, dtype in SCHEMA.items() if name in rows.columns)
    if "prompt" not in rows.columns:
        return typed
    answers = pl.col("answers").fill_null("") if "answers" in rows.columns else pl.lit("")
    return typed.with_columns(snippet=_SNIPPET, searched=_searched(answers)).drop("prompt", "answers", strict=False)


_SNIPPET = pl.col("prompt").str.head(SNIPPET_CHARACTERS)


def _searched(answers: pl.Expr) -> pl.Expr:
    return pl.concat_str(pl.col("prompt").fill_null(""), pl.lit("\n"), answers).str.to_lowercase()


def _marks(models: list[pl.Expr]) -> pl.Expr:
    """The `MARKS` of answers of these models."""
    flags = marks(models, pl.col("answers").fill_null(""))
    return pl.concat_list(pl.when(holds).then(pl.lit(name)) for name, holds in flags.items()).list.drop_nulls()


def with_marks(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the `MARKS` of their answers among `tags`."""
    first_and_last = [pl.col("models").list.first(), pl.col("models").list.last()]
    return rows.with_columns(tags=pl.concat_list(pl.col("tags").fill_null([]), _marks(first_and_last)))


def release_rows(config: str, rows: pl.DataFrame, points: pl.DataFrame) -> pl.DataFrame:
    """Rows of a row group of a configuration, with the paths of their images; `points` are those of the map."""
    listed = _row_of[config](rows, points)
    return with_marks(listed) if "answers" in listed.columns else listed


def _text(column: str, role: str | None = None) -> pl.Expr:
    turn = pl.element().struct
    chosen = pl.element() if role is None else pl.element().filter(turn.field("role") == role)
    return pl.col(column).list.eval(chosen.struct.field("content")).list.join("\n\n")


_DAY = pl.from_epoch(pl.col("tstamp").cast(pl.Int64), "s").dt.date().cast(pl.String)
_EXAMPLE = pl.when("is_preset").then(pl.lit(EXAMPLE)).otherwise(pl.lit(UPLOAD))
_IMAGES = pl.col("images").list.eval(pl.element().struct.field("path").str.extract(IMAGE_ID)).list.drop_nulls()


def _tags(rows: pl.DataFrame) -> pl.Expr:
    categories = pl.col("categories").struct
    tags = [pl.when(categories.field(tag)).then(pl.lit(tag)) for tag in rows["categories"].struct.fields]
    return pl.concat_list(tags).list.drop_nulls()


def _shared(rows: pl.DataFrame, key: str, kind: str, message_column: str) -> dict[str, pl.Expr]:
    """Columns that all rows have; `message_column` has the messages, or the user's alone where it is `turns`."""
    prompt = _text(message_column, None if message_column == "turns" else "user")
    return {"id": pl.col(key), "kind": pl.lit(kind), "tags": _tags(rows), "image_ids": _IMAGES, "prompt": prompt}


def _placed(rows: pl.DataFrame, key: str, points: pl.DataFrame) -> pl.DataFrame:
    # A row is one place on the map: of an id that a map has twice the first counts, so that no item is listed twice.
    on_map = points.unique("id", keep="first", maintain_order=True).select(
        pl.col("id").alias(key), "x", "y", point_topic="topic_id"
    )
    return rows.join(on_map, on=key, how="left", maintain_order="left")


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


_DECIDED = """
    SELECT item_id, keep, held, reasons, tags AS policy_tags, preset_dataset
    FROM decisions WHERE item_kind = '{kind}'
"""
_FACTS = f"""
    -- a row is one conversation, what it is about, where it is released and what was decided, without its texts. An
    -- item is of one benchmark, because its id is made with the benchmark's name: max leaves one row of two
    SELECT
        conversation_id, model, num_turns, image_ids, tstamp, day, language,
        topics.topic AS topic_id, topics.name AS topic, x, y, {", ".join(TAGS)},
        coalesce(bench, CASE WHEN is_drawn THEN '{IN_BENCH}' ELSE '{NOT_IN_BENCH}' END) AS bench,
        keep, held, reasons, policy_tags, preset_dataset
    FROM conversations
    LEFT JOIN (
        SELECT content_id AS prompt_id, language FROM ({latest_query("language", ["language"])})
    ) AS languages USING (prompt_id)
    LEFT JOIN (
        SELECT content_id AS document_id, * EXCLUDE (content_id) FROM ({latest_query("categories", TAGS)})
    ) AS categories USING (document_id)
    LEFT JOIN topics USING (document_id)
    LEFT JOIN (
        SELECT item_id AS conversation_id, max(bench) AS bench
        FROM (SELECT item_id, bench FROM bench_items UNION ALL SELECT item_id, bench FROM generated_items)
        GROUP BY item_id
    ) AS items USING (conversation_id)
    LEFT JOIN (SELECT DISTINCT conversation_id, true AS is_drawn FROM bench) AS drawn USING (conversation_id)
    LEFT JOIN ({_DECIDED.format(kind="conversation")}) AS decided ON item_id = conversation_id
"""  # noqa: S608 - queries and names of our own
_TEXTS = f"""
    -- a row is one conversation that is not quarantined, with its texts; `unsafe` has the messages (numbers from 0) in
    -- which there is personal data, or that nobody searched (spans is null), and `found_values` what was found in the
    -- texts of its item; both are null where there are none, as in most. Only where one is not null are contents and
    -- roles of the messages there, to be masked. A conversation is a side of one battle, as several votes on one
    -- comparison are one: min takes the only other model
    SELECT
        conversation_id, model, other_model, unsafe, found_values,
        prompt_of("turns.content", "turns.role") AS prompt,
        array_to_string(
            [content FOR content, number_from_1 IN "turns.content" IF "turns.role"[number_from_1] <> 'user'],
            E'\\n\\n'
        ) AS answers,
        CASE WHEN unsafe IS NOT NULL OR found_values IS NOT NULL THEN "turns.content" END AS contents,
        CASE WHEN unsafe IS NOT NULL OR found_values IS NOT NULL THEN "turns.role" END AS roles
    FROM conversations
    ANTI JOIN (SELECT key AS conversation_id FROM quarantine) AS withheld USING (conversation_id)
    LEFT JOIN (
        SELECT conversation_id, list(struct_pack(number := number, spans := spans)) AS unsafe
        FROM turns LEFT JOIN ({latest_query("text_pii", ["spans"])}) AS pii ON text_id = content_id
        WHERE coalesce(len(spans) > 0, true)
        GROUP BY conversation_id
    ) AS unsafe_messages USING (conversation_id)
    LEFT JOIN values_of_items USING (conversation_id)
    LEFT JOIN (
        SELECT conversation_id, min(other_model) AS other_model FROM (
            SELECT conversation_a AS conversation_id, model_b AS other_model FROM battles
            UNION ALL
            SELECT conversation_b, model_a FROM battles
        ) GROUP BY conversation_id
    ) AS sides USING (conversation_id)
"""  # noqa: S608 - queries of our own
_BATTLES = f"""
    -- a row is one battle and what was decided about it
    SELECT
        battle_id, conversation_a, conversation_b, model_a, model_b, winner AS vote, tstamp, day,
        keep, held, reasons, policy_tags, preset_dataset
    FROM battles LEFT JOIN ({_DECIDED.format(kind="battle")}) AS decided ON item_id = battle_id
"""  # noqa: S608 - a query of our own


def store_listing(store: MaskedStore, searched: bool = False) -> pl.DataFrame:
    """The listing, without what is quarantined; only with `searched` it has that column, ten times all others.

    Raises StoreUnwell when the quarantine cannot be read.
    """
    whole = store.again(lambda: finished([*_store_rows(store, searched)]))
    return whole if searched else whole.drop("searched")


_OF_LEFT = (
    *("language", "topic", "topic_id", "x", "y", "categories", "bench", "image_ids", "turns"),
    *("snippet", "searched"),
)
"""Columns that a battle has from its left side."""
_SHOWN = (
    *("language", "topic", "topic_id", "x", "y", "bench", "image_ids", "turns", "outcome", "reasons", "preset"),
    *("tstamp", "day", "snippet", "searched"),
)
_TAGS_AND_MARKS = pl.concat_list("categories", "policy_tags", "marks")


def _store_rows(store: MaskedStore, searched: bool) -> Iterator[pl.DataFrame]:
    """Rows of conversations, then of battles, with columns of SCHEMA."""
    facts = pl.concat(compact(_described(rows)) for rows in store.batches(_FACTS))
    text_batches = store.batches(_TEXTS, LISTED_AT_ONCE, values_of_items=values_of_items(store))
    texts = pl.concat(compact(_masked(rows, searched)) for rows in text_batches)
    conversations = facts.join(texts, on="conversation_id")
    kind = pl.when("is_side").then(pl.lit(SIDE)).otherwise(pl.lit(CONVERSATION))
    models = pl.concat_list("model")
    yield conversations.select(*_SHOWN, id="conversation_id", kind=kind, models=models, tags=_TAGS_AND_MARKS)
    left_sides = conversations.select(*_OF_LEFT, "battle_marks", conversation_a="conversation_id")
    right_sides = conversations.select("side_answers", conversation_b="conversation_id", more_marks="battle_marks")
    votes = _decided(pl.concat(store.batches(_BATTLES)))
    battles = votes.join(left_sides, on="conversation_a").join(right_sides, on="conversation_b").with_columns(
        searched=pl.concat_str("searched", pl.lit("\n"), "side_answers"),
        marks=pl.concat_list("battle_marks", "more_marks").list.unique().list.sort(),
    )  # fmt: skip
    models = pl.concat_list("model_a", "model_b")
    yield battles.select(*_SHOWN, "vote", id="battle_id", kind=pl.lit(BATTLE), models=models, tags=_TAGS_AND_MARKS)


def _described(facts: pl.DataFrame) -> pl.DataFrame:
    """Rows of _FACTS with the words that cards and facets show."""
    categories = pl.concat_list(pl.when(tag).then(pl.lit(tag)) for tag in TAGS).list.drop_nulls()
    return _decided(facts).with_columns(
        pl.col("topic").fill_null(NO_TOPIC),
        language=pl.col("language").map_elements(english_name, return_dtype=pl.String),
        categories=categories,
        turns=pl.col("num_turns").cast(pl.Int64),
    ).drop(TAGS, "num_turns")  # fmt: skip


def _decided(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with day and seconds of what has a time, `outcome`, and where their image is from."""
    of_decision = pl.when("keep").then(pl.lit("kept")).when("held").then(pl.lit("held")).otherwise(pl.lit("dropped"))
    return rows.with_columns(
        pl.col("policy_tags").fill_null([]),
        outcome=pl.when(pl.col("keep").is_null()).then(pl.lit("not decided")).otherwise(of_decision),
        preset=pl.col("preset_dataset").fill_null(UPLOAD),
        tstamp=_SECONDS,
        day=_LOGGED_DAY,
    ).drop("keep", "held", "preset_dataset")


def _masked(texts: pl.DataFrame, searched: bool) -> pl.DataFrame:
    """Columns of the listing from rows of _TEXTS, masked, and the marks of their answers.

    `battle_marks` and `side_answers` are those of a side: marks by which a voter may know one of both models, and the
    answers as they are searched.
    """
    safe, unsafe = texts.filter(pl.col("contents").is_null()), texts.drop_nulls("contents")
    rows = unsafe.select("unsafe", "found_values", "contents", "roles").iter_rows(named=True)
    masked = map(_masked_texts, rows)
    unsafe = unsafe.with_columns(pl.DataFrame(masked, {"prompt": pl.String, "answers": pl.String}))
    conversations = pl.concat([safe, unsafe]).with_columns(is_side=pl.col("other_model").is_not_null())
    no_text = pl.lit(None, pl.String)
    columns = {
        "snippet": _SNIPPET,
        "searched": _searched(pl.col("answers")) if searched else no_text,
        "marks": _marks([pl.col("model")]),
    }
    side_columns = {
        "battle_marks": _marks([pl.col("model"), pl.col("other_model")]),
        "side_answers": pl.col("answers").str.to_lowercase() if searched else no_text,
    }
    alone = conversations.filter(~pl.col("is_side")).select("conversation_id", "is_side", **columns)
    sides = conversations.filter("is_side").select("conversation_id", "is_side", **columns, **side_columns)
    return pl.concat([alone, sides], how="diagonal")


def _masked_texts(conversation: Mapping[str, Any]) -> dict[str, str]:
    """Prompt and answers of a row of _TEXTS with the personal data of its item masked in every message."""
    spans: list[Sequence[FoundSpan] | None] = [[] for _ in conversation["contents"]]
    for message in conversation["unsafe"] or ():
        spans[message["number"]] = message["spans"]
    texts_and_spans = list(zip(conversation["contents"], spans, strict=True))
    all_spans = with_repeats(texts_and_spans, conversation["found_values"] or ())
    masked = [masked_text(text, of_text) for text, of_text in zip(conversation["contents"], all_spans, strict=True)]
    by_user = [role == "user" for role in conversation["roles"]]
    by_model = [not is_user for is_user in by_user]
    return {"prompt": "\n\n".join(compress(masked, by_user)), "answers": "\n\n".join(compress(masked, by_model))}
