"""Tasks of queues for annotators: each item for so many of them, one at a time, without anything that is masked."""

import time
from collections.abc import Callable, Sequence
from threading import Lock

from schemas.items.review import Task, Waiting
from tasks.review.session import ReviewSession
from tasks.review_queue import item_fingerprint, subject_of
from tasks.shown import BATTLE, CONVERSATION, Item, Source, blinded, item_key

HELD_SECONDS = 1800.0
"""How long an item counts as taken by an annotator who was shown it."""


class Assigned:
    """The queues of a session, of which every item goes to `overlap` annotators."""

    def __init__(
        self, session: ReviewSession, source: Source, overlap: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.session, self._source, self._overlap, self._clock = session, source, overlap, clock
        self._held: dict[tuple[str, str], dict[str, float]] = {}
        self._lock = Lock()

    def next(self, name: str, annotator: str, after: str = "") -> Task | None:
        """The next item that still needs an annotator and has no verdict of this one; None when there is none.

        `after`: the key of an item that is passed over, until no other is left.
        """
        items, verdicts_of_subject = self.session.items(name), self.session.given(name)
        with self._lock:
            open_keys = []
            for key, item in items.items():
                verdicts = verdicts_of_subject.get(subject_of(item), {})
                if (
                    annotator not in verdicts
                    and len(verdicts.keys() | self._holders(name, key, annotator)) < self._overlap
                ):
                    open_keys.append((len(verdicts), key))
            if not open_keys:
                return None
            ordered = [key for _, key in sorted(open_keys, key=lambda counted_key: counted_key[0])]
            at = ordered.index(after) + 1 if after in ordered else 0
            chosen = next((key for key in [*ordered[at:], *ordered[:at]] if key != after), ordered[0])
            for holders in self._held.values():
                holders.pop(annotator, None)
            self._held.setdefault((name, chosen), {})[annotator] = self._clock()
        return self._task(name, chosen, items[chosen], len(ordered))

    def _holders(self, name: str, key: str, annotator: str) -> set[str]:
        """Others who are looking at an item now."""
        since = self._clock() - HELD_SECONDS
        return {who for who, at in self._held.get((name, key), {}).items() if at > since and who != annotator}

    def give(self, task: Task, verdicts: Sequence[str], annotator: str) -> None:
        """Store a verdict; it is on the disk when this returns. Raises Refused."""
        self.session.give(task.queue, task.key, task.shown, verdicts, annotator)
        self.session.take_in()

    def _task(self, name: str, key: str, waiting: Waiting, open_count: int) -> Task:
        queue = self.session.queues[name]
        self._source.refresh()
        kind, item_id = (BATTLE, waiting.battle_id) if waiting.battle_id else (CONVERSATION, waiting.conversation_id)
        source_item = self._source.item(item_key(kind, item_id), False)
        item = blinded(source_item, waiting.swapped) if source_item and waiting.blinded else source_item
        alone = bool(waiting.image_ids or waiting.texts) and not waiting.beside
        image_ids = list(waiting.image_ids) if alone else [image.image_id for image in item.images] if item else []
        images = [self._source.image(image_id) for image_id in image_ids if not self._source.hidden_image(image_id)]
        loaded_images = [image for image in images if image is not None]
        texts = [
            *([] if alone or item is None else _said(item)),
            *[
                (
                    text.heading,
                    "".join(f"[{stretch.hidden}]" if stretch.hidden else stretch.text for stretch in text.stretches),
                )
                for text in waiting.texts
            ],
        ]
        return Task(
            name, key, item_fingerprint(waiting), waiting.question, texts, loaded_images,
            len(image_ids) - len(loaded_images), queue.choices, queue.many, open_count,
        )  # fmt: skip


def _said(item: Item) -> list[tuple[str, str]]:
    """The messages of each side, under its name."""
    texts = []
    for side in item.sides:
        for message in side.messages:
            text = "".join(f"[{part.hidden}]" if part.hidden else part.text for part in message.parts)
            if text.strip():
                who = "User" if message.role == "user" else "Answer"
                texts.append((f"{side.model}: {who.lower()}" if len(item.sides) > 1 else who, text))
    return texts
