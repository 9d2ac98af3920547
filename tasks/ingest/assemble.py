"""Tables `sightings` and `image_files` -> `conversations`, `battles` and `reactions`.

A sighting is one conversation as one log line shows it. Later lines repeat earlier ones (turn 3 repeats turns 1 and 2,
a vote repeats both sides), so the last sighting of a conversation is its final state, in whatever order lines are read.
Queries order the sightings, without their texts, and the conversations; polars assembles some conversations at a time;
texts are read for one part of a table at a time.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import polars as pl

from schemas.items.conversation import Battle, Conversation, IdentifiedTurn, Reaction, RecordType, Role, ServedAnswer
from tasks.runtime.parallel import map_ordered
from tasks.storage.content_id import combined_id, text_id
from tasks.storage.parquet import compact
from tasks.storage.tables import Store, frame_schema

CONVERSATIONS_A_PART = 16_384
SIGHTINGS_AT_ONCE = 32_768
"""Sightings that are assembled at a time; more if one conv_id has more."""
_MADE_FROM = "ingest/assembled_from"
_COLUMNS = [
    "source", "line", "side", "record_type", "tstamp", "conv_id", "opening_id", "model", "num_messages", "images",
    "image_places", "name_problems", "user_id", "anonymous", "winner", "served", "unread_parts",
    "opinion", "consent",
]  # fmt: skip
_VOTES = [RecordType.LEFT_VOTE, RecordType.RIGHT_VOTE, RecordType.TIE_VOTE, RecordType.BOTH_BAD_VOTE]
_BUTTONS = [RecordType.UPVOTE, RecordType.DOWNVOTE, RecordType.FLAG]
_OF_VOTES = [
    "conversation_id", "model", "turns", "source", "line", "side", "tstamp", "user_id", "anonymous", "winner", "turn",
    "part", "row",
]  # fmt: skip
_SAYS_NOTHING = pl.all_horizontal(pl.col("winner", "liked", "comment").is_null()) & (pl.col("reasons").list.len() == 0)
"""Whether an opinion is none any more: its person took the button back."""
_SHOWN = frame_schema(IdentifiedTurn)["images"]
_BY_CONV_ID = """
    -- a row is one sighting without its texts, with the number of its part and of its row in it; all of one conv_id
    -- follow each other, the last state last
    SELECT * FROM numbered_sightings ORDER BY conv_id, tstamp, source, line, side, num_messages
"""
_BY_TIME = """
    -- a row is one conversation without its texts
    SELECT * FROM assembled_conversations ORDER BY tstamp, conversation_id
"""
_BATTLES = Path(__file__).with_name("battles.sql").read_text(encoding="utf-8")
_REACTIONS = Path(__file__).with_name("reactions.sql").read_text(encoding="utf-8")


def assemble_store(store: Store, workers: int) -> dict[str, int]:
    """Write the tables, unless they were already made from the same input parts. Returns the rows of each."""
    parts = store.parts("sightings")
    inputs = json.dumps([parts, store.parts("image_files")])
    made_from = hashlib.blake2b(inputs.encode()).hexdigest().encode()
    if store.read_bytes(_MADE_FROM) != made_from:
        store.write_bytes(_MADE_FROM, b"")  # until all three tables are of the same input
        assembly = _Assembly(store, parts)
        _write_conversations(store, parts, assembly.conversations(), workers)
        votes = pl.concat(assembly.votes)
        _write_battles(store, parts, votes)
        _write_reactions(store, parts, pl.concat(assembly.opinions), votes)
        store.write_bytes(_MADE_FROM, made_from)
    return {table: store.height(table) for table in ("conversations", "battles", "reactions")}


class _Assembly:
    """The conversations of a store without their texts, and what its votes are about."""

    def __init__(self, store: Store, parts: Sequence[str]) -> None:
        """`parts` are those of `sightings`."""
        self._store, self._parts = store, parts
        self.votes: list[pl.DataFrame] = []
        """The sides of all votes; whole as soon as the first conversations are given. Memory: 250 bytes a side."""
        self.opinions: list[pl.DataFrame] = []
        """The sightings with an opinion on an answer, without its words; whole as soon as the votes are."""

    def conversations(self) -> Iterator[pl.DataFrame]:
        """The conversations ordered by time, CONVERSATIONS_A_PART at a time; an empty frame where there are none."""
        return self._store.batches(_BY_TIME, CONVERSATIONS_A_PART, assembled_conversations=self._assembled())

    def _assembled(self) -> Iterator[pl.DataFrame]:
        """Conversations ordered by conv_id; the sides of their votes are put aside."""
        for sightings in self._by_conv_id():
            rows = assembled(sightings)
            self.votes.append(compact(rows.votes))
            self.opinions.append(compact(rows.opinions))
            yield rows.conversations

    def _by_conv_id(self) -> Iterator[pl.DataFrame]:
        """Sightings ordered by conv_id and time, some conversations at a time; no conv_id is in two frames."""
        is_of_last = pl.col("conv_id") == pl.col("conv_id").last()
        incomplete = list[pl.DataFrame]()
        for rows in self._store.batches(_BY_CONV_ID, SIGHTINGS_AT_ONCE, numbered_sightings=self._numbered()):
            of_earlier = rows.filter(~is_of_last)
            if of_earlier.height:
                yield pl.concat([*incomplete, of_earlier])
                incomplete = []
            incomplete.append(rows.filter(is_of_last))
        yield pl.concat(incomplete)

    def _numbered(self) -> Iterator[pl.DataFrame]:
        """Sightings with their part number and row number.

        Of how an answer came only whether the log says it, and of an opinion only its turn.
        """
        frames = (self._store.read_part("sightings", part, _COLUMNS) for part in self._parts)
        is_served = pl.col("served").is_not_null()
        for part, rows in enumerate(chain(frames, [self._store.empty("sightings", _COLUMNS)])):
            numbered = rows.with_row_index("row").with_columns(part=pl.lit(part, pl.Int32), served=is_served)
            yield numbered.with_columns(turn=pl.col("opinion").struct.field("turn")).drop("opinion")


class Assembled(NamedTuple):
    """Tables made of the sightings of some conv_ids, without texts."""

    conversations: pl.DataFrame
    votes: pl.DataFrame
    """The sides of votes."""
    opinions: pl.DataFrame
    """The sightings, of votes and others, with an opinion on an answer."""


def assembled(seen: pl.DataFrame) -> Assembled:
    """All sightings of some conv_ids, which are ordered by conv_id and time, put together.

    `source` and `line` of a conversation are its last line that is no vote, doubt or share, else the last of those.
    """
    seen = _identified(seen).with_columns(is_vote=pl.col("record_type").is_in(_VOTES))
    is_talk = ~pl.col("is_vote") & ~pl.col("record_type").is_in([RecordType.SHARE, RecordType.UNSURE_VOTE])
    # A reaction that is a row of a dataset may come late and show the conversation only up to its answer: it
    # is no final state where another line shows more.
    is_reaction = pl.col("turn").is_not_null() & (pl.col("record_type") == RecordType.CHAT)
    is_short = is_reaction & (pl.col("num_messages") < pl.col("num_messages").max())
    final_state = pl.col("model", "part", "row", "num_messages", "name_problems", "unread_parts")
    # a row is one conversation: its last state, beside what any of its sightings says
    conversations = seen.group_by("conversation_id", maintain_order=True).agg(
        final_state.sort_by(is_short, descending=True, maintain_order=True).last(),
        pl.col("user_id", "anonymous", "consent").drop_nulls().last(),
        pl.col("images", "image_places").filter(pl.col("images").list.len() > 0).last(),
        pl.col("tstamp").last(),
        pl.col("tstamp").first().alias("first_tstamp"),
        pl.col("is_vote").any().alias("voted"),
        pl.col("record_type").filter(pl.col("record_type").is_in(_BUTTONS)).alias("feedback"),
        *(pl.coalesce(pl.col(name).filter(is_talk).last(), pl.col(name).last()) for name in ("source", "line")),
    )
    conversations = conversations.with_columns(
        pl.col("feedback").list.unique(maintain_order=True),
        pl.col("unread_parts").list.eval(pl.element().struct.field("kind")),
    )
    # a row is one answer of which a sighting says how it came; where a vote does too, the line of the chat is taken
    by_answer = seen.filter("served").group_by("conversation_id", "num_messages", maintain_order=True)
    preferred_place = pl.col("part", "row").sort_by("is_vote", descending=True, maintain_order=True).last()
    served_answers = by_answer.agg(preferred_place).with_columns(turn=pl.col("num_messages") - 1)
    # a row is one conversation with the list of its answers
    served_answers = served_answers.group_by("conversation_id", maintain_order=True).agg(
        served=pl.struct("part", "row", "turn")
    )
    conversations = conversations.join(served_answers, on="conversation_id", how="left", maintain_order="left")
    num_turns = conversations.select("conversation_id", turns=(pl.col("num_messages") + 1) // 2)
    # a row is one sighting with the number of turns that its conversation has in the end
    lines_with_turns = seen.join(num_turns, on="conversation_id", maintain_order="left").select(*_OF_VOTES, "is_vote")
    votes, opinions = lines_with_turns.filter("is_vote"), lines_with_turns.filter(pl.col("turn").is_not_null())
    return Assembled(conversations, votes.drop("is_vote"), opinions.drop("is_vote"))


def _identified(seen: pl.DataFrame) -> pl.DataFrame:
    """Add `conversation_id`: conversations under one conv_id are told apart by their first user text and first image.

    A sighting without an image (an early-era vote) joins the conversation with the same first text that has one.
    Exception: a chat line without an image is a conversation of its own when it is not longer than the last line with
    an image before it, or where there is none, not shorter than the next one after it, because the lines of one
    conversation only grow.
    The earliest conversation keeps the bare conv_id; the others get a dash and 8 hex digits of their opening appended.
    """
    opening, size = ["conv_id", "opening_id"], pl.col("num_messages")
    seen = seen.with_columns(image=pl.col("images").list.first())
    size_with_image = pl.when(pl.col("image").is_not_null()).then(size)
    # whether a line is no longer than the last one with an image before it, or where there is none, no shorter than the
    # next one with an image
    is_regrown = pl.coalesce(
        size_with_image.forward_fill().over(opening) >= size, size_with_image.backward_fill().over(opening) <= size
    )
    is_alone = pl.col("image").is_null() & (pl.col("record_type") == RecordType.CHAT) & is_regrown
    seen = seen.with_columns(image=pl.when(is_alone).then(pl.lit("")).otherwise("image"))
    # the image of a line: its own, else that of the last line before it that has one, else of the next after it
    neighbour_images = (pl.col("image").forward_fill().over(opening), pl.col("image").backward_fill().over(opening))
    opening_key = pl.concat_str("opening_id", pl.coalesce(*neighbour_images, pl.lit("")))
    seen = seen.with_columns(opening=opening_key)
    is_other = pl.col("opening") != pl.col("opening").first().over("conv_id")
    suffix = (
        pl.when(is_other).then("opening").map_elements(lambda key: f"-{combined_id('opening', [key])[:8]}", pl.String)
    )
    return seen.with_columns(conversation_id=pl.concat_str("conv_id", suffix, ignore_nulls=True))


def _write_conversations(store: Store, parts: Sequence[str], frames: Iterator[pl.DataFrame], workers: int) -> None:
    """Write the table of assembled conversations, a part for each frame; `parts` are those of `sightings`."""
    images_by_name = by_logged_name(store.read("image_files").unique("name", keep="last"))
    last_sightings = (with_images(rows, images_by_name) for rows in frames)
    write = partial(_write_part, store.root, parts)
    store.list_parts("conversations", list(map_ordered(write, last_sightings, workers)))


def _write_part(root: str, parts: Sequence[str], last: pl.DataFrame) -> str:
    """Write the conversations of some last sightings as a part; called on several threads.

    `parts` are those of `sightings`; `last` has the columns that `with_images` adds.
    """
    store = Store(root)
    rows = with_turns(_with_served(store, parts, last.with_columns(texts=_texts(store, parts, last))))
    return store.write_part("conversations", _as_rows(rows, Conversation))


def _write_battles(store: Store, parts: Sequence[str], votes: pl.DataFrame) -> None:
    """Write the table of battles; `parts` are those of `sightings`, and `votes` has both sides of each vote."""
    new_parts = list[str]()
    for rows in store.batches(_BATTLES, CONVERSATIONS_A_PART, votes=votes):
        battles = _with_column(store, parts, rows, "vote_reason")
        ids = [None if text is None else text_id(text) for text in battles["vote_reason"]]
        battles = battles.with_columns(vote_reason_id=pl.Series(ids, dtype=pl.String))
        new_parts.append(store.write_part("battles", _as_rows(battles, Battle)))
    store.list_parts("battles", new_parts)


def _write_reactions(store: Store, parts: Sequence[str], opinions: pl.DataFrame, votes: pl.DataFrame) -> None:
    """Write the table of reactions; `parts` are those of `sightings`, and `votes` has both sides of each vote."""
    new_parts = list[str]()
    for rows in store.batches(_REACTIONS, CONVERSATIONS_A_PART, opinions=opinions, votes=votes):
        words = _with_column(store, parts, rows.drop("turn"), "opinion").unnest("opinion").remove(_SAYS_NOTHING)
        new_parts.append(store.write_part("reactions", _as_rows(words, Reaction)))
    store.list_parts("reactions", new_parts)


def _with_column(store: Store, parts: Sequence[str], rows: pl.DataFrame, column: str) -> pl.DataFrame:
    """Rows with a column of the sightings whose numbers of part and row they have."""
    frames = [rows.clear().with_row_index("number").with_columns(store.empty("sightings", [column])[column])]
    # a part is read once for all rows of it, which get their numbers back afterwards
    for (part,), rows_of_part in rows.with_row_index("number").partition_by("part", as_dict=True).items():
        values = store.read_part("sightings", parts[int(str(part))], [column])[column]
        frames.append(rows_of_part.with_columns(values.gather(rows_of_part["row"])))
    return pl.concat(frames).sort("number").drop("number")


def _as_rows(rows: pl.DataFrame, row: type[Battle] | type[Conversation] | type[Reaction]) -> pl.DataFrame:
    """The columns that the table declares, cast to their types."""
    rows = rows.with_columns(day=pl.col("first_tstamp").dt.date())
    return rows.select(pl.col(name).cast(kind) for name, kind in frame_schema(row).items())


def _texts(store: Store, parts: Sequence[str], last: pl.DataFrame) -> pl.Series:
    """The messages of each row's sighting; a message is null where the log held null."""
    text_frames = [pl.DataFrame(schema={"part": pl.Int32, "row": pl.UInt32, "texts": pl.List(pl.String)})]
    # a part is read once for all rows of it
    for (part,), rows in last.select("part", "row").partition_by("part", as_dict=True).items():
        sightings = store.read_part("sightings", parts[int(str(part))], ["source", "conv_id", "texts"]).with_row_index(
            "row"
        )
        # of one sighting the row with its texts: one without takes them from the next of its source and conv_id
        holder = pl.when(pl.col("texts").is_not_null()).then("row").backward_fill().over("source", "conv_id")
        text_frames.append(
            rows.with_columns(texts=sightings["texts"].gather(sightings.select(holder).to_series().gather(rows["row"])))
        )
    with_texts = last.join(pl.concat(text_frames), on=["part", "row"], how="left", maintain_order="left")
    return with_texts.select(pl.col("texts").list.head("num_messages")).to_series()


def _with_served(store: Store, parts: Sequence[str], last: pl.DataFrame) -> pl.DataFrame:
    """`served` with what the log says of each answer, in place of the sightings that have it."""
    # a row is one answer that the final state still has
    served_rows = last.select("conversation_id", "num_messages", "served").explode("served").drop_nulls("served")
    served_rows = served_rows.unnest("served").filter(pl.col("turn") < pl.col("num_messages"))
    if served_rows.is_empty():
        return last.with_columns(served=None)
    # a row is the same answer with what the log says of it
    answers = _with_column(store, parts, served_rows, "served").unnest("served").sort("conversation_id", "turn")
    ids = [None if text is None else text_id(text) for text in answers["thinking"]]
    answers = answers.with_columns(thinking_id=pl.Series(ids, dtype=pl.String))
    by_conversation = answers.group_by("conversation_id").agg(served=pl.struct(*ServedAnswer.model_fields))
    return last.drop("served").join(by_conversation, on="conversation_id", how="left", maintain_order="left")


def with_turns(rows: pl.DataFrame) -> pl.DataFrame:
    """Add the columns computed from `texts` and the images: turns, null_turns, num_turns, prompt_id, document_id."""
    is_user = pl.col("place") % 2 == 0
    # A row is one message of one conversation, with its number in it: users write the even ones.
    messages = (
        rows.select("conversation_id", "texts")
        .explode("texts")
        .with_columns(place=pl.int_range(pl.len()).over("conversation_id"), content=pl.col("texts").fill_null(""))
        .with_columns(role=pl.when(is_user).then(pl.lit(Role.USER.value)).otherwise(pl.lit(Role.ASSISTANT.value)))
    )
    messages = messages.join(_shown(rows), on=["conversation_id", "place"], how="left", maintain_order="left")
    messages = messages.with_columns(pl.col("images").fill_null(pl.lit([], dtype=_SHOWN)))
    id_of = cache(text_id)  # both sides of a battle have the same prompt, which is often the only user message
    messages = messages.with_columns(text_id=pl.Series(map(id_of, messages["content"]), dtype=pl.String))
    by_conversation = messages.group_by("conversation_id", maintain_order=True).agg(
        turns=pl.struct("role", "content", "text_id", "images"),
        null_turns=pl.col("place").filter(pl.col("texts").is_null()),
        num_turns=is_user.sum(),
        prompt=pl.col("content").filter(is_user).str.join("\n\n"),
    )
    rows = rows.join(by_conversation, on="conversation_id", how="left", maintain_order="left")
    rows = rows.with_columns(prompt_id=pl.Series(map(id_of, rows["prompt"]), dtype=pl.String))
    # an id is that of one prompt: of its text and its images, in order
    documents = [
        combined_id("document", [prompt_id, *ids])
        for prompt_id, ids in rows.select("prompt_id", "image_ids").iter_rows()
    ]
    return rows.with_columns(document_id=pl.Series(documents, dtype=pl.String))


def _shown(rows: pl.DataFrame) -> pl.DataFrame:
    """conversation_id, place of a message, and its `images`. An image of a message that is gone stands in the first."""
    places = rows.select("conversation_id", "image_places", sent=pl.col("texts").list.len())
    places = places.explode("image_places").drop_nulls("image_places").unnest("image_places")
    is_kept_message = pl.col("message") < pl.col("sent")
    # A row is one image where a message shows it.
    placed_images = places.select(
        "conversation_id", "image", place=pl.when(is_kept_message).then("message").otherwise(0).cast(pl.Int64),
        character=pl.when(is_kept_message).then("character").otherwise(0),
    )  # fmt: skip
    by_message = placed_images.group_by("conversation_id", "place", maintain_order=True)
    return by_message.agg(images=pl.struct("image", "character"))


def by_logged_name(image_files: pl.DataFrame) -> pl.DataFrame:
    """`images` (a logged name), image_id and problem: of the files of a name, the `.png`, else the first."""
    # A row is one logged name, which is that of a file without its ending.
    return (
        image_files.select(
            "name", "image_id", "problem",
            images=pl.col("name").str.replace(r"\.[a-z]+$", ""), exact=pl.col("name").str.ends_with(".png"),
        )
        .sort("exact", "name", descending=[True, False])
        .unique("images", keep="first", maintain_order=True)
        .select("images", "image_id", "problem")
    )  # fmt: skip


def with_images(last: pl.DataFrame, of_names: pl.DataFrame) -> pl.DataFrame:
    """Add `image_ids` and `image_problems`; `of_names` is `by_logged_name`.

    `image` in `image_places` becomes an index in `image_ids`; places of images that cannot be used are left out.
    """
    # a row is one logged image of a conversation, in order; below, with its id where the file could be read
    names = last.select("conversation_id", "images").explode("images").drop_nulls("images")
    named_images = names.join(of_names, on="images", how="left", maintain_order="left")
    # A row is one conversation with its distinct images, and its problems with others.
    images_by_conversation = (
        named_images.with_columns(
            problem=pl.when(pl.col("image_id").is_null()).then(pl.col("problem").fill_null("image_missing"))
        )
        .group_by("conversation_id", maintain_order=True)
        .agg(pl.col("image_id", "problem").drop_nulls().unique(maintain_order=True))
    )
    empty = pl.lit([], dtype=pl.List(pl.String))
    last = last.drop("image_places").join(
        _placed(last, named_images), on="conversation_id", how="left", maintain_order="left"
    )
    return last.join(images_by_conversation, on="conversation_id", how="left", maintain_order="left").with_columns(
        image_ids=pl.col("image_id").fill_null(empty),
        image_problems=pl.concat_list("name_problems", pl.col("problem").fill_null(empty)),
    )


def _placed(last: pl.DataFrame, named_images: pl.DataFrame) -> pl.DataFrame:
    """conversation_id and `image_places` with indexes in `image_ids`.

    `named_images` has the image_id of each logged name of a conversation.
    """
    key = "conversation_id"
    # a row is one logged image with its number in the conversation; in `ids` each image is once, with its place there
    names = named_images.with_columns(image=pl.int_range(pl.len()).over(key).cast(pl.Int32))
    ids = names.drop_nulls("image_id").unique([key, "image_id"], keep="first", maintain_order=True)
    ids = ids.select(key, "image_id", at=pl.int_range(pl.len()).over(key).cast(pl.Int32))
    # a row leads from the number of a logged image to its place in `image_ids`
    index = names.select(key, "image", "image_id").join(ids, on=[key, "image_id"])
    # A row is one place of an image, with the number of its logged name in the conversation.
    places = last.select(key, "image_places").explode("image_places").drop_nulls("image_places").unnest("image_places")
    indexed_places = places.join(index, on=[key, "image"], maintain_order="left")
    place = pl.struct("message", "character", image="at")
    return indexed_places.group_by(key, maintain_order=True).agg(image_places=place)
