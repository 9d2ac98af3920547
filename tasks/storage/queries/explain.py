"""Explains from the tables alone why an item is kept or dropped, and why a released row is not in a later release."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from schemas.tables import SIGNALS
from tasks.storage.keyed_ids import Tombstones, store_key
from tasks.storage.queries.released import renamed
from tasks.storage.queries.signals import latest_values
from tasks.storage.queries.stored_items import StoredItems, StoredRow, pairs_with, value_columns
from tasks.storage.tables import Store

Account = dict[str, Any]
"""Nested values, printed as JSON by `curate explain`."""

IMAGE_RELATIONS = {"perceptual": "near_images", "semantic": "semantic_images"}
"""How two different images can be alike -> the table with such pairs; the closer relation comes first."""
_SIDES = ("conversation_a", "conversation_b")


def explain_item(store: Store, item: str, signals: Collection[str] = SIGNALS) -> Account | None:
    """The explanation of a conversation, battle, image, user, logged image name, quarantined item or `LOGFILE:LINE`.

    Its first key says which of them it is. None when the store does not have it. `signals`: those whose values it has
    of a conversation or battle.
    """
    if quarantined := _quarantined(store, item):
        return quarantined
    items = StoredItems(store, [item])
    if account := conversation_account(items, item, signals) or battle_account(items, item, signals):
        return account
    kinds = (_image, _user, _line, _logged_image)
    return next(filter(None, (kind(store, item) for kind in kinds)), None)


def conversation_account(items: StoredItems, item: str, signals: Collection[str] = SIGNALS) -> Account | None:
    """The account of a conversation among the items, with the values of these signals; None when it is not stored."""
    row = items.conversations.get(item)
    if row is None:
        return None
    decision = _decision(items, "conversation", item)
    roles_and_ids = zip(row["turns.role"], row["turns.text_id"], strict=True)
    messages = [{"role": role, "signals": items.values_of(text_id, signals)} for role, text_id in roles_and_ids]
    logged_name = pl.DataFrame([row], schema=items.store.empty("conversations", ["model", "tstamp"]).schema)
    return {
        "conversation": item,
        "decision": decision,
        "twin": _duplicate_match(items, row, decision["duplicate_of"]) if decision else None,
        "near_prompt": _without(items.near_prompts.get(item), "conversation_a"),
        "known_benchmarks": [_without(match, "conversation_id") for match in items.known_matches.get(item, [])],
        "model": row["model"],
        "released_as": renamed(logged_name, items.policy.renames)["model"].item(),
        "user_id": row["user_id"],
        "source": f"{row['source']}:{row['line']}",
        "name_problems": row["image_problems"],
        "unread_parts": row["unread_parts"] or [],
        "images": {image_id: items.values_of(image_id, signals) for image_id in row["image_ids"]},
        "messages": messages,
        "served": [
            answer | {"signals": items.values_of(answer["thinking_id"], signals) if answer["thinking_id"] else {}}
            for answer in _served(row)
        ],
        "prompt": items.values_of(row["prompt_id"], signals),
        "document": items.values_of(row["document_id"], signals),
        "battle": battle_account(items, item, signals),
    }


def _served(row: StoredRow) -> list[Account]:
    """How each answer of a conversation came, without what the model thought."""
    fields = {
        name.removeprefix("served."): answer_values or []
        for name, answer_values in row.items()
        if name.startswith("served.")
    }
    return [dict(zip(fields, answer, strict=True)) for answer in zip(*fields.values(), strict=True)]


def battle_account(items: StoredItems, item: str, signals: Collection[str] = SIGNALS) -> Account | None:
    """The account of the battle with this id, or of the one that has the conversation with this id as a side."""
    vote = items.battle(item)
    if vote is None:
        return None
    return {
        "battle": vote["battle_id"],
        "decision": _decision(items, "battle", vote["battle_id"]),
        "vote": vote,
        "vote_reason": items.values_of(vote["vote_reason_id"], signals) if vote["vote_reason_id"] else None,
        "sides": {side: _decision(items, "conversation", vote[side]) for side in _SIDES},
    }


def _decision(items: StoredItems, kind: str, item: str) -> Account | None:
    return _without(items.decisions.get((kind, item)), "item_kind", "item_id")


def _without(row: StoredRow | None, *columns: str) -> Account | None:
    return None if row is None else {name: value for name, value in row.items() if name not in columns}


_QUARANTINED = """
    -- a row is one quarantined item: kind, key and cause
    SELECT * FROM quarantine WHERE key = $item
"""
_IMAGES = """
    -- a row is one image
    SELECT image_id, format, width, height FROM images WHERE image_id = $item
"""
_SHOWING = """
    -- a row is one conversation that shows the image
    SELECT conversation_id FROM conversations WHERE list_contains(image_ids, $item)
"""
_LINE_OUTCOMES = """
    -- a row is the outcome of the line
    SELECT source, line, outcome, reason FROM line_outcomes WHERE source = $source AND line = $line
"""
_REJECTED = """
    -- a row is one reason for which the line was rejected
    SELECT * FROM rejects WHERE source = $source AND line = $line
"""
_OF_LINE = """
    -- a row is one conversation whose last state is in the line
    SELECT conversation_id FROM conversations WHERE source = $source AND line = $line
"""
_NOW = """
    -- a row is one line with the last state of a conversation of which the given line holds an earlier one
    SELECT DISTINCT source, line
    FROM conversations
    SEMI JOIN (
        SELECT source, line
        FROM sightings
        SEMI JOIN (SELECT conv_id, opening_id FROM sightings WHERE source = $source AND line = $line) AS earlier
        USING (conv_id, opening_id)
    ) AS states USING (source, line)
    ORDER BY source, line
"""
_OF_USER = """
    -- a row is one conversation of the user
    SELECT conversation_id FROM conversations WHERE user_id = $item
"""
_OF_JUDGE = """
    -- a row is one vote of the user
    SELECT battle_id FROM battles WHERE judge = $item
"""
_FILES = """
    -- a row is one image file that has the name, but for its ending
    SELECT name, image_id, problem FROM image_files WHERE regexp_replace(name, '\\.[^.]*$', '') = $item
"""
_NAMING = """
    -- a row is one line that names the image
    SELECT DISTINCT source, line FROM sightings WHERE list_contains(images, $item) ORDER BY source, line
"""


def _row(frame: pl.DataFrame) -> Account | None:
    return frame.row(0, named=True) if frame.height else None


def _image(store: Store, item: str) -> Account | None:
    row = _row(store.ask(_IMAGES, item=item))
    if row is None:
        return None
    values = {signal: latest_values(store, signal, [item], value_columns(signal)).get(item) for signal in SIGNALS}
    return {
        "image": row,
        "signals": {signal: value for signal, value in values.items() if value is not None},
        "conversations": store.ask(_SHOWING, item=item)["conversation_id"].to_list(),
        "near_duplicates": pairs_with(store, "near_images", [item]).to_dicts(),
        "semantic_duplicates": pairs_with(store, "semantic_images", [item]).to_dicts(),
    }


def _line(store: Store, item: str) -> Account | None:
    source, _, number = item.rpartition(":")
    if not number.isdecimal():
        return None
    named = {"source": source, "line": int(number)}
    outcome = _row(store.ask(_LINE_OUTCOMES, **named))
    if outcome is None:
        return None
    conversation_ids = store.ask(_OF_LINE, **named)["conversation_id"].to_list()
    return {
        "line": outcome,
        "rejected": _row(store.ask(_REJECTED, **named)),
        "conversations": conversation_ids,
        "now": [] if conversation_ids else _places(store.ask(_NOW, **named)),
    }


def _places(lines: pl.DataFrame) -> list[str]:
    """LOGFILE:LINE of each line."""
    return [f"{source}:{line}" for source, line in lines.iter_rows()]


def _user(store: Store, item: str) -> Account | None:
    """Conversations and votes of a user or judge, by the keyed hash."""
    mine = store.ask(_OF_USER, item=item)["conversation_id"]
    votes = store.ask(_OF_JUDGE, item=item)["battle_id"]
    if mine.is_empty() and votes.is_empty():
        return None
    return {"user": item, "conversations": mine.to_list(), "battles": votes.to_list()}


def _quarantined(store: Store, item: str) -> Account | None:
    """Kind, key and cause; nothing else of a quarantined item is ever read."""
    row = _row(store.ask(_QUARANTINED, item=item))
    return row and {"quarantined": row}


def _logged_image(store: Store, item: str) -> Account | None:
    """An image name of the logs from which no image was read: the problems of its files, and lines that name it."""
    files, lines = store.ask(_FILES, item=item), store.ask(_NAMING, item=item)
    if files["image_id"].count() or (files.is_empty() and lines.is_empty()):
        return None
    return {"logged_image": item, "files": files.to_dicts(), "lines": _places(lines)}


def _duplicate_match(items: StoredItems, row: StoredRow, match_id: str | None) -> Account | None:
    """Similarity of a conversation and the one that it repeats; None when that is not in the store."""
    match = items.conversations.get(match_id) if match_id else None
    if match is None:
        return None
    image_pairs = zip(row["image_ids"], match["image_ids"], strict=False)
    return {
        "conversation": match_id,
        "source": f"{match['source']}:{match['line']}",
        "images": [_alike(items, one, other) for one, other in image_pairs],
        "same_prompt": row["prompt_id"] == match["prompt_id"],
        "prompt_cosine": _cosine(items, row["prompt_id"], match["prompt_id"]),
    }


def _alike(items: StoredItems, one: str, other: str) -> Account:
    """The relation of two images: equal, a stored pair, or both paired with a third image that represents them."""
    ends = {"image": one, "twin": other}
    if one == other:
        return ends | {"relation": "exact"}
    near: dict[str, set[str]] = {one: set(), other: set()}
    for relation, table in IMAGE_RELATIONS.items():
        pairs = items.pairs(table)
        direct = pairs.filter(image_a=min(one, other), image_b=max(one, other))
        if direct.height:
            return ends | {"relation": relation} | direct.drop("image_a", "image_b").row(0, named=True)
        for end, others in near.items():
            touching = pairs.filter((pl.col("image_a") == end) | (pl.col("image_b") == end))
            others |= {*touching["image_a"], *touching["image_b"]} - {end}
    return ends | {"relation": "through", "both_like": sorted(near[one] & near[other])}


def _cosine(items: StoredItems, one: str, other: str) -> float | None:
    """Cosine of the prompts' embeddings, of the latest version that has both; None when there is none."""
    if one == other:
        return 1.0
    rows = items.vectors.filter(pl.col("content_id").is_in([one, other]))
    both = rows.unique(["content_id", "version"]).group_by("version").agg("vector", pl.col("measured_at").max())
    paired = both.filter(pl.col("vector").list.len() == 2).sort("measured_at")
    if paired.is_empty():
        return None
    a, b = paired["vector"].to_list()[-1]
    return round(float(np.dot(a, b)), 4)


ReasonsReader = Callable[[str, Sequence[str]], Mapping[str, list[str]]]
"""Function of a configuration and released ids that returns the reasons for each id."""
_OTHERWISE = {"chat": "its prompt is in the benchmark", "bench": "not drawn", "failures": "not drawn"}


def removal_reasons(store: Store) -> ReasonsReader:
    """A function that looks the reasons up; every call reads the decisions once.

    It raises BadInput when a row is not in the store and the store's key is not available, because the key is needed
    to recognise what was taken down.
    """

    def reasons(config: str, ids: Sequence[str]) -> dict[str, list[str]]:
        battles = _battle_ids(store, ids) if config == "battle" else {}
        decided = _decided_reasons(store, [*ids, *battles.values()])
        gone = [key for key in ids if ("conversation", key) not in decided]
        takedown_parts = gone and store.parts("takedowns")
        taken = Tombstones(store, store_key(store)).conversations(gone) if takedown_parts else set()
        reasons_by_id = {}
        for key in ids:
            own_reasons = decided.get(("conversation", key))
            if own_reasons is None:
                reasons_by_id[key] = ["taken down" if key in taken else "not in the store"]
            else:
                of_vote = decided.get(("battle", battles.get(key, "")), [])
                reasons_by_id[key] = list(dict.fromkeys([*of_vote, *own_reasons])) or [_OTHERWISE.get(config, "kept")]
        return reasons_by_id

    return reasons


_BATTLE_IDS = """
    -- a row is one battle, which a release names by its left side
    SELECT conversation_a, battle_id FROM battles SEMI JOIN wanted ON conversation_a = item_id
"""
_DECIDED_REASONS = """
    -- a row is one item and the reasons for which it is dropped or held
    SELECT item_kind, item_id, reasons FROM decisions SEMI JOIN wanted USING (item_id)
"""


def _battle_ids(store: Store, ids: Sequence[str]) -> dict[str, str]:
    return dict(store.ask(_BATTLE_IDS, wanted=pl.DataFrame({"item_id": ids}, {"item_id": pl.String})).iter_rows())


def _decided_reasons(store: Store, ids: Sequence[str]) -> dict[tuple[str, str], list[str]]:
    rows = store.ask(_DECIDED_REASONS, wanted=pl.DataFrame({"item_id": ids}, {"item_id": pl.String})).iter_rows()
    return {(kind, item_id): reasons for kind, item_id, reasons in rows}
