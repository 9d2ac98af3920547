"""Conversations that repeat another one, and battles beyond the limit of one prompt."""

import hashlib
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import polars as pl

from schemas.policy import DuplicateRule, HotPromptRule
from tasks.dedup.near_images import cosine_pairs
from tasks.runtime.arrays import Vectors
from tasks.storage.content_id import number_of, text_id
from tasks.storage.parquet import compact
from tasks.storage.queries.signals import unload
from tasks.storage.queries.texts import TEXTS_AT_ONCE
from tasks.storage.tables import Store

_SERVED_PRESETS = """
    -- a row is one preset and one image that was served under its name
    SELECT path, dataset, logged_name, files.image_id
    FROM (SELECT image_id, name[:32] AS logged_name FROM image_files) AS files
    JOIN (SELECT path, dataset, logged_name FROM presets) AS presets USING (logged_name)
"""
_FIRST_NAMES = """
    -- a row is one state of a conversation in the logs, and the name of its first image, if presets have that name
    SELECT conv_id, logged_name
    FROM (SELECT conv_id, images[1] AS logged_name FROM sightings) SEMI JOIN presets USING (logged_name)
"""
_ASKED = """
    -- a row is one of the wanted conversations, and the messages of its user
    SELECT conversation_id, said_by('user', "turns.content", "turns.role") AS messages
    FROM conversations SEMI JOIN wanted USING (conversation_id)
"""
VectorsOf = Callable[[pl.Series], Mapping[int, Vectors]]
"""Prompts, as `number_of` their ids -> number and embedding of those that have one."""


def preset_datasets(store: Store, conversations: pl.DataFrame) -> pl.Series:
    """The dataset of each conversation's first image if it is a preset, null for uploads.

    A preset is recognized by equal pixels or as a near-duplicate. Only if the conversation's image is missing, the
    logged name is used, because one conv_id can hold an upload and, after a reset, a preset.
    """
    fetched_presets, pairs = store.read("presets"), store.read("near_images")
    served_presets = store.ask(_SERVED_PRESETS).select(fetched_presets.columns)
    presets = pl.concat([fetched_presets, served_presets])
    by_image: dict[str, str] = {}
    for image_id, dataset in presets.drop_nulls("image_id").select("image_id", "dataset").iter_rows():
        by_image.setdefault(image_id, dataset)
    for image_id, dataset in [*by_image.items()]:  # a preset that looks like one of another dataset is of its own
        near = pairs.filter((pl.col("image_a") == image_id) | (pl.col("image_b") == image_id))
        for copy in [*near["image_a"], *near["image_b"]]:
            by_image.setdefault(copy, dataset)
    by_name = dict(presets.select("logged_name", "dataset").iter_rows())
    names_of_states = pl.concat(store.batches(_FIRST_NAMES))
    by_conv_id = {conv_id: by_name[name] for conv_id, name in names_of_states.iter_rows()}
    first = conversations.select("conversation_id", pl.col("image_ids").list.first())
    values = [by_image.get(image) if image else by_conv_id.get(name) for name, image in first.iter_rows()]
    return pl.Series("preset_dataset", values, dtype=pl.String)


def duplicates_of(
    conversations: pl.DataFrame, vectors: VectorsOf, image_of: Mapping[str, str], rule: DuplicateRule
) -> dict[str, str]:
    """conversation_id -> the conversation it repeats, for every conversation beyond `copies_max`.

    Only conversations with equally many user messages are compared. With one message and an image, the prompts'
    embeddings count; else every message must be the same but for case, blanks and closing punctuation (column `asked`,
    of `asked_ids`). `image_of` gives the representative of each image that is not its own. Voted conversations come
    first and are never repeats; the others are ordered by time, and the first of a group represents it.
    """
    candidates = conversations.with_columns(key=_key(image_of, rule)).filter(pl.col("key").is_duplicated())
    compared = candidates.filter(by_embedding(rule), pl.col("prompt_id").n_unique().over("key") > 1)["prompt_id"]
    vector_of_prompt = vectors(compared.unique())
    ordered = candidates.sort(["voted", "tstamp", "conversation_id"], descending=[True, False, False])
    compared_id = pl.when(by_embedding(rule)).then("prompt_id").otherwise("asked")
    alike = ordered.group_by("num_turns", images=_images(image_of, rule)).agg("conversation_id", compared_id, "voted")
    repeats: dict[str, str] = {}
    for _, _, *members in alike.iter_rows():
        near = near_by_embedding(members[1], vector_of_prompt, rule.prompt_cosine_min)
        repeats |= _repeats(zip(*members, strict=True), near, rule.copies_max)
    return repeats


def by_embedding(rule: DuplicateRule) -> pl.Expr:
    """Whether a shared image supports what embeddings say. They hardly tell "question 17" from "question 19"."""
    return pl.lit(rule.images != "ignore") & (pl.col("num_turns") == 1) & (pl.col("image_ids").list.len() > 0)


def _key(image_of: Mapping[str, str], rule: DuplicateRule) -> pl.Expr:
    """A hash of all that must be equal; conversations that share it with no other repeat none."""
    text = pl.when(by_embedding(rule)).then(pl.lit(0, pl.UInt128)).otherwise("asked")
    return pl.struct("num_turns", _images(image_of, rule).alias("images"), text.alias("text")).hash()


def _images(image_of: Mapping[str, str], rule: DuplicateRule) -> pl.Expr:
    """The images that must be equal, in one text (`image_key`)."""
    if rule.images == "ignore":
        return pl.lit("")
    image = pl.element().replace(dict(image_of)) if image_of and rule.images != "same" else pl.element()
    return pl.col("image_ids").list.eval(image).list.join(" ")


def asked_ids(store: Store, chosen: pl.DataFrame) -> pl.DataFrame:
    """conversation_id of the wanted ones, and `asked`: the number of the id of what `duplicates_of` compares of it."""
    asked_frames = list[pl.DataFrame]()
    for conversations in store.batches(_ASKED, TEXTS_AT_ONCE, wanted=chosen):
        # A row is one conversation and the id of its messages; compact, because the frame would hold the messages too.
        ids = conversations.select("conversation_id", asked=_plain("messages").map_elements(text_id, pl.String))
        asked_frames.append(compact(ids).with_columns(number_of(pl.col("asked"))))
    return pl.concat(asked_frames)


def _plain(messages: str) -> pl.Expr:
    """All messages as one text, without case, runs of blanks and closing punctuation."""
    # One element is one message; case and runs of blanks must not tell two messages apart.
    spaced_message = pl.element().str.normalize("NFC").str.to_lowercase().str.replace_all(r"\s+", " ")
    plain_message = spaced_message.str.replace(r"(.)[ .?!…。？！]+$", "$1").str.strip_chars()
    return pl.col(messages).list.eval(plain_message).list.join("\0")


def near_by_embedding(
    prompts: Iterable[int], vectors: Mapping[int, Vectors], cosine_min: float
) -> dict[int, list[int]]:
    """Each prompt -> the earlier ones whose embeddings are at least this similar."""
    embedded_prompts = [prompt for prompt in dict.fromkeys(prompts) if prompt in vectors]
    near: dict[int, list[int]] = {}
    if len(embedded_prompts) < 2:
        return near
    matrix = np.stack([vectors[prompt] for prompt in embedded_prompts])
    unload(vectors[embedded_prompts[0]])  # else memory would hold the file with the vectors of all groups at last
    earlier_rows, later_rows, _ = cosine_pairs(matrix, cosine_min)
    for earlier, later in zip(earlier_rows.tolist(), later_rows.tolist(), strict=True):
        near.setdefault(embedded_prompts[later], []).append(embedded_prompts[earlier])
    return near


def _repeats(
    members: Iterable[tuple[str, int, bool]], near: Mapping[int, list[int]], copies_max: int
) -> dict[str, str]:
    """Each member, in order, joins the first group with a similar prompt or becomes the representative of a new one."""
    place: dict[int, int] = {}
    representatives: list[str] = []
    copies: list[int] = []
    repeats: dict[str, str] = {}
    for conversation_id, prompt_number, voted in members:
        groups = [place[prompt] for prompt in (prompt_number, *near.get(prompt_number, ())) if prompt in place]
        if not groups:
            place[prompt_number] = len(representatives)
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
