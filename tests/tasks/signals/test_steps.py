"""The steps measure what a store lacks: images, texts some at a time, and documents of all user messages."""

import polars as pl
import pytest

from schemas.items.conversation import Conversation
from schemas.settings import Settings
from schemas.signals import BUILT_IN_SIGNALS, MeasuredOn
from tasks.providers import Providers
from tasks.signals import documents as module
from tasks.signals.documents import Documents
from tasks.signals.registry import image_signals, signal_of
from tasks.signals.run import Lacking, MeasuringObserver, cut, measured
from tasks.signals.steps import catch_up_images, measure_documents, measure_texts, signal_versions
from tasks.storage.content_id import text_id
from tasks.storage.queries.signals import StoredImages, signal_values
from tasks.storage.tables import frame_of
from tests.builders import NOON, append_rows, conversation, decision, drawn_image, facts_frame, image, store_with

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


TEXT_OF = {f"{number:032x}": f"text {number}, ünusual" for number in range(50)}


@pytest.mark.parametrize("order", [sorted, lambda ids: sorted(ids, reverse=True)])
def test_waiting_texts_are_those_that_were_given_in_whatever_order_they_are_read(order, monkeypatch):
    monkeypatch.setattr(module, "WINDOW", 7)
    given = [pl.DataFrame(rows, ["content_id", "text"], orient="row") for rows in cut([*TEXT_OF.items()], 9)]
    wanted = [*TEXT_OF][::2]
    waiting = module.WaitingTexts(wanted, [*given, given[0]])
    assert {each: waiting[each] for each in order(wanted)} == {each: TEXT_OF[each] for each in wanted}
    assert [*waiting] == wanted and len(waiting) == len(wanted)


def test_only_what_has_no_value_of_this_version_lacks_a_signal(tmp_path):
    store, signals = store_with(tmp_path), {name: signal_of(name, Providers()) for name in ("code", "tokens")}
    rows, _ = measured([signals["code"]], ["a", "b"], ["one", "two"], NOON)
    append_rows(store, rows)
    lacking = Lacking(store, signals)
    for ids in (["a", "c"], ["c", "b", None]):
        lacking.add(pl.Series(ids, dtype=pl.String))
    found = {names: sorted(ids) for names, ids in lacking.by_signals().items()}
    assert found == {("tokens",): ["a", "b"], ("code", "tokens"): ["c"]}


def test_spoken_texts_are_messages_answers_and_the_whole_prompt(tmp_path):
    store = store_with(tmp_path, conversations=[conversation("c", "one", "two", "three", "four")])
    said = {on: rows["text"].to_list() for on, rows in module.texts_by_kind(store.read("conversations")).items()}
    assert said[MeasuredOn.MESSAGES] == ["one", "two", "three", "four"]
    assert said[MeasuredOn.ASSISTANT_MESSAGES] == ["two", "four"]
    assert said[MeasuredOn.PROMPT] == ["one\n\nthree"]
