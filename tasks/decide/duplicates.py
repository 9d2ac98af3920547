"""Conversations that repeat another one: the same picture, and a prompt that says the same."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.policy import DuplicateRule

Vectors = npt.NDArray[np.float32]


def preset_datasets(
    conversations: pl.DataFrame, sightings: pl.DataFrame, presets: pl.DataFrame, pairs: pl.DataFrame
) -> pl.Series:
    """Dataset of the preset collection that each conversation's first picture comes from, null for uploads.

    A preset is known by the name the server logs for it, by equal pixels, or by being a near-duplicate.
    """
    by_picture: dict[str, str] = {}
    for dataset, image_id in presets.drop_nulls("image_id").select("dataset", "image_id").iter_rows():
        near = pairs.filter((pl.col("image_a") == image_id) | (pl.col("image_b") == image_id))
        for other in {image_id, *near["image_a"], *near["image_b"]}:
            by_picture.setdefault(other, dataset)
    by_name = dict(presets.select("logged_name", "dataset").iter_rows())
    named = sightings.filter(pl.col("pictures").list.first().is_in(list(by_name)))
    by_conv_id = {c: by_name[p] for c, p in named.select("conv_id", pl.col("pictures").list.first()).iter_rows()}
    first = conversations.select("conversation_id", pl.col("image_ids").list.first())
    values = [by_picture.get(image or "") or by_conv_id.get(conversation) for conversation, image in first.iter_rows()]
    return pl.Series("preset_dataset", values, dtype=pl.String)


def duplicates_of(
    conversations: pl.DataFrame, vectors: Mapping[str, Vectors], picture_of: Mapping[str, str], rule: DuplicateRule
) -> dict[str, str]:
    """conversation_id -> the conversation it repeats, for every conversation beyond `copies_max`.

    `vectors` gives the prompt's embedding by prompt_id, `picture_of` the representative of a picture. Voted
    conversations come first and are never repeats; then the earliest represents the others.
    """
    ordered = conversations.sort(["voted", "tstamp", "conversation_id"], descending=[True, False, False])
    groups: dict[tuple[str, ...], list[_Group]] = {}
    repeats: dict[str, str] = {}
    columns = ordered.select("conversation_id", "prompt_id", "image_ids", "voted")
    for conversation_id, prompt_id, image_ids, voted in columns.iter_rows():
        known = groups.setdefault(_picture_key(image_ids, picture_of, rule), [])
        group = next((g for g in known if g.holds(prompt_id, vectors, rule.prompt_cosine_min)), None)
        if group is None:
            known.append(_Group(conversation_id, prompt_id, vectors.get(prompt_id)))
        elif voted or group.copies < rule.copies_max:
            group.copies += 1
        else:
            repeats[conversation_id] = group.representative
    return repeats


class _Group:
    """Conversations with one picture whose prompts are like the representative's."""

    def __init__(self, representative: str, prompt_id: str, vector: Vectors | None) -> None:
        self.representative = representative
        self.prompt_id = prompt_id
        self.vector = vector
        self.copies = 1

    def holds(self, prompt_id: str, vectors: Mapping[str, Vectors], cosine_min: float) -> bool:
        if prompt_id == self.prompt_id:
            return True
        vector = vectors.get(prompt_id)
        return self.vector is not None and vector is not None and float(self.vector @ vector) >= cosine_min


def _picture_key(image_ids: list[str], picture_of: Mapping[str, str], rule: DuplicateRule) -> tuple[str, ...]:
    if rule.pictures == "ignore":
        return ()
    if rule.pictures == "same":
        return tuple(image_ids)
    return tuple(picture_of.get(image_id, image_id) for image_id in image_ids)
