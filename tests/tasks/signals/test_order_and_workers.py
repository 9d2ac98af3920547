"""Order of the items and number of threads leave no trace in the tables."""

from random import Random

import pytest

from tasks.signals.registry import image_signals, text_signals
from tasks.signals.run import BATCH, ImageItems, append_rows, measure_items, measured
from tasks.storage.queries.images import StoredImages
from tasks.storage.queries.signals import table_name
from tests.builders import NOON, drawn_image, image, store_with

TEXTS = {f"{number:032x}": f"text {number} of {'@' if number % 5 else '-'}" for number in range(4 * BATCH + 1)}
IMAGES = [drawn_image(seed) for seed in range(BATCH + 8)]


def pii(providers):
    return text_signals(providers)["text_pii"]


def rows(store, signal):
    return store.read(table_name(signal)).sort("content_id").to_dicts()


@pytest.mark.parametrize("workers", [2, 7])
@pytest.mark.parametrize("seed", [0, 1])
def test_facts_of_texts_are_the_same(tmp_path, counting, workers, seed):
    stores = [store_with(tmp_path / name) for name in ("one", "other")]
    shuffled = Random(seed).sample(list(TEXTS), len(TEXTS))
    for store, ids, threads in zip(stores, (list(TEXTS), shuffled), (1, workers), strict=True):
        measure_items(
            store,
            pii(counting),
            ids,
            lambda ids: [TEXTS[i] for i in ids],
            workers=threads,
            now=NOON,
        )
    one, other = (rows(store, "text_pii") for store in stores)
    assert one == other
    assert len(one) == len(TEXTS)


@pytest.mark.parametrize("workers", [1, 3])
def test_the_tables_of_one_order_are_the_same_bytes(tmp_path, counting, workers):
    stores = [store_with(tmp_path / name) for name in ("one", "other")]
    for store, threads in zip(stores, (1, workers), strict=True):
        measure_items(
            store,
            pii(counting),
            sorted(TEXTS),
            lambda ids: [TEXTS[i] for i in ids],
            workers=threads,
            now=NOON,
        )
    one, other = (store.parts("signals/text_pii") for store in stores)  # parts are named by their content
    assert one == other


def test_images_measured_while_taken_in_and_later_have_the_same_facts(tmp_path, counting):
    stores = [store_with(tmp_path / name, images=[image(each) for each in IMAGES]) for name in ("one", "other")]
    signals, items = list(image_signals(counting).values()), ImageItems(stores[1], StoredImages(stores[1]).part_of)
    seen, _ = measured(signals, [image.image_id for image in IMAGES], IMAGES, NOON)
    append_rows(stores[0], seen)
    ids = items.ordered(each.image_id for each in reversed(IMAGES))
    measure_items(stores[1], signals, ids, items.load, workers=3, now=NOON)
    for name in image_signals(counting):
        one, other = (rows(store, name) for store in stores)
        assert one == other
        assert len(one) == len(IMAGES)
