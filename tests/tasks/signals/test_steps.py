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


def test_an_image_that_is_taken_in_has_every_image_signal(store, counting, look_and_store):
    done = look_and_store(MeasuringObserver(store, counting, NOON), store, IMAGES)
    assert done.calls == dict.fromkeys(image_signals(counting), len(IMAGES))


def test_images_seen_when_taken_in_are_not_measured_again(store, settings, counting, look_and_store):
    look_and_store(MeasuringObserver(store, counting, NOON), store, IMAGES)
    before = counting.asked.copy()
    assert catch_up_images.fn(settings, counting).model_calls == {}
    assert counting.asked == before


def test_a_version_bump_catches_up_that_signal_alone(settings, counting):
    catch_up_images.fn(settings, counting)
    counting.versions["faces"] = "v2"
    assert catch_up_images.fn(settings, counting).model_calls == {"faces": len(IMAGES)}


def test_a_signal_that_was_caught_up_is_not_measured_again(settings, counting):
    catch_up_images.fn(settings, counting)
    counting.versions["faces"] = "v2"
    catch_up_images.fn(settings, counting)
    assert catch_up_images.fn(settings, counting).model_calls == {}


@pytest.mark.parametrize(
    ("signal", "texts"),
    [
        ("text_pii", ("What is this?", "A cat.", "And now?", "A dog.", "Who is this?", "Me.")),
        ("model_names", ("A cat.", "A dog.", "Me.")),
        ("language", ("What is this?\n\nAnd now?", "Who is this?")),
    ],
)
def test_screening_looks_at_every_conversation_whatever_was_decided(store, settings, counting, signal, texts):
    measure_texts.fn(settings, counting, "screen_texts", kept_only=False)
    assert ids_measured(store, counting, signal) == ids(*texts)


def test_text_read_in_images_is_screened(store, settings, counting):
    catch_up_images.fn(settings, counting)
    measure_texts.fn(settings, counting, "screen_texts", kept_only=False)
    assert ids_measured(store, counting, "text_pii") >= ids(*(f"text {each.image_id}" for each in IMAGES))


@pytest.fixture
def described_images(store, settings, counting):
    """Providers that read images and described the texts of what is kept."""
    catch_up_images.fn(settings, counting)
    measure_texts.fn(settings, counting, "describe_texts", kept_only=True)
    return counting


def test_text_read_in_images_is_searched_for_code_under_their_ids(store, described_images):
    of_turns = ids(*(turn.content for turn in KEPT.turns))
    assert ids_measured(store, described_images, "code") == {*of_turns, IMAGES[0].image_id}


def test_tokens_of_text_read_in_images_are_not_counted(store, described_images):
    assert not ids_measured(store, described_images, "tokens") & {IMAGES[0].image_id}


@pytest.mark.parametrize(
    ("signal", "texts"),
    [
        ("tokens", ("What is this?", "A cat.", "And now?", "A dog.")),
        ("refusal", ("A cat.", "A dog.")),
        ("text_pii", ()),
    ],
)
def test_descriptions_of_texts_cover_what_is_kept_alone(store, settings, counting, signal, texts):
    measure_texts.fn(settings, counting, "describe_texts", kept_only=True)
    assert ids_measured(store, counting, signal) == ids(*texts)


def test_descriptions_of_documents_cover_what_is_kept_alone(store, settings, counting):
    measure_documents.fn(settings, counting)
    assert ids_measured(store, counting, "categories") == {KEPT.document_id}


def measure_all(settings, counting) -> list[dict[str, int]]:
    """Calls of every measuring step."""
    reports = [catch_up_images.fn(settings, counting)]
    reports += [measure_texts.fn(settings, counting, "texts", kept_only) for kept_only in (False, True)]
    return [report.model_calls for report in (*reports, measure_documents.fn(settings, counting))]


def test_the_steps_measure_every_signal_that_no_later_stage_asks_for(settings, counting):
    calls = measure_all(settings, counting)
    assert set().union(*calls) == BUILT_IN_SIGNALS.keys() - {"failure_types", "objects"}


def test_a_second_run_over_the_same_store_asks_no_provider(settings, counting):
    measure_all(settings, counting)
    before = counting.asked.copy()
    assert measure_all(settings, counting) == [{}, {}, {}, {}]
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


def test_a_document_holds_all_user_messages(documents):
    (document,) = documents().load([TALK.document_id])
    assert document.prompt == "One?\n\nTwo?"


def test_a_document_holds_facts_of_its_images(documents):
    (document,) = documents().load([TALK.document_id])
    assert document.image_count == 2
    assert document.image_text == "\nEXIT"
    assert document.flat_fraction == pytest.approx(0.7)
    assert document.colour_count == 90


def test_a_document_without_images_holds_facts_of_none(documents):
    (document,) = documents().load([BARE.document_id])
    assert (document.image_count, document.image_text, document.images) == (0, "", ())
    assert (document.flat_fraction, document.colour_count) == (0.0, 0)


def test_a_document_holds_no_pixels_for_who_does_not_look_at_images(documents):
    assert documents().load([TALK.document_id])[0].images == ()


def test_a_document_holds_its_images_for_who_looks_at_them(documents):
    shown = documents(looks_at_images=True).load([TALK.document_id])[0].images
    assert shown == (("png", ONE.encoded), ("png", OTHER.encoded))


def texts_and_signals(rows):
    """Content id -> its text and the signals that it lacks."""
    return {content_id: (text, signals) for frame in rows for content_id, signals, text in frame.iter_rows()}
