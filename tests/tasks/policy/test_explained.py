"""`curate explain` answers in at most five lines: rule, value, threshold, where, and what an item repeats."""

import json
import shutil
from datetime import timedelta

import numpy as np
import polars as pl
import pytest

from schemas.items.conversation import Conversation, Sighting
from schemas.items.image import ImageFile
from schemas.items.reject import QuarantineCause, Quarantined, Reject, RejectReason
from schemas.tables import TABLES
from tasks.storage.content_id import text_id
from tasks.storage.queries.explain import explain_item
from tasks.storage.tables import Store, frame_schema
from tests.builders import NOON, battle, conversation, drawn_image, image, image_bytes, sides

FACE, CLEAN = drawn_image(1), drawn_image(2)


def _file(name: str, **changes) -> ImageFile:
    empty = {"size_bytes": 1, "modified_ns": 1, "image_id": None, "problem": None, "evidence": ""}
    return ImageFile(name=name, **empty | {"md5": "", "sha1": "", "sha256": ""} | changes)


@pytest.fixture(scope="module")
def decided(new_deciding) -> Store:
    """A store on which the public policy has decided. Do not write to it."""
    deciding = new_deciding()
    mail = conversation(
        "mail", "Look.", "Write to a@b.cd", image_ids=[CLEAN.image_id, FACE.image_id], line=3, feedback=["flag"]
    )
    first = conversation("first", "What is it?", "A.", image_ids=[CLEAN.image_id], line=4, user_id="f" * 24)
    again = conversation("again", "What is it?", "B.", image_ids=[CLEAN.image_id], line=5, tstamp=NOON + timedelta(1))
    left, right = sides("b", image_ids=[FACE.image_id])
    left, right = (each.model_copy(update={"model": "vicuna-13b"}) for each in (left, right))
    why = {"vote_reason": "What is it?", "vote_reason_id": text_id("What is it?")}
    deciding.given(
        [mail, first, again, left, right],
        battles=[battle(left, right, battle_id="vote", line=9, **why)],
        facts={
            "faces": {FACE.image_id: {"confidence_max": 0.75}},
            "text_pii": {mail.turns[1].text_id: {"types": ["email", "person"]}},
        },
        images=[image(FACE), image(CLEAN)],
        image_files=[
            _file(f"{'1' * 32}.png", image_id=FACE.image_id, md5="a" * 32),
            _file(f"{'2' * 32}.png", problem="undecodable"),
        ],
        rejects=[Reject(source=first.source, line=30, reason=RejectReason.BAD_MODEL, evidence="models is no pair")],
        quarantine=[Quarantined(kind="conversation", key="9" * 32, cause=QuarantineCause.FLAGGED)],
    )
    deciding.decide()
    old = {"side": 0, "record_type": "chat", "conv_id": "first", "opening_id": "o", "images": []}
    rows = [old | {"source": first.source, "line": line} for line in (20, 4)]
    deciding.store.replace("sightings", pl.DataFrame(rows, schema=frame_schema(Sighting)))
    return deciding.store


@pytest.fixture
def damaged(decided, tmp_path) -> Store:
    """A copy of the store, which a test damages."""
    return Store.open(str(shutil.copytree(decided.root, tmp_path / "store")))


@pytest.fixture
def explain(curate, decided):
    """Printed lines of `curate explain` on the store."""

    def lines(item: object) -> list[str]:
        code, out, err = curate("explain", item, "--store", decided.root)
        assert (code, err) == (0, "")
        assert len(out.splitlines()) <= 5
        return out.splitlines()

    return lines


def test_every_reason_has_its_value_threshold_place(explain):
    head, *details = explain("mail")
    assert head == "conversation mail (vicuna-13b, 2024-09-18-conv.json:3): dropped by policy public_release"
    assert "  face: faces.confidence_max of image 2 is 0.75; threshold 0.5 or more" in details
    assert "  pii_text: text_pii.types of message 2 is email" in details
    assert "  flagged_by_user: conversation.feedback of the conversation is flag" in "\n".join(details)


def test_a_duplicate_says_what_it_repeats(explain):
    assert explain("again")[1] == "  duplicate: repeats first (2024-09-18-conv.json:4): images: exact; equal prompts"


def test_a_battle_says_which_rules_fired_where(explain):
    head, *details = explain("vote")
    assert head.startswith("battle vote (vicuna-13b against vicuna-13b, winner ") and ": dropped by" in head
    assert any(line.endswith("faces.confidence_max of image 1 is 0.75; threshold 0.5 or more") for line in details)
    assert any("same_model: battle.same_model of the battle is true" in line for line in details)


def test_a_dropped_battle_says_that_the_words_of_its_voter_stay_behind(explain):
    assert explain("vote")[-1].endswith("what the voter wrote: not released, as the battle is not")


def test_a_side_of_a_battle_says_why_its_battle_was_dropped(explain):
    details = explain("b-right")[1:]
    assert details[0] == "  face: faces.confidence_max of image 1 is 0.75; threshold 0.5 or more"
    assert details[1].startswith("  its battle vote (vicuna-13b against vicuna-13b, ") and "dropped by" in details[1]
    assert "same_model: battle.same_model of the battle is true" in details[3]


def test_a_line_that_was_replaced_is_answered_with_the_later_line(explain):
    head, *details = explain("2024-09-18-conv.json:20")
    assert head == "line 2024-09-18-conv.json:20: dropped"
    assert details[0] == "  superseded: a later line of the same conversation or vote replaced it"
    assert details[1] == "  its conversation is now at 2024-09-18-conv.json:4"


def test_a_rejected_line_is_answered_with_what_is_wrong_with_it(explain):
    assert explain("2024-09-18-conv.json:30") == [
        "line 2024-09-18-conv.json:30: rejected",
        "  bad_model: no model name, or an invalid one; found: models is no pair",
    ]


def test_a_line_that_was_read_is_answered_with_its_conversation(explain):
    head, *details = explain("2024-09-18-conv.json:4")
    assert head == "line 2024-09-18-conv.json:4: kept"
    assert details[0] == "  conversation first (vicuna-13b, 2024-09-18-conv.json:4): kept by policy public_release"


@pytest.mark.parametrize(
    "item", [FACE.image_id, f"{FACE.image_id}.png", "1" * 32, f"{'1' * 32}.png", "a" * 32, "A" * 32]
)
def test_an_image_is_found_by_its_id_its_logged_name_and_its_md5(explain, item):
    head, *details = explain(item)
    assert head.startswith(f"image {FACE.image_id} (png, 32 x 24): shown by 3 conversations, 0 of them kept")
    assert details[0] == "  face: faces.confidence_max of the image is 0.75; threshold 0.5 or more"


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ("f" * 24, "user ffffffffffffffffffffffff: 1 conversations, 0 votes"),
        ("9" * 32, "conversation 99999999999999999999999999999999: quarantined, never opened (flagged)"),
        ("2" * 32, "image name 22222222222222222222222222222222: no image was read from it"),
    ],
)
def test_users_quarantined_items_and_names_without_an_image_have_an_answer(explain, item, told):
    assert explain(item)[0] == told


def test_an_image_file_is_found_by_its_pixels(explain, tmp_path):
    file = tmp_path / "anything.png"
    file.write_bytes(image_bytes(1))
    assert explain(file)[0].startswith(f"image {FACE.image_id} ")


def test_json_has_every_signal_on_one_line(curate, decided):
    code, out, _ = curate("explain", "mail", "--store", decided.root, "--json")
    assert (code, out.count("\n")) == (0, 1)
    assert json.loads(out)["images"][FACE.image_id]["faces"]["confidence_max"] == 0.75


def test_an_unknown_id_is_refused_in_one_line(decided, refused):
    err = refused("explain", "nothing", "--store", decided.root)
    assert "'nothing' is not in store" in err


def lose_a_part(store: Store, table: str) -> None:
    """List a part that is not there."""
    listed = [*store.parts(table), f"{'0' * 20}-2000-1000.parquet"]
    store.write_bytes(f"tables/{table}/parts.json", json.dumps(listed).encode())


@pytest.mark.parametrize(
    "item", ["mail", "again", "vote", FACE.image_id, "f" * 24, "2024-09-18-conv.json:20", "2" * 32]
)
def test_a_lost_part_in_every_table_only_adds_one_line_a_table_to_an_explanation(curate, damaged, item):
    before = [curate("explain", item, "--store", damaged.root, *more)[1] for more in ([], ["--json"])]
    for table in set(TABLES) - {"quarantine"}:
        lose_a_part(damaged, table)
    for printed, more in zip(before, ([], ["--json"]), strict=True):
        code, out, err = curate("explain", item, "--store", damaged.root, *more)
        assert (code, out) == (0, printed)
        named = [line.split()[2] for line in err.splitlines()]
        assert named and sorted({*named}) == named
        assert all(line.startswith("curate: table ") and "is left out" in line for line in err.splitlines())


@pytest.fixture
def mail_lost(damaged) -> Store:
    """The store without the part that has the conversation `mail`."""
    alone = damaged.read("conversations").filter(conversation_id="mail")
    damaged.replace("conversations", damaged.read("conversations").filter(conversation_id="first"))
    damaged.append("conversations", alone)
    *_, last = damaged.parts("conversations")
    damaged.fs.rm_file(damaged.at(f"tables/conversations/{last}"))
    return damaged


def test_an_item_beside_a_lost_part_is_explained(curate, mail_lost):
    assert curate("explain", "first", "--store", mail_lost.root)[1].startswith("conversation first")


def test_an_item_of_a_lost_part_is_refused_after_a_line_about_the_part(curate, mail_lost):
    code, out, err = curate("explain", "mail", "--store", mail_lost.root)
    assert (code, out) == (2, "")
    assert err.splitlines()[0].startswith("curate: table conversations: a part is lost") and "is not in store" in err


def test_without_a_readable_quarantine_nothing_is_explained(curate, damaged):
    lose_a_part(damaged, "quarantine")
    code, out, err = curate("explain", "mail", "--store", damaged.root)
    assert code != 0 and out == "" and "table 'quarantine'" in err


A, B, C = "a" * 32, "b" * 32, "c" * 32
SAME = {"pdq": "0" * 64, "grey": "00" * 1024}
BITS = {A: 0, B: 8, C: 16}
"""Bits set in each DCT hash: A and C are both near B, and not near each other."""
HASHES = {"image_hash": {name: {"phash": f"{(1 << count) - 1:016x}", **SAME} for name, count in BITS.items()}}


def _chat(name: str, minute: int, image_id: str, prompt: str = "What is this?") -> Conversation:
    changes = {"image_ids": [image_id], "tstamp": NOON + timedelta(minutes=minute), "line": minute + 1}
    return conversation(name, prompt, f"Answer of {name}.", **changes)


def _match(deciding, name: str) -> dict | None:
    return explain_item(deciding.store, name)["twin"]


def test_the_first_of_two_equal_chats_repeats_nothing(deciding):
    deciding.given([_chat("first", 0, A), _chat("again", 1, A)], facts=HASHES).decide()
    assert _match(deciding, "first") is None


def test_the_same_prompt_on_the_same_image_is_an_exact_match(deciding):
    deciding.given([_chat("first", 0, A), _chat("again", 1, A)], facts=HASHES).decide()
    assert _match(deciding, "again") == {
        "conversation": "first",
        "source": "2024-09-18-conv.json:1",
        "images": [{"image": A, "twin": A, "relation": "exact"}],
        "same_prompt": True,
        "prompt_cosine": 1.0,
    }


def test_another_wording_on_a_copy_of_the_image_is_a_match_with_its_cosine(deciding):
    chats = [_chat("first", 0, A), _chat("again", 1, B, "What's this?")]
    vectors = {chats[0].prompt_id: {"vector": [1.0, 0.0]}, chats[1].prompt_id: {"vector": [0.95, np.sqrt(1 - 0.95**2)]}}
    deciding.given(chats, facts=HASHES | {"text_embedding": vectors}).decide()
    twin = _match(deciding, "again")
    assert (twin["conversation"], twin["same_prompt"], twin["prompt_cosine"]) == ("first", False, 0.95)
    (images,) = twin["images"]
    assert (images["relation"], images["phash_distance"], images["pdq_distance"]) == ("perceptual", 8, 0)


def test_of_two_images_that_a_third_stands_for_one_matches_through_it(deciding):
    """B was seen first and stands for A and C, which are not near each other."""
    other = "Who took this photograph, and of whom?"
    chats = [_chat("b", 0, B, other), _chat("a", 1, A), _chat("c", 2, C)]
    deciding.given(chats, facts=HASHES).decide()
    twin = _match(deciding, "c")
    assert twin["conversation"] == "a"
    assert twin["images"] == [{"image": C, "twin": A, "relation": "through", "both_like": [B]}]


def test_a_prompt_whose_embedding_is_gone_has_no_cosine(deciding):
    chats = [_chat("first", 0, A), _chat("again", 1, B, "What's this?")]
    near = {chat.prompt_id: {"vector": [1.0, 0.0]} for chat in chats}
    deciding.given(chats, facts=HASHES | {"text_embedding": near}).decide()
    deciding.store.replace("signals/text_embedding", deciding.store.empty("signals/text_embedding"))
    assert _match(deciding, "again")["prompt_cosine"] is None
