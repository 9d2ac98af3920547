"""Sightings -> conversations and battles. A function of the set of sightings: the order they came in is not seen.

Lines accumulate: turn 3 repeats turns 1 and 2, a regenerated answer repeats the rest, a vote repeats both sides.
The last sighting wins. A new picture under one conv_id starts another conversation.
"""

import polars as pl

from schemas.conversation import Conversation
from tasks.content_id import combined_id, text_id
from tasks.tables import frame_schema

_VOTES = ["leftvote", "rightvote", "tievote", "bothbad_vote"]
_FEEDBACK = ["upvote", "downvote", "flag"]
_ORDER = ["tstamp", "source", "line", "side"]


def with_conversation_ids(sightings: pl.DataFrame) -> pl.DataFrame:
    """Sightings with `conversation_id`, sorted by time.

    Within one conv_id, conversations differ by their opening text and first picture. A sighting without a
    picture (an early-era vote) belongs to the conversation with the same opening that has one. The earliest
    conversation keeps the bare conv_id; the others get a hash of their opening appended.
    """
    opening = ["conv_id", "opening_id"]
    own = ["conv_id", "opening_id", "first_picture"]
    first = pl.col("pictures").list.first()
    suffix = pl.concat_str("opening_id", pl.col("first_picture").fill_null("")).map_elements(
        lambda value: combined_id("opening", [value])[:8], return_dtype=pl.String
    )
    return (
        sightings.sort(_ORDER)
        .with_row_index("place")
        .with_columns(first_picture=first.forward_fill().over(opening))
        .with_columns(first_picture=pl.col("first_picture").backward_fill().over(opening))
        .with_columns(started=pl.col("place").min().over(own))
        .with_columns(is_first=pl.col("started") == pl.col("started").min().over("conv_id"))
        .with_columns(
            conversation_id=pl.when("is_first").then("conv_id").otherwise(pl.format("{}-{}", "conv_id", suffix))
        )
        .drop("place", "started", "is_first", "first_picture")
    )


def conversations(identified: pl.DataFrame, picture_files: pl.DataFrame) -> pl.DataFrame:
    """The `conversations` table from sightings with conversation ids and the table `picture_files`."""
    voted = pl.col("record_type").is_in(_VOTES)
    pressed = pl.col("record_type").filter(pl.col("record_type").is_in(_FEEDBACK))
    final = identified.group_by("conversation_id", maintain_order=True).agg(
        pl.col("model", "turns").last(),
        pl.col("pictures").filter(pl.col("pictures").list.len() > 0).last(),
        pl.col("picture_problems").last(),
        tstamp=pl.col("tstamp").last(),
        day=pl.col("tstamp").first().dt.date(),
        user_id=pl.col("user_id").drop_nulls().last(),
        anonymous=pl.col("anonymous").drop_nulls().last(),
        voted=voted.any(),
        feedback=pressed.unique(maintain_order=True),
        source=_of_final_line("source"),
        line=_of_final_line("line"),
    )
    turns = [_identified_turns(turns) for turns in final["turns"].to_list()]
    prompts = [text_id("\n\n".join(t["content"] for t in turn if t["role"] == "user")) for turn in turns]
    pictures = _pictures(final, picture_files)
    documents = [
        combined_id("document", [p, *i]) for p, i in zip(prompts, pictures["image_ids"].to_list(), strict=True)
    ]
    schema = frame_schema(Conversation)
    return final.with_columns(
        pictures["image_ids"],
        pictures["image_problems"],
        turns=pl.Series(turns, dtype=schema["turns"]),
        num_turns=pl.Series([sum(t["role"] == "user" for t in turn) for turn in turns], dtype=pl.Int32),
        prompt_id=pl.Series(prompts, dtype=pl.String),
        document_id=pl.Series(documents, dtype=pl.String),
    ).select(schema.names())


def _of_final_line(column: str) -> pl.Expr:
    """Where the final state stands: the last line of the conversation's own, else the last vote or share."""
    side_by_side = pl.col("record_type").is_in([*_VOTES, "share"])
    return pl.coalesce(pl.col(column).filter(~side_by_side).last(), pl.col(column).last())


def _identified_turns(turns: list[dict[str, str | None]]) -> list[dict[str, str]]:
    texts = [(str(turn["role"]), turn["content"] or "") for turn in turns]
    return [{"role": role, "content": text, "text_id": text_id(text)} for role, text in texts]


def _pictures(final: pl.DataFrame, picture_files: pl.DataFrame) -> pl.DataFrame:
    """`image_ids` and `image_problems` of every row of `final`, in its order."""
    suffix_rank = pl.col("name").str.ends_with(".png")
    best = (
        picture_files.with_columns(pictures=pl.col("name").str.slice(0, 32), exact=suffix_rank)
        .sort("exact", "name", descending=[True, False])
        .unique("pictures", keep="first", maintain_order=True)
        .select("pictures", "image_id", "problem")
    )
    named = final.select("conversation_id", "pictures").explode("pictures").drop_nulls("pictures")
    found = (
        named.join(best, on="pictures", how="left", maintain_order="left")
        .with_columns(problem=pl.when(pl.col("image_id").is_null()).then(pl.col("problem").fill_null("image_missing")))
        .group_by("conversation_id", maintain_order=True)
        .agg(pl.col("image_id", "problem").drop_nulls().unique(maintain_order=True))
    )
    joined = final.select("conversation_id", "picture_problems").join(
        found, on="conversation_id", how="left", maintain_order="left"
    )
    empty = pl.lit([], dtype=pl.List(pl.String))
    return joined.select(
        image_ids=pl.col("image_id").fill_null(empty),
        image_problems=pl.concat_list("picture_problems", pl.col("problem").fill_null(empty)),
    )


def battles(identified: pl.DataFrame, conversations: pl.DataFrame) -> pl.DataFrame:
    """The `battles` table: the last vote on each pair of conversations."""
    votes = identified.filter(pl.col("record_type").is_in(_VOTES))
    left, right = votes.filter(pl.col("side") == 0), votes.filter(pl.col("side") == 1)
    pairs = left.join(right.select("source", "line", "conversation_id", "model"), on=["source", "line"], suffix="_b")
    turns = conversations.select("conversation_id", "num_turns")
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
