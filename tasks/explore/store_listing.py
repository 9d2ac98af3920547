"""The listing of a store: conversations and battles as they were logged, with found personal data masked."""

import polars as pl

from schemas.items.conversation import UNDATED_BEFORE
from schemas.tags import TAGS
from tasks.explore import listing
from tasks.explore.masking import NOT_SEARCHED, masked_text
from tasks.explore.tolerant import TolerantTables
from tasks.storage.queries.conversation_features import english_name
from tasks.storage.queries.repeated_values import with_repeats

_CONVERSATION = [
    "conversation_id", "model", "turns", "num_turns", "prompt_id", "document_id", "image_ids", "tstamp", "day",
]  # fmt: skip
_SECONDS = pl.when(pl.col("tstamp") >= UNDATED_BEFORE).then(pl.col("tstamp").dt.timestamp("us").cast(pl.Float64) / 1e6)
_DAY = pl.when(pl.col("tstamp") >= UNDATED_BEFORE).then(pl.col("day").cast(pl.String))


def store_listing(tables: TolerantTables) -> pl.DataFrame:
    """The listing, without what is quarantined."""
    conversations = _conversations(tables)
    described = _described(tables, conversations)
    outcomes = tables.read("decisions", ["item_kind", "item_id", "keep", "held", "reasons", "tags", "preset_dataset"])
    votes = tables.read("battles", ["conversation_a", "conversation_b"])
    side = pl.col("conversation_id").is_in(pl.concat([votes["conversation_a"], votes["conversation_b"]]).implode())
    kind = pl.when(side).then(pl.lit(listing.SIDE)).otherwise(pl.lit(listing.CONVERSATION))
    chats = _decided(described, outcomes.filter(item_kind="conversation"), "conversation_id").select(
        *_SHOWN, id="conversation_id", models=pl.concat_list("model"), kind=kind
    )
    battles = _decided(_battles(tables, described), outcomes.filter(item_kind="battle"), "battle_id").select(
        *_SHOWN, "vote", id="battle_id", models=pl.concat_list("model_a", "model_b"), kind=pl.lit(listing.BATTLE)
    )
    return listing.finished([chats, battles])


_SHOWN = [
    "language", "topic", "topic_id", "x", "y", "tags", "preset", "bench", "image_ids", "prompt", "answers", "outcome",
    "reasons", "turns", "tstamp", "day", "place",
]  # fmt: skip


def _conversations(tables: TolerantTables) -> pl.DataFrame:
    """Conversations that are not quarantined, with masked texts, and the number of their part as `place`.

    Texts are joined and masked one part at a time. Raises StoreUnwell when the quarantine cannot be read.
    """
    quarantined = tables.store.read("quarantine", ["key"])["key"]
    searched = tables.latest("text_pii", ["spans"], strict=True).with_columns(searched=True)
    parts = [(0, tables.store.empty("conversations", _CONVERSATION)), *tables.parts("conversations", _CONVERSATION)]
    return pl.concat(
        _with_texts(rows.filter(~pl.col("conversation_id").is_in(quarantined.implode())), searched).with_columns(
            place=pl.lit(number, pl.Int32)
        )
        for number, rows in parts
    )


def _with_texts(conversations: pl.DataFrame, searched: pl.DataFrame) -> pl.DataFrame:
    """`prompt` and `answers` in place of `turns`, masked."""
    turn = pl.col("turns").struct
    turns = conversations.select("conversation_id", "turns").explode("turns").drop_nulls("turns")
    turns = turns.select("conversation_id", turn.field("role"), turn.field("content"), turn.field("text_id"))
    turns = turns.join(searched, left_on="text_id", right_on="content_id", how="left", maintain_order="left")
    found = turns.filter(pl.col("spans").list.len() > 0)["conversation_id"]
    personal = turns.filter(pl.col("conversation_id").is_in(found.implode())).unique(["conversation_id", "text_id"])
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
    for (name,), said in personal.group_by("conversation_id"):
        texts = [(row["content"], row["spans"]) for row in said.iter_rows(named=True)]
        masks = [masked_text(text, spans) for (text, _), spans in zip(texts, with_repeats(texts), strict=True)]
        rows += [(str(name), text_id, mask) for text_id, mask in zip(said["text_id"], masks, strict=True)]
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
            pl.col("topic").fill_null(listing.NO_TOPIC),
            bench=pl.col("conversation_id").replace_strict(
                benches,
                default=pl.when(in_bench).then(pl.lit(listing.IN_BENCH)).otherwise(pl.lit(listing.NOT_IN_BENCH)),
                return_dtype=pl.String,
            ),
            turns=pl.col("num_turns").cast(pl.Int64),
            day=_DAY,
            tstamp=_SECONDS,
        )
    )


def _battles(tables: TolerantTables, conversations: pl.DataFrame) -> pl.DataFrame:
    """Votes with the columns of their left conversation and the answers of both sides."""
    names = ["battle_id", "conversation_a", "conversation_b", "model_a", "model_b", "winner", "tstamp", "day"]
    votes = tables.read("battles", names).with_columns(tstamp=_SECONDS, day=_DAY)
    left = conversations.drop("model", "tstamp", "day").rename({"conversation_id": "conversation_a"})
    right = conversations.select("conversation_id", right="answers").rename({"conversation_id": "conversation_b"})
    both = votes.join(left, on="conversation_a").join(right, on="conversation_b")
    return both.with_columns(
        vote=pl.col("winner"), answers=pl.concat_str("answers", pl.lit("\n"), pl.col("right"), ignore_nulls=True)
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
        preset=pl.col("preset_dataset").fill_null(listing.UPLOAD),
    )
