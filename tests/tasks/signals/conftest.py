"""Providers that answer at once and count what they were asked, and the embedded ones, loaded once."""

import threading
from collections import Counter

import numpy as np
import polars as pl
import pytest

from schemas.signals import Face, ImageText, Language, Moderation, PiiSpan
from schemas.tables import TABLES
from schemas.tags import Categories, Criteria, Taxonomy
from tasks.providers import PROVIDERS, Providers
from tasks.providers.capabilities import Failed
from tasks.storage.tables import frame_schema

ANSWERS = {
    "nsfw": lambda image: image.width / 1000,
    "faces": lambda image: [Face(box=[0, 0, image.width // 2, image.height // 2], confidence=0.7)],
    "image_text": lambda image: ImageText(text=f"text {image.image_id}", line_count=1, area_fraction=0.1, boxes=[]),
    "image_embedding": lambda image: np.eye(4, dtype=np.float32)[int(image.image_id, 16) % 4],
    "text_embedding": lambda text: np.eye(4, dtype=np.float32)[len(text) % 4],
    "text_pii": lambda text: [PiiSpan(type="email", start=0, end=1, confidence=1.0)] if "@" in text else [],
    "moderation": lambda text: Moderation(flagged_probability=0.0, flagged_categories=[], category_scores=[]),
    "image_moderation": lambda image: Moderation(flagged_probability=0.0, flagged_categories=[], category_scores=[]),
    "language": lambda text: Language(language="en", confidence=0.9),
    "tokens": len,
    "refusal": lambda text: text.startswith("Sorry"),
    "named_entities": lambda text: None if text.isascii() else len(text),
    "categories": lambda document: Categories(**dict.fromkeys(Categories.model_fields, "?" in document.prompt)),
    "criteria": lambda document: Criteria(**dict.fromkeys(Criteria.model_fields, "?" in document.prompt)),
    "taxonomy": lambda document: Taxonomy(**dict.fromkeys(Taxonomy.model_fields)),
}
"""Capability -> what its provider says of an item."""


class CountingProvider:
    """Every capability's methods. What it says depends on the item alone."""

    looks_at_images = False

    def __init__(self, owner, capability):
        self._owner, self._capability = owner, capability
        self.version = owner.versions[capability]

    def _answer(self, items):
        owner, capability = self._owner, self._capability
        with owner.lock:
            owner.asked[capability] += len(items)
        if capability in owner.down:
            raise RuntimeError("secret words of the item")
        fails = owner.fails.get(capability, lambda item: False)
        return [Failed("over_quota") if fails(item) else owner.answers[capability](item) for item in items]

    nsfw_probabilities = find_faces = read = embed_images = embed_texts = find_pii = moderate = identify = _answer
    count_tokens = tag = moderate_images = refuses = count_entities = _answer


class CountingProviders:
    """Stands where `Providers` stands. `down` capabilities raise; `fails` says which items a capability fails on.

    `answers` is what each says of an item.
    """

    def __init__(self):
        self.names = dict.fromkeys(PROVIDERS, "counting")
        self.versions = dict.fromkeys(PROVIDERS, "v1")
        self.answers = dict(ANSWERS)
        self.asked, self.down, self.fails, self.lock = Counter(), set(), {}, threading.Lock()

    def __getitem__(self, capability):
        return CountingProvider(self, capability)


@pytest.fixture
def counting():
    return CountingProviders()


@pytest.fixture(scope="session")
def embedded():
    return Providers()


@pytest.fixture
def look_and_store():
    """Look at images and list the facts; the images themselves are not listed."""

    def work(observer, store, images):
        signals, done = observer.measure(images)
        for table, rows in signals.items():
            store.append(table, pl.DataFrame(rows, frame_schema(TABLES[table].row)))
        return done

    return work
