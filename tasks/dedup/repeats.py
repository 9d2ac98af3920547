"""Conversations that repeat another one, and battles beyond the limit of one prompt."""

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np
import polars as pl

from schemas.policy import DuplicateRule, HotPromptRule
from tasks.dedup.cosine import Vectors, cosine_pairs
from tasks.storage.content_id import text_id


def preset_datasets(
    conversations: pl.DataFrame, sightings: pl.DataFrame, presets: pl.DataFrame, pairs: pl.DataFrame
) -> pl.Series:
    """The dataset of each conversation's first image if it is a preset, null for uploads.

    A preset is recognized by equal pixels or as a near-duplicate. Only if the conversation's image is missing, the
    logged name is used, because one conv_id can hold an upload and, after a reset, a preset.
    """
    by_image: dict[str, str] = {}
    for dataset, image_id in presets.drop_nulls("image_id").select("dataset", "image_id").iter_rows():
        near = pairs.filter((pl.col("image_a") == image_id) | (pl.col("image_b") == image_id))
        for other in {image_id, *near["image_a"], *near["image_b"]}:
            by_image.setdefault(other, dataset)
    by_name = dict(presets.select("logged_name", "dataset").iter_rows())
    named = sightings.filter(pl.col("images").list.first().is_in(list(by_name)))
    by_conv_id = {c: by_name[p] for c, p in named.select("conv_id", pl.col("images").list.first()).iter_rows()}
    first = conversations.select("conversation_id", pl.col("image_ids").list.first())
    values = [by_image.get(image) if image else by_conv_id.get(name) for name, image in first.iter_rows()]
    return pl.Series("preset_dataset", values, dtype=pl.String)


def duplicates_of(
    conversations: pl.DataFrame, vectors: Mapping[str, Vectors], image_of: Mapping[str, str], rule: DuplicateRule
) -> dict[str, str]:
    """conversation_id -> the conversation it repeats, for every conversation beyond `copies_max`.

    Only conversations with equally many user messages are compared. With one message and an image, the prompts'
    embeddings count; else every message must be the same but for case, blanks and closing punctuation. `vectors` has
    the embedding of each prompt_id, `image_of` the representative of each image. Voted conversations come first and are
    never repeats; the others are ordered by time, and the first of a group represents it.
    """
    ordered = conversations.sort(["voted", "tstamp", "conversation_id"], descending=[True, False, False])
    alike: dict[tuple[int, tuple[str, ...]], list[tuple[str, str, bool]]] = {}
    columns = ordered.select("conversation_id", "prompt_id", "image_ids", "voted", "num_turns", _asked())
    for conversation_id, prompt_id, image_ids, voted, num_turns, asked in columns.iter_rows():
        images = image_key(image_ids, image_of, rule.images)
        text = prompt_id if _by_embedding(num_turns, images) else text_id(asked)
        alike.setdefault((num_turns, images), []).append((conversation_id, text, voted))
    repeats: dict[str, str] = {}
    for key, members in alike.items():
        prompts = [text for _, text, _ in members] if _by_embedding(*key) else []
        near = near_by_embedding(prompts, vectors, rule.prompt_cosine_min)
        repeats |= _repeats(members, near, rule.copies_max)
    return repeats


def _by_embedding(num_turns: int, images: tuple[str, ...]) -> bool:
    """Whether a shared image supports what embeddings say. They hardly tell "question 17" from "question 19"."""
    return num_turns == 1 and bool(images)


def _asked() -> pl.Expr:
    """All user messages as one text, without case, runs of blanks and closing punctuation."""
    message = pl.element().struct
    said = pl.element().filter(message.field("role") == "user").struct.field("content").str.normalize("NFC")
    plain = said.str.to_lowercase().str.replace_all(r"\s+", " ").str.replace(r"(.)[ .?!…。？！]+$", "$1")
    return pl.col("turns").list.eval(plain.str.strip_chars()).list.join("\0").alias("asked")


def near_by_embedding(
    prompt_ids: Iterable[str], vectors: Mapping[str, Vectors], cosine_min: float
) -> dict[str, list[str]]:
    """Each prompt -> the earlier ones whose embeddings are at least this similar."""
    known = [prompt_id for prompt_id in dict.fromkeys(prompt_ids) if prompt_id in vectors]
    near: dict[str, list[str]] = {}
    if len(known) < 2:
        return near
    earlier_rows, later_rows, _ = cosine_pairs(np.stack([vectors[prompt_id] for prompt_id in known]), cosine_min)
    for earlier, later in zip(earlier_rows.tolist(), later_rows.tolist(), strict=True):
        near.setdefault(known[later], []).append(known[earlier])
    return near


def _repeats(
    members: Iterable[tuple[str, str, bool]], near: Mapping[str, list[str]], copies_max: int
) -> dict[str, str]:
    """Each member, in order, joins the first group with a similar prompt or becomes the representative of a new one."""
    place: dict[str, int] = {}
    representatives: list[str] = []
    copies: list[int] = []
    repeats: dict[str, str] = {}
    for conversation_id, prompt_id, voted in members:
        groups = [place[prompt] for prompt in (prompt_id, *near.get(prompt_id, ())) if prompt in place]
        if not groups:
            place[prompt_id] = len(representatives)
            representatives.append(conversation_id)
            copies.append(1)
        elif voted or copies[min(groups)] < copies_max:
            copies[min(groups)] += 1
        else:
            repeats[conversation_id] = representatives[min(groups)]
    return repeats


def image_key(image_ids: list[str], image_of: Mapping[str, str], images: str) -> tuple[str, ...]:
    """Key that must be equal: all image ids (`same`), their representatives (`near`, `semantic`) or ()."""
    if images == "ignore":
        return ()
    if images == "same":
        return tuple(image_ids)
    return tuple(image_of.get(image_id, image_id) for image_id in image_ids)


def hot_battles(battles: pl.DataFrame, image_of: Mapping[str, str], rule: HotPromptRule) -> list[str]:
    """battle_ids, sorted, of the battles that exceed the limit of their prompt.

    `battles` has battle_id and the left side's prompt_id and image_ids; `image_of` gives the representative of an
    image. The battles with the smallest hashes of their ids are kept, a random draw that new battles hardly change.
    """
    of_prompt: dict[tuple[str, ...], list[str]] = {}
    for battle_id, prompt_id, image_ids in battles.select("battle_id", "prompt_id", "image_ids").iter_rows():
        key = (prompt_id, *image_key(image_ids, image_of, rule.images))
        of_prompt.setdefault(key, []).append(battle_id)
    limit = _limit([len(members) for members in of_prompt.values()], rule)
    return sorted(battle for members in of_prompt.values() for battle in sorted(members, key=_lot)[limit:])


def _limit(counts: list[int], rule: HotPromptRule) -> int:
    """Battles to keep for each prompt. A quantile over the prompts is rounded down to at least 1, as upstream does."""
    if rule.copies_quantile is None:
        return rule.copies_max or 1
    return max(1, int(np.quantile(counts, rule.copies_quantile))) if counts else 1


def _lot(battle_id: str) -> bytes:
    return hashlib.blake2b(battle_id.encode(), digest_size=16).digest()
