"""Which conversations of a release are exported: a function of the release, the selection and its seed."""

import hashlib
from collections import Counter
from pathlib import Path

import polars as pl

from schemas.errors import BadInput
from schemas.export import SftSelection
from tasks.parquet import compact, read_parquet_groups
from tasks.release.shards import shards

_COLUMNS = ["conversation_id", "model", "topic", "conversation"]


def top_models(release: Path, chat: pl.DataFrame, count: int) -> list[str]:
    """The best models of the overall leaderboard that have conversations, best first.

    Raises BadInput when the leaderboard rates none of them.
    """
    board = release / "leaderboard" / "overall.parquet"
    rated = (
        pl.concat(read_parquet_groups(board))
        if board.is_file()
        else pl.DataFrame(schema={"model": pl.String, "rating": pl.Float64, "slice": pl.String})
    )
    overall = rated.filter(pl.col("slice") == "overall")  # the file has a row a model for each exclusion as well
    known = overall.filter(pl.col("model").is_in(chat["model"].unique().implode()))
    if known.is_empty():
        raise BadInput(f"{str(release)!r}: no model of the overall leaderboard has a conversation in chat")
    return known.sort("rating", "model", descending=[True, False])["model"].head(count).to_list()


def select(release: Path, selection: SftSelection) -> list[str]:
    """conversation_ids in the order they are exported. Conversations without a last answer are left out."""
    last = pl.col("conversation").list.last().struct
    answered = (last.field("role") == "assistant") & (last.field("content").str.strip_chars() != "")
    groups = (group for shard in shards(release, "chat") for group in read_parquet_groups(shard, _COLUMNS))
    named = [*_COLUMNS[:-1], answered.alias("answered")]
    chat = pl.concat(compact(group.select(named)) for group in groups)  # texts stay on disk
    models = top_models(release, chat, selection.models)
    rows = chat.filter(pl.col("answered") & pl.col("model").is_in(models)).drop("answered")
    drawn = sorted(rows.iter_rows(), key=lambda row: _place(selection.seed, row[0]))
    chosen: list[str] = []
    of_model: Counter[str] = Counter()
    of_topic: Counter[str | None] = Counter()
    for conversation_id, model, topic in drawn:
        if len(chosen) == selection.conversations:
            break
        if _full(of_model[model], selection.per_model) or _full(of_topic[topic], selection.per_topic):
            continue
        chosen.append(conversation_id)
        of_model[model] += 1
        of_topic[topic] += 1
    return chosen


def _full(count: int, limit: int | None) -> bool:
    return limit is not None and count >= limit


def _place(seed: int, conversation_id: str) -> bytes:
    """A random number that stays with the conversation when others come or go."""
    return hashlib.blake2b(f"{seed} {conversation_id}".encode(), digest_size=16).digest()
