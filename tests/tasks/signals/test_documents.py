"""A document is all user messages with what is known of their images; taggers that do not look get no pixels."""

import pytest

from schemas.items.conversation import Conversation
from tasks.signals.documents import Documents
from tasks.storage.queries.images import StoredImages
from tasks.storage.tables import frame_of
from tests.builders import conversation, drawn_image, facts_frame, image, store_with

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


def test_user_messages_are_joined_and_image_facts_combined(documents):
    (document,) = documents().load([TALK.document_id])
    assert document.prompt == "One?\n\nTwo?"
    assert document.image_count == 2
    assert document.image_text == "\nEXIT"
    assert document.flat_fraction == pytest.approx(0.7)
    assert document.colour_count == 90


def test_a_prompt_without_images_is_a_document(documents):
    (document,) = documents().load([BARE.document_id])
    assert (document.image_count, document.image_text, document.images) == (0, "", ())
    assert (document.flat_fraction, document.colour_count) == (0.0, 0)


def test_pixels_go_only_to_taggers_that_look(documents):
    assert documents().load([TALK.document_id])[0].images == ()
    shown = documents(looks_at_images=True).load([TALK.document_id])[0].images
    assert shown == (("png", ONE.encoded), ("png", OTHER.encoded))
