"""A board for prompts like a given one: votes weigh by how close their prompts' stored vectors are to its vector.

In: a store, its kept battles, and a text or the id of a conversation, battle or image. `aim_of` gives a vector for it,
`cosines` how close each vote's prompt is to that, `kernel_weights` what each vote weighs. Out: `near_board`, the
Bradley-Terry board of the weighted votes, a local likelihood fit (Tibshirani and Hastie, "Local likelihood estimation",
1987). How many votes carry it is their effective number, (sum of w)^2 / sum of w^2 (Kish, "Survey Sampling", 1965).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.errors import BadInput
from schemas.rating import FEW_VOTES, LikeRating, RatingMethod
from tasks.leaderboard.leaderboard import rate_slice
from tasks.leaderboard.votes import Vector, votes
from tasks.storage.queries.released import require_redactions
from tasks.storage.queries.signals import StoredVectors, Versions
from tasks.storage.tables import Store

LIKE = "like"
"""Slice of the board."""
DEFAULT_WIDTH = 0.15
"""Default width: a prompt with a cosine of 0.65 has a tenth of the weight of the prompt itself."""
_WEIGHT_MIN = 0.01
"""Votes that weigh less are left out; one on the same prompt weighs 1. With the default width these are the votes on
prompts with a cosine below 0.31."""
_ID = re.compile(r"(?=(?:[^0-9]*[0-9]){3})[0-9A-Za-z_-]{12,60}")
"""Form of ids: one word of at least 12 ASCII characters, three of them digits. What has it and is no id of the store is
no text to embed."""
_MEASURE = "run `curate measure`, or give the --providers that measured the store"
_TEXTS, _IMAGES = "text_embedding", "image_embedding"
_ITEM = """
    -- a row is the conversation that has this id, or the left side of the battle that has it, as it would be released
    SELECT prompt_id
    FROM released
    WHERE conversation_id = $item OR conversation_id IN (SELECT conversation_a FROM battles WHERE battle_id = $item)
    LIMIT 1
"""
_KNOWN_IMAGE = """
    -- a row is the image that has this id
    SELECT image_id FROM images WHERE image_id = $item
"""
_PROMPTS = """
    -- a row is one left side of a vote as it would be released, its prompt and its images
    SELECT conversation_id AS conversation_a, prompt_id, image_ids
    FROM released
    SEMI JOIN wanted USING (conversation_id)
"""


@dataclass(frozen=True)
class Aim:
    """A vector, and the signal whose vectors it is compared with."""

    signal: str
    """text_embedding of prompts, or image_embedding of their images."""
    vector: npt.NDArray[np.float32]
    """(dimension,): of unit length."""


def aim_of(
    store: Store, versions: Versions, like: str, embed: Callable[[Sequence[str]], npt.NDArray[np.float32]]
) -> Aim:
    """The vector of a text, or the stored one of the prompt or image that `like` is the id of.

    Raises BadInput for an empty text, for what has the form of an id that the store lacks, and for an item without
    vector.
    """
    text = like.strip()
    if not text:
        raise BadInput("--like is empty; give a prompt, or the id of a conversation, battle or image of the store")
    require_redactions(store)
    # An id of the store wins over a text, and a prompt over an image.
    content_ids_by_signal = {
        _TEXTS: store.ask(_ITEM, item=text).to_series().to_list(),
        _IMAGES: store.ask(_KNOWN_IMAGE, item=text).to_series().to_list(),
    }
    for signal, content_ids in content_ids_by_signal.items():
        if content_ids:
            stored = StoredVectors(store, signal, versions, pl.Series(content_ids)).all()
            if not stored:
                raise BadInput(f"{text!r} has no vector of {_named(signal, versions)}; {_MEASURE}")
            return Aim(signal, next(iter(stored.values())))
    if _ID.fullmatch(text):
        raise BadInput(
            f"--like {text!r} looks like an id and is no conversation, battle or image of store {store.root!r}; "
            "`curate explain ID` shows what an id is; of a text give more words"
        )
    return Aim(_TEXTS, embed([text])[0])


def _named(signal: str, versions: Versions) -> str:
    return f"{signal} version {versions.get(signal, '')!r}"


def cosines(store: Store, versions: Versions, battles: pl.DataFrame, aim: Aim) -> pl.Series:
    """Float64 (battles,): cosine of each vote's prompt, or of the nearest of its images, to `aim`; null without vector.

    `battles` has conversation_a. Raises BadInput where no vote has a vector.
    """
    # Both sides of a battle have one prompt, so the left one is enough.
    left_sides = battles.select("conversation_a").unique(maintain_order=True)
    prompts = pl.concat(store.batches(_PROMPTS, wanted=left_sides.rename({"conversation_a": "conversation_id"})))
    if aim.signal == _TEXTS:
        contents = prompts.select("conversation_a", content_id="prompt_id")
    else:
        contents = prompts.select("conversation_a", content_id="image_ids").explode("content_id").drop_nulls()
    content_cosines = StoredVectors(store, aim.signal, versions, contents["content_id"]).cosines(aim.vector)
    # Of several images the nearest counts.
    nearest = contents.join(content_cosines, on="content_id").group_by("conversation_a").agg(pl.col("cosine").max())
    if nearest.is_empty():
        raise BadInput(f"no vote's prompt has a vector of {_named(aim.signal, versions)}; {_MEASURE}")
    return battles.join(nearest, on="conversation_a", how="left", maintain_order="left")["cosine"]


def kernel_weights(cosine: pl.Series, width: float = DEFAULT_WIDTH) -> Vector:
    """float64 (votes,): exp((cosine - 1) / width), 0 for a null and for what would be less than `_WEIGHT_MIN`.

    For unit vectors (cosine - 1) / width is -d^2 / (2 width), d their distance: a normal kernel.
    """
    weight = np.exp((cosine.fill_null(-1.0).to_numpy() - 1) / width)
    return np.where(cosine.is_not_null().to_numpy() & (weight >= _WEIGHT_MIN), weight, 0.0)


def near_board(
    rated: pl.DataFrame, weight: Vector, method: RatingMethod, level: Mapping[str, float]
) -> list[LikeRating]:
    """The board of rated battles, of which each counts `weight` (battles,) times, best model first.

    `level` has the ratings of the plain board, whose mean this one has, too. Votes of weight 0 are left out. Intervals,
    and the flags few_votes and few_battles, rest on effective numbers of votes. Raises BadInput for fewer effective
    votes than `FEW_VOTES`.
    """
    near_battles = rated.filter(pl.Series(weight > 0))
    near_votes = votes(near_battles, method.cluster)
    if near_battles.height:
        weighted = replace(near_votes, weight=near_votes.weight * weight[weight > 0])
        near_votes = weighted.in_effective_votes()
    effective_total = near_votes.number(np.ones(len(near_votes.pair), bool))
    if effective_total < FEW_VOTES:
        raise BadInput(
            f"{near_battles.height:,} of {rated.height:,} votes are on prompts like this, and say as much as "
            f"{effective_total:.1f} equal ones; a board needs {FEW_VOTES}: give a larger --like-width, or a prompt of "
            "which there are more"
        )
    # `counts` are battles as they were, and `battles` what they come to with these weights.
    battles_by_model = dict(zip(near_votes.models, near_votes.counts().tolist(), strict=True))
    effective_by_model = dict(zip(near_votes.models, near_votes.battles().tolist(), strict=True))
    rows = []
    for row in rate_slice(near_votes, LIKE, method, level):
        numbers = {"battles": round(battles_by_model[row.model]), "effective_battles": effective_by_model[row.model]}
        rows.append(LikeRating(**(row.model_dump() | numbers)))
    return rows
