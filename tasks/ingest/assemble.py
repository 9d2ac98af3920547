"""Sightings -> conversations and battles. A function of the set of sightings: the order they came in is not seen.

Lines accumulate: turn 3 repeats turns 1 and 2, a regenerated answer repeats the rest, a vote repeats both sides.
The last sighting wins. A new picture under one conv_id starts another conversation. The frames here hold no texts:
those of the last sightings are fetched when the table is written (`conversation_parts.py`).
"""

import polars as pl

from tasks.content_id import combined_id

_VOTES = ["leftvote", "rightvote", "tievote", "bothbad_vote"]
_FEEDBACK = ["upvote", "downvote", "flag"]
_ORDER = ["tstamp", "source", "line", "side"]


def with_conversation_ids(sightings: pl.DataFrame) -> pl.DataFrame:
    """Sightings with `conversation_id`, sorted by time.

    Within one conv_id, conversations differ by their opening text and first picture. A sighting without a
    picture (an early-era vote) belongs to the conversation with the same opening that has one, but for a chat that
    does not grow into it: its picture came with a reset. The earliest conversation keeps the bare conv_id; the others
    get a hash of their opening appended.
    """
    opening = ["conv_id", "opening_id"]
    own = ["conv_id", "opening_id", "first_picture"]
    identified = (
        sightings.sort(_ORDER)
        .with_row_index("place")
        .with_columns(first_picture=_own_picture(opening))
        .with_columns(first_picture=pl.col("first_picture").forward_fill().over(opening))
        .with_columns(first_picture=pl.col("first_picture").backward_fill().over(opening))
        .with_columns(started=pl.col("place").min().over(own))
        .with_columns(is_first=pl.col("started") == pl.col("started").min().over("conv_id"))
    )
    later = identified.filter(~pl.col("is_first")).select(own).unique()
    suffixes = [combined_id("opening", [o + (p or "")])[:8] for _, o, p in later.iter_rows()]
    return (
        identified.join(
            later.with_columns(suffix=pl.Series(suffixes, dtype=pl.String)),
            on=own,
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
        .with_columns(
            conversation_id=pl.when("is_first").then("conv_id").otherwise(pl.format("{}-{}", "conv_id", "suffix"))
        )
        .drop("place", "started", "is_first", "first_picture", "suffix")
    )


def _own_picture(opening: list[str]) -> pl.Expr:
    """The first picture of a sighting; empty for a chat that has none, and null where that is not to be known.

    Of chats with one `opening`, one without a picture is about none when the one with a picture that came before is
    as long, or the one that comes is no longer: lines grow, but for a reset.
    """
    picture, size = pl.col("pictures").list.first(), pl.col("num_messages")
    pictured = pl.when(picture.is_not_null()).then(size)
    before, after = pictured.forward_fill().over(opening), pictured.backward_fill().over(opening)
    reset = pl.coalesce(before >= size, after <= size) & (pl.col("record_type") == "chat")
    return pl.when(picture.is_null() & reset).then(pl.lit("")).otherwise(picture)


def last_sightings(identified: pl.DataFrame) -> pl.DataFrame:
    """One row a conversation, without texts: what all its sightings say, and the part and row of the last one."""
    voted = pl.col("record_type").is_in(_VOTES)
    pressed = pl.col("record_type").filter(pl.col("record_type").is_in(_FEEDBACK))
    return identified.group_by("conversation_id", maintain_order=True).agg(
        pl.col("model", "part", "row", "picture_problems", "num_messages").last(),
        pl.col("pictures").filter(pl.col("pictures").list.len() > 0).last(),
        tstamp=pl.col("tstamp").last(),
        day=pl.col("tstamp").first().dt.date(),
        user_id=pl.col("user_id").drop_nulls().last(),
        anonymous=pl.col("anonymous").drop_nulls().last(),
        voted=voted.any(),
        feedback=pressed.unique(maintain_order=True),
        source=_of_final_line("source"),
        line=_of_final_line("line"),
    )


def _of_final_line(column: str) -> pl.Expr:
    """Where the final state stands: the last line of the conversation's own, else the last vote or share."""
    side_by_side = pl.col("record_type").is_in([*_VOTES, "share"])
    return pl.coalesce(pl.col(column).filter(~side_by_side).last(), pl.col(column).last())


def vote_sides(identified: pl.DataFrame) -> pl.DataFrame:
    """The sightings of vote lines, one a side."""
    columns = ["source", "line", "side", "tstamp", "conversation_id", "model", "winner", "anonymous", "user_id"]
    return identified.filter(pl.col("record_type").is_in(_VOTES)).select(columns)


def battles(sides: pl.DataFrame, last: pl.DataFrame) -> pl.DataFrame:
    """The `battles` table: the last vote on each pair of conversations."""
    left, right = sides.filter(pl.col("side") == 0), sides.filter(pl.col("side") == 1)
    pairs = left.join(right.select("source", "line", "conversation_id", "model"), on=["source", "line"], suffix="_b")
    turns = last.select("conversation_id", num_turns=(pl.col("num_messages") + 1) // 2)
    return (
        pairs.sort(_ORDER)
        .unique(["conversation_id", "conversation_id_b"], keep="last", maintain_order=True)
        .join(turns, on="conversation_id", maintain_order="left")
        .join(turns, left_on="conversation_id_b", right_on="conversation_id", suffix="_b", maintain_order="left")
        .select(
            battle_id="conversation_id",
            conversation_a="conversation_id",
            conversation_b="conversation_id_b",
            model_a="model",
            model_b="model_b",
            winner="winner",
            anonymous="anonymous",
            turns_a="num_turns",
            turns_b="num_turns_b",
            tstamp="tstamp",
            day=pl.col("tstamp").dt.date(),
            judge="user_id",
            source="source",
            line="line",
        )
    )
