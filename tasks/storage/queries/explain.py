"""Explains from the tables alone why an item is kept or dropped, and why a released row is not in a later release."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from schemas.tables import SIGNALS
from tasks.storage.keyed_ids import Tombstones, store_key
from tasks.storage.queries.released import released_names
from tasks.storage.queries.signals import table_name
from tasks.storage.records import line_outcomes
from tasks.storage.tables import Store

Account = dict[str, Any]
"""Nested values, printed as JSON by `curate explain`."""

RELATIONS = {"perceptual": "near_images", "semantic": "semantic_images"}
"""How two different images can be alike -> the table with such pairs; the closer relation comes first."""


def explain_item(store: Store, item: str) -> Account | None:
    """The explanation of a conversation, battle, image, user, logged image name, quarantined item or `LOGFILE:LINE`.

    Its first key says which of them it is. None when the store does not have it.
    """
    kinds = (_quarantined, _conversation, _battle, _image, _user, _line, _logged_image)
    return next(filter(None, (kind(store, item) for kind in kinds)), None)


def _row(frame: pl.DataFrame) -> Account | None:
    return frame.row(0, named=True) if frame.height else None


def _decision(store: Store, kind: str, item: str) -> Account | None:
    return _row(store.read("decisions").filter(item_kind=kind, item_id=item).drop("item_kind", "item_id"))


def _conversation(store: Store, item: str) -> Account | None:
    frame = store.read("conversations").filter(conversation_id=item)
    row = _row(frame)
    if row is None:
        return None
    decision = _decision(store, "conversation", item)
    messages = [{"role": turn["role"], "signals": _signals(store, turn["text_id"])} for turn in row["turns"]]
    return {
        "conversation": item,
        "decision": decision,
        "twin": _duplicate_match(store, row, decision["duplicate_of"] if decision else None),
        "near_prompt": _row(store.read("near_prompts").filter(conversation_a=item).drop("conversation_a")),
        "model": row["model"],
        "released_as": released_names(store, frame)["model"].item(),
        "user_id": row["user_id"],
        "source": f"{row['source']}:{row['line']}",
        "name_problems": row["image_problems"],
        "unread_parts": row["unread_parts"] or [],
        "images": {image_id: _signals(store, image_id) for image_id in row["image_ids"]},
        "messages": messages,
        "served": [
            {name: value for name, value in told.items() if name != "thinking"}
            | {"signals": _signals(store, told["thinking_id"]) if told["thinking_id"] else {}}
            for told in row["served"] or []
        ],
        "prompt": _signals(store, row["prompt_id"]),
        "document": _signals(store, row["document_id"]),
        "battle": _battle(store, item),
    }


def _battle(store: Store, item: str) -> Account | None:
    """The battle with this id, or the battle that has the conversation with this id as one of its sides."""
    sought = (pl.col("battle_id") == item) | (pl.col("conversation_a") == item) | (pl.col("conversation_b") == item)
    row = _row(store.read("battles").filter(sought))
    if row is None:
        return None
    sides = {side: _decision(store, "conversation", row[side]) for side in ("conversation_a", "conversation_b")}
    battle_id = row["battle_id"]
    words = _signals(store, row["vote_reason_id"]) if row["vote_reason_id"] else None
    vote = {name: value for name, value in row.items() if name != "vote_reason"}
    decision = _decision(store, "battle", battle_id)
    return {"battle": battle_id, "decision": decision, "vote": vote, "vote_reason": words, "sides": sides}


def _image(store: Store, item: str) -> Account | None:
    row = _row(store.read("images", ["image_id", "format", "width", "height"]).filter(image_id=item))
    if row is None:
        return None
    used = store.read("conversations", ["conversation_id", "image_ids"]).filter(pl.col("image_ids").list.contains(item))
    paired = (pl.col("image_a") == item) | (pl.col("image_b") == item)
    return {
        "image": row,
        "signals": _signals(store, item),
        "conversations": used["conversation_id"].to_list(),
        "near_duplicates": store.read("near_images").filter(paired).to_dicts(),
        "semantic_duplicates": store.read("semantic_images").filter(paired).to_dicts(),
    }


def _line(store: Store, item: str) -> Account | None:
    source, _, number = item.rpartition(":")
    if not number.isdecimal():
        return None
    outcome = _row(line_outcomes(store).filter(source=source, line=int(number)))
    if outcome is None:
        return None
    rejected = store.read("rejects").filter(source=source, line=int(number))
    known = store.read("conversations", ["conversation_id", "source", "line"]).filter(source=source, line=int(number))
    return {
        "line": outcome,
        "rejected": _row(rejected),
        "conversations": known["conversation_id"].to_list(),
        "now": [] if known.height else _now(store, source, int(number)),
    }


def _now(store: Store, source: str, line: int) -> list[str]:
    """LOGFILE:LINE of the lines that hold the latest state of the conversations in a line; empty when they are gone."""
    said = store.read("sightings", ["source", "line", "conv_id", "opening_id"]).filter(source=source, line=line)
    states = store.read("sightings", ["source", "line", "conv_id", "opening_id"]).join(
        said.select("conv_id", "opening_id"), on=["conv_id", "opening_id"], how="semi"
    )
    latest = store.read("conversations", ["source", "line"]).join(states, on=["source", "line"], how="semi")
    return [f"{source}:{line}" for source, line in latest.unique().sort("source", "line").iter_rows()]


def _user(store: Store, item: str) -> Account | None:
    """Conversations and votes of a user or judge, by the keyed hash."""
    mine = store.read("conversations", ["conversation_id", "user_id"]).filter(user_id=item)["conversation_id"]
    votes = store.read("battles", ["battle_id", "judge"]).filter(judge=item)["battle_id"]
    if mine.is_empty() and votes.is_empty():
        return None
    return {"user": item, "conversations": mine.to_list(), "battles": votes.to_list()}


def _quarantined(store: Store, item: str) -> Account | None:
    """Kind, key and cause; nothing else of a quarantined item is ever read."""
    row = _row(store.read("quarantine").filter(key=item))
    return row and {"quarantined": row}


def _logged_image(store: Store, item: str) -> Account | None:
    """An image name of the logs from which no image was read: the problems of its files, and lines that name it."""
    files = store.read("image_files", ["name", "image_id", "problem"])
    files = files.filter(pl.col("name").str.replace(r"\.[^.]*$", "") == item)
    rows = store.read("sightings", ["source", "line", "images"]).filter(pl.col("images").list.contains(item))
    if files["image_id"].count() or (files.is_empty() and rows.is_empty()):
        return None
    lines = rows.select("source", "line").unique().sort("source", "line").iter_rows()
    return {"logged_image": item, "files": files.to_dicts(), "lines": [f"{source}:{line}" for source, line in lines]}


def _signals(store: Store, content_id: str) -> Account:
    """Latest stored values of an image, text or document, by signal; vectors and thumbnails are left out."""
    found: Account = {}
    for name in SIGNALS:
        rows = store.read(table_name(name)).filter(content_id=content_id)
        if rows.height:
            found[name] = rows.drop("content_id", "vector", "grey", strict=False).row(-1, named=True)
    return found


def _duplicate_match(store: Store, item: Account, match_id: str | None) -> Account | None:
    """Similarity of the conversation `item` and the one that it repeats; None when that is not in the store."""
    match = _row(store.read("conversations").filter(conversation_id=match_id)) if match_id else None
    if match is None:
        return None
    shown = zip(item["image_ids"], match["image_ids"], strict=False)
    return {
        "conversation": match_id,
        "source": f"{match['source']}:{match['line']}",
        "images": [_alike(store, one, other) for one, other in shown],
        "same_prompt": item["prompt_id"] == match["prompt_id"],
        "prompt_cosine": _cosine(store, item["prompt_id"], match["prompt_id"]),
    }


def _alike(store: Store, one: str, other: str) -> Account:
    """The relation of two images: equal, a stored pair, or both paired with a third image that represents them."""
    ends = {"image": one, "twin": other}
    if one == other:
        return ends | {"relation": "exact"}
    near: dict[str, set[str]] = {one: set(), other: set()}
    for relation, table in RELATIONS.items():
        pairs = store.read(table)
        direct = pairs.filter(image_a=min(one, other), image_b=max(one, other))
        if direct.height:
            return ends | {"relation": relation} | direct.drop("image_a", "image_b").row(0, named=True)
        for end, others in near.items():
            touching = pairs.filter((pl.col("image_a") == end) | (pl.col("image_b") == end))
            others |= {*touching["image_a"], *touching["image_b"]} - {end}
    return ends | {"relation": "through", "both_like": sorted(near[one] & near[other])}


def _cosine(store: Store, one: str, other: str) -> float | None:
    """Cosine of the prompts' embeddings, of the latest version that has both; None when there is none."""
    if one == other:
        return 1.0
    rows = store.read(table_name("text_embedding")).filter(pl.col("content_id").is_in([one, other]))
    both = rows.unique(["content_id", "version"]).group_by("version").agg("vector", pl.col("measured_at").max())
    known = both.filter(pl.col("vector").list.len() == 2).sort("measured_at")
    if known.is_empty():
        return None
    a, b = known["vector"].to_list()[-1]
    return round(float(np.dot(a, b)), 4)


Reasons = Callable[[str, Sequence[str]], Mapping[str, list[str]]]
"""Function of a configuration and released ids that returns the reasons for each id."""
_OTHERWISE = {"chat": "its prompt is in the benchmark", "bench": "not drawn", "failures": "not drawn"}


def removal_reasons(store: Store) -> Reasons:
    """A function that looks the reasons up; every call reads the decisions once.

    It raises BadInput when a row is not in the store and the store's key is not available, because the key is needed
    to recognise what was taken down.
    """

    def reasons(config: str, ids: Sequence[str]) -> dict[str, list[str]]:
        battles = dict(_battles(store, ids)) if config == "battle" else {}
        decided = dict(_decided(store, [*ids, *battles.values()]))
        gone = [key for key in ids if ("conversation", key) not in decided]
        known = gone and store.parts("takedowns")
        taken = Tombstones(store, store_key(store)).conversations(gone) if known else set()
        found = {}
        for key in ids:
            own = decided.get(("conversation", key))
            if own is None:
                found[key] = ["taken down" if key in taken else "not in the store"]
            else:
                of_vote = decided.get(("battle", battles.get(key, "")), [])
                found[key] = list(dict.fromkeys([*of_vote, *own])) or [_OTHERWISE.get(config, "kept")]
        return found

    return reasons


def _battles(store: Store, ids: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(conversation_a, which is the id of a released battle, battle_id)."""
    for rows in store.read_slices("battles", ["conversation_a", "battle_id"]):
        yield from rows.filter(pl.col("conversation_a").is_in(ids)).iter_rows()


def _decided(store: Store, ids: Sequence[str]) -> Iterator[tuple[tuple[str, str], list[str]]]:
    for rows in store.read_slices("decisions", ["item_kind", "item_id", "reasons"]):
        for kind, key, reasons in rows.filter(pl.col("item_id").is_in(ids)).iter_rows():
            yield (kind, key), reasons
