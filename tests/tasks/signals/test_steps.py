"""The steps measure what a store lacks: images, texts of everything, texts and documents of what is kept."""

import pytest

from schemas.settings import Settings
from schemas.signals import BUILT_IN_SIGNALS
from tasks.signals.registry import image_signals
from tasks.signals.run import MeasuringObserver
from tasks.signals.steps import catch_up_images, measure_documents, measure_texts, signal_versions
from tasks.storage.content_id import text_id
from tasks.storage.queries.signals import signal_values
from tests.builders import NOON, conversation, decision, drawn_image, image, store_with

IMAGES = [drawn_image(seed) for seed in range(4)]
KEPT = conversation("kept", "What is this?", "A cat.", "And now?", "A dog.", image_ids=[IMAGES[0].image_id])
DROPPED = conversation("dropped", "Who is this?", "Me.", image_ids=[IMAGES[1].image_id])


@pytest.fixture
def store(tmp_path):
    return store_with(
        tmp_path,
        conversations=[KEPT, DROPPED],
        images=[image(each) for each in IMAGES],
        decisions=[decision(KEPT), decision(DROPPED, "face")],
    )


@pytest.fixture
def settings(store):
    return Settings(store=store.root, workers=2)


def measured(store, counting, signal):
    return set(signal_values(store, signal, signal_versions(counting)[signal])["content_id"])


def ids(*texts):
    return {text_id(text) for text in texts}


def test_images_seen_while_taken_in_are_not_decoded_again(store, settings, counting, look_and_store):
    done = look_and_store(MeasuringObserver(store, counting, NOON), store, IMAGES)
    before = counting.asked.copy()
    assert done.calls == dict.fromkeys(image_signals(counting), len(IMAGES))
    assert catch_up_images.fn(settings, counting).model_calls == {}
    assert counting.asked == before


def test_a_version_bump_catches_up_that_signal_alone(store, settings, counting):
    catch_up_images.fn(settings, counting)
    counting.versions["faces"] = "v2"
    assert catch_up_images.fn(settings, counting).model_calls == {"faces": len(IMAGES)}
    assert catch_up_images.fn(settings, counting).model_calls == {}


def test_screening_looks_at_every_message_whatever_was_decided(store, settings, counting):
    measure_texts.fn(settings, counting, "screen_texts", kept_only=False)
    assert measured(store, counting, "text_pii") == ids(
        "What is this?", "A cat.", "And now?", "A dog.", "Who is this?", "Me."
    )
    assert measured(store, counting, "model_names") == ids("A cat.", "A dog.", "Me.")
    assert measured(store, counting, "language") == ids("What is this?\n\nAnd now?", "Who is this?")


def test_what_was_read_in_images_is_screened_for_personal_data(store, settings, counting):
    catch_up_images.fn(settings, counting)
    measure_texts.fn(settings, counting, "screen_texts", kept_only=False)
    assert measured(store, counting, "text_pii") >= ids(*(f"text {each.image_id}" for each in IMAGES))


def test_code_is_looked_for_in_the_text_of_kept_images_under_the_ids_of_the_images(store, settings, counting):
    catch_up_images.fn(settings, counting)
    measure_texts.fn(settings, counting, "describe_texts", kept_only=True)
    assert measured(store, counting, "code") == {*ids(*(turn.content for turn in KEPT.turns)), IMAGES[0].image_id}
    assert not measured(store, counting, "tokens") & {IMAGES[0].image_id}


def test_descriptions_cover_what_is_kept_and_nothing_else(store, settings, counting):
    measure_texts.fn(settings, counting, "describe_texts", kept_only=True)
    assert measured(store, counting, "tokens") == ids("What is this?", "A cat.", "And now?", "A dog.")
    assert measured(store, counting, "refusal") == ids("A cat.", "A dog.")
    assert measured(store, counting, "text_pii") == set()
    measure_documents.fn(settings, counting)
    assert measured(store, counting, "categories") == {KEPT.document_id}


def test_a_second_run_over_the_same_store_asks_no_provider(store, settings, counting):
    def run():
        reports = [catch_up_images.fn(settings, counting)]
        reports += [measure_texts.fn(settings, counting, "texts", kept_only) for kept_only in (False, True)]
        return [*reports, measure_documents.fn(settings, counting)]

    calls = [report.model_calls for report in run()]
    assert set().union(*calls) == BUILT_IN_SIGNALS.keys() - {"failure_types", "objects"}  # asked by later stages
    before = counting.asked.copy()
    assert [report.model_calls for report in run()] == [{}, {}, {}, {}]
    assert counting.asked == before
