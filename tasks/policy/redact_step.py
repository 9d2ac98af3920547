"""Rules that fired with action redact -> tables `redacted_conversations` and `redacted_images`."""

from collections.abc import Mapping, Set

import numpy as np
import polars as pl
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from schemas.items.conversation import RedactedConversation
from schemas.items.image import RedactedImage
from schemas.policy import Action, Policy, policy_hash
from tasks.images.decode import decode_stored
from tasks.policy.proof import Conversations
from tasks.policy.redact import Box, CoveredImage, Findings, fill_boxes, findings, redacted, redacted_image
from tasks.policy.rules import Signals
from tasks.runtime.parallel import map_ordered
from tasks.runtime.progress import progress
from tasks.storage.queries.images import StoredImages
from tasks.storage.tables import Store, frame_of

IMAGES_A_PART = 256

_Keys = dict[tuple[str, tuple[Box, ...]], str]


def redact_store(
    store: Store, conversations: Conversations, hits: pl.DataFrame, policy: Policy, signals: Signals, workers: int
) -> dict[str, int]:
    """Redact every conversation that a rule redacts and no rule drops, and what its battles' other sides repeat of it.

    Returns counts for the stage report.
    """
    dropped = _items(hits, Action.DROP)
    wanted = _items(hits, Action.REDACT) - dropped
    together = groups(wanted, store.read("battles", ["conversation_a", "conversation_b"]), dropped)
    shown = conversations(sorted({i for group in together for i in group}), None)
    rows = pl.concat([store.empty("conversations"), *shown])
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

        def filled(source: str, boxes: tuple[Box, ...]) -> str:
            if (source, boxes) not in known:
                made.append(_fill(stored, source, boxes))
            return known.get((source, boxes)) or made[-1].image_id

        return redacted_image(image_id, size_of[image_id], found, filled), made

    images: dict[str, CoveredImage] = {}
    ordered = stored.ordered(size_of)
    with progress("images to redact", len(ordered)) as advance:
        for start in range(0, len(ordered), IMAGES_A_PART):
            some = ordered[start : start + IMAGES_A_PART]
            done = list(map_ordered(work, some, workers))
            store.append("redacted_images", frame_of(RedactedImage, [row for _, made in done for row in made]))
            images |= {image_id: image for image_id, (image, _) in zip(some, done, strict=True)}
            advance(len(some))
    return images


def _known(store: Store) -> _Keys:
    rows = store.read("redacted_images", ["source_image_id", "boxes", "image_id"]).iter_rows()
    return {(source, tuple(map(tuple, boxes))): image_id for source, boxes, image_id in rows}


def _fill(images: StoredImages, source: str, boxes: tuple[Box, ...]) -> RedactedImage:
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
