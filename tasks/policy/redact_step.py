"""Redacts what rules say, into `redacted_conversations` and `redacted_images`, and proves that it worked.

The proof: the finders have looked again at what is released, and no redact rule fires any more.
"""

from collections.abc import Iterable, Iterator, Mapping, Set

import numpy as np
import polars as pl
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from schemas.items.conversation import RedactedConversation
from schemas.items.image import RedactedImage
from schemas.policy import Action, Over, Policy, policy_hash
from tasks.images.decode import decode_stored
from tasks.policy.redact import (
    ROLES_OVER,
    CoveredImage,
    Findings,
    PixelBox,
    exercise_names_in,
    fill_boxes,
    findings,
    redact_texts,
    redacted,
    redacted_image,
    spans_of,
)
from tasks.policy.redact_text import without_left
from tasks.policy.rules import FIRED, FactsReader, Signals, Step, fired, hit_columns, redact_rules
from tasks.runtime.parallel import map_ordered
from tasks.runtime.progress import progress
from tasks.storage.content_id import text_id
from tasks.storage.queries.signals import StoredImages
from tasks.storage.tables import Store, frame_of

REDACTED_IMAGES_A_PART = 256

_Keys = dict[tuple[str, tuple[PixelBox, ...]], str]
_LOGGED = """
    -- a row is one of the wanted conversations as it was logged; without fields of lists as columns
    SELECT COLUMNS('^[a-z_]+$') FROM conversations SEMI JOIN wanted USING (conversation_id)
"""
_SAID = """
    -- a row is one of the wanted conversations, with its messages and images
    SELECT conversation_id, turns, image_ids FROM conversations SEMI JOIN wanted USING (conversation_id)
"""


def redact_store(store: Store, hits: pl.DataFrame, policy: Policy, signals: Signals, workers: int) -> dict[str, int]:
    """Redact every conversation that a rule redacts and no rule drops, and what its battles' other sides repeat of it.

    Returns counts for the stage report.
    """
    dropped = _items(hits, Action.DROP)
    wanted = _items(hits, Action.REDACT) - dropped
    together = groups(wanted, store.read("battles", ["conversation_a", "conversation_b"]), dropped)
    rows = pl.concat(store.batches(_LOGGED, wanted=_wanted(i for group in together for i in group)))
    found = findings(policy, signals) if rows.height else Findings({}, {}, {}, {})
    images = _images(store, rows, found, workers)
    row_of = {row["conversation_id"]: row for row in rows.iter_rows(named=True)}
    each = (
        redacted([row_of[i] for i in group if i in row_of], found, images, policy_hash(policy)) for group in together
    )
    made = [form for forms in each for form in forms if form.redactions or form.conversation_id in wanted]
    store.replace("redacted_conversations", frame_of(RedactedConversation, made))
    return {"redacted_conversations": len(made), "redacted_images": sum(p.image_id != i for i, p in images.items())}


def groups(wanted: Set[str], battles: pl.DataFrame, dropped: Set[str]) -> list[list[str]]:
    """The conversations of `wanted`, each with all that battles connect it to, left sides first; each is in one group.

    So a value has one placeholder in all battles that share a side. A dropped conversation is redacted with nothing:
    its battles fall.
    """
    votes = [sides for sides in battles.iter_rows() if dropped.isdisjoint(sides)]
    shown = list(dict.fromkeys([*(side for sides in votes for side in sides), *sorted(wanted)]))
    place = {each: number for number, each in enumerate(shown)}
    left, right = ([place[sides[n]] for sides in votes] for n in (0, 1))
    edges = coo_array((np.ones(len(votes)), (left, right)), shape=(len(shown), len(shown)))
    of_group: dict[int, list[str]] = {}
    for each, number in zip(shown, connected_components(edges, directed=False)[1].tolist(), strict=True):
        of_group.setdefault(number, []).append(each)
    return [group for group in of_group.values() if not wanted.isdisjoint(group)]


def _wanted(conversation_ids: Iterable[str]) -> pl.DataFrame:
    return pl.DataFrame({"conversation_id": pl.Series([*conversation_ids], dtype=pl.String)})


def _items(hits: pl.DataFrame, action: Action) -> set[str]:
    return set(hits.filter(action=action.value)["item_id"])


def _images(store: Store, rows: pl.DataFrame, found: Findings, workers: int) -> Mapping[str, CoveredImage]:
    """Image id -> redacted form, for every image of the conversations. New images are stored first."""
    shown = rows["image_ids"].explode().drop_nulls().unique()
    if shown.is_empty():
        return {}
    known = _known(store)
    sizes = store.read("images", ["image_id", "width", "height"]).filter(pl.col("image_id").is_in(shown.implode()))
    size_of = {image_id: (width, height) for image_id, width, height in sizes.iter_rows()}
    stored = StoredImages(store)

    def work(image_id: str) -> tuple[CoveredImage, list[RedactedImage]]:
        made: list[RedactedImage] = []

        def filled(source: str, boxes: tuple[PixelBox, ...]) -> str:
            if (source, boxes) not in known:
                made.append(_fill(stored, source, boxes))
            return known.get((source, boxes)) or made[-1].image_id

        return redacted_image(image_id, size_of[image_id], found, filled), made

    images: dict[str, CoveredImage] = {}
    ordered = stored.ordered(size_of)
    with progress("images to redact", len(ordered)) as advance:
        for start in range(0, len(ordered), REDACTED_IMAGES_A_PART):
            some = ordered[start : start + REDACTED_IMAGES_A_PART]
            done = list(map_ordered(work, some, workers))
            store.append("redacted_images", frame_of(RedactedImage, [row for _, made in done for row in made]))
            images |= {image_id: image for image_id, (image, _) in zip(some, done, strict=True)}
            advance(len(some))
    return images


def _known(store: Store) -> _Keys:
    rows = store.read("redacted_images", ["source_image_id", "boxes", "image_id"]).iter_rows()
    return {(source, tuple(map(tuple, boxes))): image_id for source, boxes, image_id in rows}


def _fill(images: StoredImages, source: str, boxes: tuple[PixelBox, ...]) -> RedactedImage:
    stored = images[source]
    image = fill_boxes(decode_stored(stored.bytes, stored.format, source), boxes)
    return RedactedImage(
        image_id=image.image_id,
        bytes=image.encoded,
        format=image.format,
        width=image.width,
        height=image.height,
        source_image_id=source,
        boxes=[list(box) for box in boxes],
    )


def unproven(
    hits: pl.DataFrame,
    redacted: pl.DataFrame,
    named: pl.DataFrame,
    parts: Mapping[Over, pl.DataFrame],
    facts: FactsReader,
    signals: Signals,
    policy: Policy,
) -> pl.DataFrame:
    """Drop reasons of conversations whose redaction is not proven; `parts` are those of the redacted forms.

    `redacted` has their ids, and `named` is those in which names stay, with texts.
    `redaction_failed`: a redact rule still fires. `unmeasured_redaction`: there is no redacted form yet.
    """
    left = fired(redact_rules(policy), parts, facts, {}, Step.REDACTION)
    found = pl.col("action") == Action.REDACT.value
    left = left.join(_of_left_names(named, signals, policy), on=["item_id", "place", "action"], how="anti")
    left = left.with_columns(
        reason=pl.when(found).then(pl.lit("redaction_failed")).otherwise("reason"), action=pl.lit(Action.DROP.value)
    )
    wanted = hits.filter(action=Action.REDACT.value).select("item_id").unique()
    missing = wanted.join(redacted, left_on="item_id", right_on="conversation_id", how="anti").select(
        "item_id", **hit_columns(Step.REDACTION, 0, "unmeasured_redaction", Action.DROP)
    )
    dropped = hits.filter(action=Action.DROP.value)
    unseen = missing.join(dropped, on="item_id", how="anti")  # dropped conversations are not redacted
    return pl.concat([left.with_columns(place=pl.lit(0, pl.Int64)), unseen])


def _of_left_names(named: pl.DataFrame, signals: Signals, policy: Policy) -> pl.DataFrame:
    """item_id, place and action of redact rules that fire only on names that stay (`left_names`)."""
    rows = list(_fired_on_left_names(named, signals, policy)) if named.height else []
    return pl.DataFrame(rows, schema={name: FIRED[name] for name in ("item_id", "place", "action")}, orient="row")


def _fired_on_left_names(named: pl.DataFrame, signals: Signals, policy: Policy) -> Iterator[tuple[str, int, str]]:
    for place, rule in enumerate(redact_rules(policy)):
        if rule.over not in ROLES_OVER:
            continue
        spans = spans_of(rule, signals)
        for item, turns, left in named.select("conversation_id", "turns", "left_names").iter_rows():
            said = [turn for turn in turns if turn["role"] in ROLES_OVER[rule.over]]
            held = [(turn["content"], spans[turn["text_id"]]) for turn in said if turn["text_id"] in spans]
            if all(found and not without_left(text, found, set(left)) for text, found in held):
                yield item, place, Action.REDACT.value


def repeated_words(
    store: Store, battles: pl.DataFrame, redacted: pl.DataFrame, signals: Signals, policy: Policy
) -> pl.DataFrame:
    """Redact rules as fired on battles whose voter wrote a value that is redacted in one of the sides."""
    sides = ["conversation_a", "conversation_b"]
    changed = pl.any_horizontal(pl.col(sides).is_in(redacted["conversation_id"].implode()))
    written = battles.drop_nulls("vote_reason").filter(changed).select("battle_id", *sides, "vote_reason")
    if written.is_empty():
        return pl.DataFrame(schema=FIRED)
    found, rows = findings(policy, signals), list[tuple[str, Step, int, str, str]]()
    names = {side for row in written.select(sides).iter_rows() for side in row}
    frames = store.batches(_SAID, wanted=_wanted(names))
    said = {name: (turns, ids) for rows in frames for name, turns, ids in rows.iter_rows()}
    for battle_id, a, b, words in written.iter_rows():
        shown = [said[side] for side in (a, b) if side in said]
        turns = [turn for turns, _ in shown for turn in turns]
        values = {v: kind for _, ids in shown for i in ids for v, kind in found.image_values.get(i, {}).items()}
        vote = {"role": "user", "content": words, "text_id": text_id(words), "images": []}
        _, counts = redact_texts([*turns, vote], found, values, exercise_names_in(turns, found))
        reasons = {reason for reason, _ in counts[-1]}
        rows += [(battle_id, Step.REDACTION, 0, reason, Action.DROP.value) for reason in reasons]
    return pl.DataFrame(sorted(rows), schema=FIRED, orient="row")
