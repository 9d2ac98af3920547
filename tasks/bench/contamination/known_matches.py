"""Finds which conversations show a picture of a known benchmark, ask its question, or both.

In: `known_images` (`known_index.py`), `known_questions`, and what users asked. Out: `known_matches`. A
question counts by the rule of `curate bench check`: equal words, or half of the runs of four words of a
question of at least 13. A shorter one is too common alone; beside a picture of its benchmark it counts when a message
holds its words in a row.
"""

from collections.abc import Iterator

import polars as pl

from schemas.benches.known import KnownMatch, ShownAs
from tasks.bench.contamination.prompt_index import DISTINCTIVE_WORDS, PromptIndex, joined_words
from tasks.storage.parquet import compact
from tasks.storage.queries.texts import TEXTS_AT_ONCE
from tasks.storage.tables import Store, frame_schema

OVERLAP_MIN = 0.5
"""Share of a question's runs of four words that a message must hold."""
SHORT_WORDS_MIN = 4
"""A question of fewer words is no evidence, even beside a picture of its benchmark."""
_SHOWN = """
    -- a row is one conversation and an image of a known benchmark that it shows
    SELECT conversation_id, benchmark, shown_as, picture
    FROM (SELECT DISTINCT conversation_id, unnest(image_ids) AS image_id FROM conversations)
    JOIN known_images USING (image_id)
"""
_ASKED = """
    -- a row is one conversation, and the messages of its user
    SELECT conversation_id, said_by('user', "turns.content", "turns.role") AS messages FROM conversations
"""
_MATCH = {"conversation_id": pl.String, "benchmark": pl.String}
_QUESTION = {**_MATCH, "question": pl.String, "overlap": pl.Float32}


def find_matches(store: Store) -> pl.DataFrame:
    """The rows of `known_matches`: one for each conversation and benchmark of which it holds something."""
    if store.height("known_sources") == 0:
        return store.empty("known_matches")
    closest = pl.col("shown_as").cast(pl.Enum(ShownAs))
    rows = store.ask(_SHOWN).sort("conversation_id", "benchmark", closest, "picture")
    picture_rows = rows.unique(["conversation_id", "benchmark"], keep="first", maintain_order=True)
    questions = store.read("known_questions")
    question_rows = pl.concat([pl.DataFrame(schema=_QUESTION), *_asked(store, questions, picture_rows)])
    best = question_rows.sort("conversation_id", "benchmark", -pl.col("overlap"), "question")
    best = best.unique([*_MATCH], keep="first", maintain_order=True)
    matches = picture_rows.join(best, on=[*_MATCH], how="full", coalesce=True).sort("conversation_id", "benchmark")
    return matches.select(frame_schema(KnownMatch).names())


def _asked(store: Store, questions: pl.DataFrame, picture_rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Rows of `_QUESTION` for the questions that are asked, some conversations at a time."""
    if questions.is_empty():
        return
    words = joined_words(questions["question"])
    spelled = questions.with_columns(words=words, count=words.str.count_matches(" ") + 1)
    index = PromptIndex(questions["question"], OVERLAP_MIN)
    for conversations in store.batches(_ASKED, TEXTS_AT_ONCE):
        messages = compact(conversations).explode("messages").drop_nulls("messages")
        overlaps = index.find(messages["messages"])
        of_message = messages["conversation_id"].gather(overlaps["row"])
        of_question = spelled[overlaps["prompt"]]
        question_rows = of_question.select(
            "benchmark", "question", "count", overlap=overlaps["overlap"].cast(pl.Float32)
        )
        question_rows = question_rows.with_columns(conversation_id=of_message)
        beside = question_rows.join(picture_rows, on=[*_MATCH], how="semi")
        short = _short(messages.join(picture_rows, on="conversation_id"), spelled)
        evident = question_rows.filter(pl.col("count") >= DISTINCTIVE_WORDS)
        yield pl.concat(frame.select(_QUESTION.keys()) for frame in (evident, beside, short))


def _short(messages: pl.DataFrame, spelled: pl.DataFrame) -> pl.DataFrame:
    """Questions of fewer than 13 words whose words stand in a row in a message beside a picture of their benchmark.

    `messages` has conversation_id, messages and benchmark; `spelled` benchmark, question, words and count.
    """
    frames = [pl.DataFrame(schema=_QUESTION)]
    is_short = pl.col("count").is_between(SHORT_WORDS_MIN, DISTINCTIVE_WORDS - 1)
    for (benchmark,), of_benchmark in messages.group_by("benchmark"):
        questions = spelled.filter(is_short, benchmark=benchmark).unique("words", keep="first", maintain_order=True)
        if questions.is_empty():
            continue
        framed = pl.format(" {} ", "words")
        # One row is one message, its words between blanks, so that only whole words of it match.
        texts = joined_words(of_benchmark["messages"]).rename("words").to_frame().select(framed).to_series()
        patterns = questions.select(framed).to_series()
        framed_held = texts.str.extract_many(patterns.implode(), overlapping=True)
        # A row is one question that a message holds.
        rows = of_benchmark.select("conversation_id", framed=framed_held).explode("framed").drop_nulls("framed")
        framed_questions = questions.with_columns(framed=patterns)
        frames.append(
            rows.join(framed_questions, on="framed")
            .with_columns(overlap=pl.lit(1.0, pl.Float32))
            .select(_QUESTION.keys())
        )
    return pl.concat(frames)
