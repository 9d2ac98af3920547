"""What was taken down is nowhere in the store, and what others wrote is still there."""

import hashlib
import json
from pathlib import Path

import polars as pl
import pytest

from schemas.errors import BadInput
from schemas.items.review import Review
from tasks.images.decode import open_image
from tasks.storage.content_id import text_id
from tasks.storage.queries.released import is_decided, mark_decided
from tasks.storage.records import line_outcomes
from tasks.storage.reviews import journalled, keep
from tasks.storage.tables import Store
from tests.builders import NOON, image_bytes
from tests.tasks.ingest.logs import conv_id
from tests.tasks.takedown.conftest import (
    ANN,
    BOB,
    OTHER,
    OWN,
    REDACTED,
    SECRET,
    SHARED,
    everything,
    files_with,
    take,
    user_of,
)

OWN_IMAGE, SHARED_IMAGE = open_image(image_bytes(0)), open_image(image_bytes(1))


def conversations(store):
    return set(store.read("conversations")["conversation_id"])


@pytest.mark.parametrize("decided", [True, False])
def test_decisions_stay_as_good_as_they_were(store, decided):
    mark_decided(store)
    if not decided:
        store.append("conversations", store.read("conversations").with_columns(conversation_id=pl.lit("later")))
    take(store, conv_id("ann"))
    assert is_decided(store) == decided


def test_a_conversation_is_gone_from_every_file_with_its_image_its_facts_and_what_repeated_it(store):
    secrets = [conv_id("ann"), f"{SECRET} one", text_id(f"{SECRET} one?"), OWN, OWN_IMAGE.image_id]
    assert all(files_with(store, each) for each in secrets)
    take(store, conv_id("ann"))
    assert files_with(store, *secrets, OWN_IMAGE.encoded[40:90], f"writing in {OWN_IMAGE.image_id[:8]}") == []
    left = set(store.read("signals/text_pii")["content_id"])
    assert "0" * 32 not in left
    assert text_id("an answer") in left  # a model's, to a prompt that stays
    assert store.read("decisions")["duplicate_of"].null_count() == store.read("decisions").height
    assert json.loads(Path(store.at("runs/20240620T120000Z.json")).read_text()) == {"funnel": {}, "stages": []}
    assert files_with(store, '"name":"public_release"')


def test_waiting_verdicts_of_people_go_with_their_conversation_and_others_are_taken_in(store):
    for name in ("ann", "bob"):
        ids = {"conversation_id": conv_id(name), "item_id": conv_id(name), "content_id": "8" * 32, "queue": "held"}
        keep(store, Review(**ids, reasons=[], verdict="drop", reviewer="Ada", reviewed_at=NOON))
    take(store, conv_id("ann"))
    assert files_with(store, conv_id("ann")) == [] and journalled(store) == []
    reviews = store.read("reviews").select("conversation_id", "verdict")
    assert set(reviews.iter_rows()) == {(conv_id("bob"), "release"), (conv_id("bob"), "drop")}


def test_a_topic_that_something_went_from_has_no_name_until_it_gets_another(store):
    topics = store.read("topics").with_columns(name=pl.lit(SECRET))
    other = topics.head(1).with_columns(
        document_id=store.read("conversations").filter(conversation_id=conv_id("bob2"))["document_id"],
        topic=pl.lit(1, pl.Int32),
        name=pl.lit("another"),
    )
    store.replace(
        "topics", pl.concat([topics.filter(~pl.col("document_id").is_in(other["document_id"].implode())), other])
    )
    take(store, conv_id("ann"))
    assert set(store.read("topics").select("topic", "name").iter_rows()) == {
        (0, "to be named again (0)"),
        (1, "another"),
    }


def test_what_others_wrote_stays_and_so_does_an_image_they_share(store):
    before = {name: store.read(name) for name in ("conversations", "decisions", "signals/text_pii")}
    take(store, conv_id("ann"))
    assert conversations(store) == {conv_id(name) for name in ("bob", "bob2", "left", "right")}
    assert SHARED_IMAGE.image_id in set(store.read("images")["image_id"])
    assert f"{SHARED}.png" in set(store.read("image_files")["name"])
    kept = before["conversations"].filter(pl.col("conversation_id") != conv_id("ann"))
    assert store.read("conversations").equals(kept)
    assert store.read("reviews")["conversation_id"].to_list() == [conv_id("bob")]
    assert text_id("bobs answer") in set(store.read("signals/text_pii")["content_id"])


def test_a_user_goes_with_every_conversation_and_vote(store):
    user = user_of(store, "ann")
    take(store, user)
    assert files_with(store, SECRET, "secret", user, conv_id("ann"), conv_id("left"), conv_id("right")) == []
    assert conversations(store) == {conv_id("bob"), conv_id("bob2")}


def test_what_is_known_of_a_voters_words_stays_as_long_as_the_vote(store):
    words = text_id(f"{SECRET} why")
    take(store, conv_id("bob"))
    assert words in set(store.read("signals/text_pii")["content_id"])
    take(store, conv_id("left"))
    assert words not in set(store.read("signals/text_pii")["content_id"])
    assert files_with(store, f"{SECRET} why") == []


@pytest.mark.parametrize("asked", ["left", "right"])
def test_one_side_of_a_vote_takes_the_other_along_because_it_repeats_the_prompt(store, asked):
    take(store, conv_id(asked))
    assert files_with(store, f"{SECRET} two", conv_id("left"), conv_id("right")) == []
    assert store.read("battles").is_empty()


def test_an_image_goes_with_every_conversation_that_shows_it(store, arena):
    names = [SHARED, f"{SHARED}.png", SHARED_IMAGE.image_id, f"{SHARED_IMAGE.image_id}.png"]
    names.append(str(arena / "serve_images" / f"{SHARED}.png"))
    names += [hashlib.sha256(image_bytes(1)).hexdigest(), REDACTED]
    for number, asked in enumerate(names):
        own = Store(f"{store.root}-{number}")
        store.fs.put(store.root, own.root, recursive=True)
        take(own, asked)
        assert conversations(own) == {conv_id(name) for name in ("bob2", "left", "right")}, asked
        assert files_with(own, SHARED, SHARED_IMAGE.image_id, SHARED_IMAGE.encoded[40:90]) == [], asked


def test_answers_and_verdicts_on_prompts_of_other_stores_stay(store):
    tables = ("answers", "verdicts", "judge_cards", "screened_texts")
    for table in tables:
        theirs = store.read(table).head(1).with_columns(question_id=pl.lit("a prompt of another release"))
        store.append(table, theirs)
    take(store, conv_id("ann"))
    for table in tables:
        assert set(store.read(table)["question_id"]) == {conv_id("bob"), "a prompt of another release"}


def test_every_line_keeps_a_outcome(store):
    before = line_outcomes(store).select("source", "line")
    removed = take(store, conv_id("ann"), conv_id("left"))
    outcomes = line_outcomes(store)
    assert outcomes.select("source", "line").equals(before)
    taken_down = outcomes.filter(reason="taken_down").select(pl.format("{}:{}", "source", "line")).to_series().to_list()
    assert removed.lines == taken_down
    assert len(taken_down) == 4


def test_the_tombstone_tells_nothing(store):
    take(store, conv_id("ann"), user_of(store, "ann"), OTHER)
    assert set(store.read("takedowns").columns) == {"key", "kind", "taken_down_at"}
    assert files_with(store, conv_id("ann"), OTHER, ANN) == []


def test_two_takedowns_of_the_same_second_leave_two_records(store):
    take(store, conv_id("ann"))
    take(store, conv_id("bob"))
    assert len(list(Path(store.at("takedown")).glob("*.json"))) == 2


def test_a_dry_run_lists_what_would_go_and_touches_nothing(store):
    before = dict(everything(store))
    planned = take(store, conv_id("ann"), dry_run=True)
    assert dict(everything(store)) == before
    assert planned == take(store, conv_id("ann"))
    assert planned.rows["images"] == planned.rows["conversations"] == 1
    assert planned.image_files == [f"{OWN}.png"]
    assert planned.near_images == []


@pytest.mark.parametrize("asked", ["nonsense", "f" * 32, "", "../../no/such/file", conv_id("ann")[:-1]])
def test_an_unknown_id_is_one_clear_error_and_nothing_goes(store, asked):
    before = dict(everything(store))
    with pytest.raises(BadInput, match="is no conversation, battle, image or user of this store"):
        take(store, conv_id("bob"), asked)
    assert dict(everything(store)) == before


def test_a_raw_user_is_found_by_the_stores_key_and_an_unknown_one_written_nowhere(store):
    with pytest.raises(BadInput, match="no line of that user") as error:
        take(store, users=["192.0.2.77"])
    assert "192.0.2.77" not in str(error.value)
    take(store, users=[f" {ANN}"])
    assert conversations(store) == {conv_id("bob"), conv_id("bob2")}
    assert files_with(store, ANN) == []


def test_a_conversation_held_as_flagged_and_the_same_takedown_again_are_no_error(store):
    store.replace(
        "quarantine", pl.DataFrame({"kind": ["conversation"], "key": [conv_id("held")], "cause": ["flagged"]})
    )
    take(store, conv_id("held"))
    assert files_with(store, conv_id("held")) == []
    for asked in (conv_id("ann"), SHARED, user_of(store, "bob")):
        take(store, asked)
        assert take(store, asked).rows == {}
    take(store, users=[BOB])
