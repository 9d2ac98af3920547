"""The steps measure what a store lacks: images, texts some at a time, and documents of all user messages."""

import pytest

from schemas.items.conversation import Conversation
from schemas.settings import Settings
from schemas.signals import BUILT_IN_SIGNALS
from tasks.signals.documents import Documents
from tasks.signals.registry import image_signals
from tasks.signals.run import MeasuringObserver
from tasks.signals.steps import catch_up_images, measure_documents, measure_texts, signal_versions
from tasks.storage.content_id import text_id
from tasks.storage.queries.signals import StoredImages, signal_values
from tasks.storage.tables import frame_of
from tests.builders import NOON, conversation, decision, drawn_image, facts_frame, image, store_with

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


def ids_measured(store, counting, signal):
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
    assert ids_measured(store, counting, "text_pii") == ids(
        "What is this?", "A cat.", "And now?", "A dog.", "Who is this?", "Me."
    )
    assert ids_measured(store, counting, "model_names") == ids("A cat.", "A dog.", "Me.")
    assert ids_measured(store, counting, "language") == ids("What is this?\n\nAnd now?", "Who is this?")


def test_text_read_in_images_is_screened_and_searched_for_code_under_their_ids(store, settings, counting):
    catch_up_images.fn(settings, counting)
    measure_texts.fn(settings, counting, "screen_texts", kept_only=False)
    assert ids_measured(store, counting, "text_pii") >= ids(*(f"text {each.image_id}" for each in IMAGES))
    catch_up_images.fn(settings, counting)
    measure_texts.fn(settings, counting, "describe_texts", kept_only=True)
    assert ids_measured(store, counting, "code") == {*ids(*(turn.content for turn in KEPT.turns)), IMAGES[0].image_id}
    assert not ids_measured(store, counting, "tokens") & {IMAGES[0].image_id}


def test_descriptions_cover_what_is_kept_and_nothing_else(store, settings, counting):
    measure_texts.fn(settings, counting, "describe_texts", kept_only=True)
    assert ids_measured(store, counting, "tokens") == ids("What is this?", "A cat.", "And now?", "A dog.")
    assert ids_measured(store, counting, "refusal") == ids("A cat.", "A dog.")
    assert ids_measured(store, counting, "text_pii") == set()
    measure_documents.fn(settings, counting)
    assert ids_measured(store, counting, "categories") == {KEPT.document_id}


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


ONE, OTHER = drawn_image(1), drawn_image(2)
TALK = conversation("talk", "One?", "First.", "Two?", "Second.", image_ids=[ONE.image_id, OTHER.image_id])
TWIN = TALK.model_copy(update={"conversation_id": "twin", "model": "llava-34b"})
BARE = conversation("bare", "Only words?", "Yes.")
LAYOUTS = {ONE.image_id: {"flat_fraction": 0.2, "colour_count": 90}, OTHER.image_id: {"flat_fraction": 0.7}}


@pytest.fixture
def documents(tmp_path):
    store = store_with(tmp_path, images=[image(ONE), image(OTHER)])
    text = facts_frame("image_text", {OTHER.image_id: {"text": "EXIT"}})
    layout = facts_frame("image_layout", LAYOUTS)

    def make(looks_at_images=False):
        frame = frame_of(Conversation, [TALK, TWIN, BARE])
        return Documents(frame, text, layout, StoredImages(store) if looks_at_images else None)

    return make


def test_user_messages_are_joined_with_facts_of_images_whose_pixels_only_some_see(documents):
    (document,) = documents().load([TALK.document_id])
    assert document.prompt == "One?\n\nTwo?"
    assert document.image_count == 2
    assert document.image_text == "\nEXIT"
    assert document.flat_fraction == pytest.approx(0.7)
    assert document.colour_count == 90
    (document,) = documents().load([BARE.document_id])
    assert (document.image_count, document.image_text, document.images) == (0, "", ())
    assert (document.flat_fraction, document.colour_count) == (0.0, 0)
    assert documents().load([TALK.document_id])[0].images == ()
    shown = documents(looks_at_images=True).load([TALK.document_id])[0].images
    assert shown == (("png", ONE.encoded), ("png", OTHER.encoded))


def texts_and_signals(rows):
    """Content id -> its text and the signals that it lacks."""
    return {content_id: (text, signals) for frame in rows for content_id, signals, text in frame.iter_rows()}
