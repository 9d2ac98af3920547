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
    ids_to_redact = _items(hits, Action.REDACT) - dropped
    together = groups(ids_to_redact, store.read("battles", ["conversation_a", "conversation_b"]), dropped)
    rows = pl.concat(store.batches(_LOGGED, wanted=_wanted(i for group in together for i in group)))
    policy_findings = findings(policy, signals) if rows.height else Findings({}, {}, {}, {})
    images = _images(store, rows, policy_findings, workers)
    row_of = {row["conversation_id"]: row for row in rows.iter_rows(named=True)}
    forms_by_group = (
        redacted([row_of[i] for i in group if i in row_of], policy_findings, images, policy_hash(policy))
        for group in together
    )
    # A form is one conversation; those that only stand beside another one and hold nothing of it are not stored.
    redacted_forms = [
        form for forms in forms_by_group for form in forms if form.redactions or form.conversation_id in ids_to_redact
    ]
    store.replace("redacted_conversations", frame_of(RedactedConversation, redacted_forms))
    return {
        "redacted_conversations": len(redacted_forms),
        "redacted_images": sum(p.image_id != i for i, p in images.items()),
    }


def groups(chosen: Set[str], battles: pl.DataFrame, dropped: Set[str]) -> list[list[str]]:
    """The conversations of `chosen`, each with all that battles connect it to, left sides first; each is in one group.

    So a value has one placeholder in all battles that share a side. A dropped conversation is redacted with nothing:
    its battles fall.
    """
    votes = [sides for sides in battles.iter_rows() if dropped.isdisjoint(sides)]
    conversation_ids = list(dict.fromkeys([*(side for sides in votes for side in sides), *sorted(chosen)]))
    place = {conversation_id: number for number, conversation_id in enumerate(conversation_ids)}
    left_places, right_places = ([place[sides[n]] for sides in votes] for n in (0, 1))
    edges = coo_array(
        (np.ones(len(votes)), (left_places, right_places)), shape=(len(conversation_ids), len(conversation_ids))
    )
    of_group: dict[int, list[str]] = {}
    for conversation_id, number in zip(
        conversation_ids, connected_components(edges, directed=False)[1].tolist(), strict=True
    ):
        of_group.setdefault(number, []).append(conversation_id)
    return [group for group in of_group.values() if not chosen.isdisjoint(group)]


def _wanted(conversation_ids: Iterable[str]) -> pl.DataFrame:
    return pl.DataFrame({"conversation_id": pl.Series([*conversation_ids], dtype=pl.String)})


def _items(hits: pl.DataFrame, action: Action) -> set[str]:
    return set(hits.filter(action=action.value)["item_id"])


def _images(store: Store, rows: pl.DataFrame, policy_findings: Findings, workers: int) -> Mapping[str, CoveredImage]:
    """Image id -> redacted form, for every image of the conversations. New images are stored first."""
    image_ids = rows["image_ids"].explode().drop_nulls().unique()
    if image_ids.is_empty():
        return {}
    filled_ids = _known(store)
    sizes = store.read("images", ["image_id", "width", "height"]).filter(pl.col("image_id").is_in(image_ids.implode()))
    size_of = {image_id: (width, height) for image_id, width, height in sizes.iter_rows()}
    stored = StoredImages(store)

    def work(image_id: str) -> tuple[CoveredImage, list[RedactedImage]]:
        new_images: list[RedactedImage] = []

        def filled(source: str, boxes: tuple[PixelBox, ...]) -> str:
            if (source, boxes) not in filled_ids:
                new_images.append(_fill(stored, source, boxes))
            return filled_ids.get((source, boxes)) or new_images[-1].image_id

        return redacted_image(image_id, size_of[image_id], policy_findings, filled), new_images

    images: dict[str, CoveredImage] = {}
    ordered = stored.ordered(size_of)
    with progress("images to redact", len(ordered)) as advance:
        for start in range(0, len(ordered), REDACTED_IMAGES_A_PART):
            part_ids = ordered[start : start + REDACTED_IMAGES_A_PART]
            done = list(map_ordered(work, part_ids, workers))
            store.append(
                "redacted_images", frame_of(RedactedImage, [row for _, new_images in done for row in new_images])
            )
            images |= {image_id: image for image_id, (image, _) in zip(part_ids, done, strict=True)}
            advance(len(part_ids))
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
    failed_hits = fired(redact_rules(policy), parts, facts, {}, Step.REDACTION)
    is_redact = pl.col("action") == Action.REDACT.value
    failed_hits = failed_hits.join(
        _of_left_names(named, signals, policy), on=["item_id", "place", "action"], how="anti"
    )
    failed_hits = failed_hits.with_columns(
        reason=pl.when(is_redact).then(pl.lit("redaction_failed")).otherwise("reason"), action=pl.lit(Action.DROP.value)
    )
    items_to_redact = hits.filter(action=Action.REDACT.value).select("item_id").unique()
    missing = items_to_redact.join(redacted, left_on="item_id", right_on="conversation_id", how="anti").select(
        "item_id", **hit_columns(Step.REDACTION, 0, "unmeasured_redaction", Action.DROP)
    )
    dropped = hits.filter(action=Action.DROP.value)
    unseen = missing.join(dropped, on="item_id", how="anti")  # dropped conversations are not redacted
    return pl.concat([failed_hits.with_columns(place=pl.lit(0, pl.Int64)), unseen])


def _of_left_names(named: pl.DataFrame, signals: Signals, policy: Policy) -> pl.DataFrame:
    """item_id, place and action of redact rules that fire only on names that stay (`left_names`)."""
    rows = list(_fired_on_left_names(named, signals, policy)) if named.height else []
    return pl.DataFrame(rows, schema={name: FIRED[name] for name in ("item_id", "place", "action")}, orient="row")


def _fired_on_left_names(named: pl.DataFrame, signals: Signals, policy: Policy) -> Iterator[tuple[str, int, str]]:
    for place, rule in enumerate(redact_rules(policy)):
        if rule.over not in ROLES_OVER:
            continue
        spans = spans_of(rule, signals)
        for item, turns, left_names in named.select("conversation_id", "turns", "left_names").iter_rows():
            turns_of_roles = [turn for turn in turns if turn["role"] in ROLES_OVER[rule.over]]
            texts_with_spans = [
                (turn["content"], spans[turn["text_id"]]) for turn in turns_of_roles if turn["text_id"] in spans
            ]
            if all(
                text_spans and not without_left(text, text_spans, set(left_names))
                for text, text_spans in texts_with_spans
            ):
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
    policy_findings, rows = findings(policy, signals), list[tuple[str, Step, int, str, str]]()
    names = {side for row in written.select(sides).iter_rows() for side in row}
    frames = store.batches(_SAID, wanted=_wanted(names))
    turns_and_images = {name: (turns, ids) for rows in frames for name, turns, ids in rows.iter_rows()}
    for battle_id, a, b, words in written.iter_rows():
        stored_sides = [turns_and_images[side] for side in (a, b) if side in turns_and_images]
        turns = [turn for turns, _ in stored_sides for turn in turns]
        # A value is one that was found in an image of either side: the voter may repeat it.
        values = {
            v: kind
            for _, ids in stored_sides
            for i in ids
            for v, kind in policy_findings.image_values.get(i, {}).items()
        }
        vote = {"role": "user", "content": words, "text_id": text_id(words), "images": []}
        _, counts = redact_texts([*turns, vote], policy_findings, values, exercise_names_in(turns, policy_findings))
        reasons = {reason for reason, _ in counts[-1]}
        rows += [(battle_id, Step.REDACTION, 0, reason, Action.DROP.value) for reason in reasons]
    return pl.DataFrame(sorted(rows), schema=FIRED, orient="row")
