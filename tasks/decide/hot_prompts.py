"""Battles beyond the limit of one prompt, so that a popular prompt does not decide a leaderboard."""

import hashlib
from collections.abc import Mapping

import numpy as np
import polars as pl

from schemas.policy import HotPromptRule
from tasks.decide.duplicates import picture_key


def hot_battles(battles: pl.DataFrame, picture_of: Mapping[str, str], rule: HotPromptRule) -> list[str]:
    """battle_ids, sorted, of the battles that exceed the limit of their prompt.

    `battles` has battle_id and the left side's prompt_id and image_ids; `picture_of` gives the representative of a
    picture. The battles that stay have the smallest hashes of their ids: a fair draw that new battles hardly change.
    """
    of_prompt: dict[tuple[str, ...], list[str]] = {}
    for battle_id, prompt_id, image_ids in battles.select("battle_id", "prompt_id", "image_ids").iter_rows():
        key = (prompt_id, *picture_key(image_ids, picture_of, rule.pictures))
        of_prompt.setdefault(key, []).append(battle_id)
    limit = _limit([len(members) for members in of_prompt.values()], rule)
    return sorted(battle for members in of_prompt.values() for battle in sorted(members, key=_lot)[limit:])


def _limit(counts: list[int], rule: HotPromptRule) -> int:
    """Battles of a prompt that stay. A quantile is over the prompts and rounds down, to 1 at least, as upstream's."""
    if rule.copies_quantile is None:
        return rule.copies_max or 1
    return max(1, int(np.quantile(counts, rule.copies_quantile))) if counts else 1


def _lot(battle_id: str) -> bytes:
    return hashlib.blake2b(battle_id.encode(), digest_size=16).digest()
