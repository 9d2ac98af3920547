"""Redacted items are released only when the finders have looked again and found nothing."""

import time

import polars as pl
import pytest

from schemas.errors import BadInput
from tasks.policy.redact_step import groups
from tasks.storage.content_id import text_id
from tasks.storage.queries.released import conversations_as_released
from tests.builders import battle, conversation, drawn_image, facts_frame, image, sides

ASKED, ANSWERED = "I am ana@example.org, who are you?", "Hello ana@example.org."
REDACTED = {text_id("I am <EMAIL_1>, who are you?"): {}, text_id("Hello <EMAIL_1>."): {}}
EMAIL = {
    text_id(ASKED): {"types": ["email"], "spans": [{"type": "email", "start": 5, "end": 20, "confidence": 1.0}]},
    text_id(ANSWERED): {"types": ["email"], "spans": [{"type": "email", "start": 6, "end": 21, "confidence": 1.0}]},
}
TWO_MESSAGES = [
    {"reason": "pii_text", "part": "message", "place": place, "type": "email", "count": 1} for place in (0, 1)
]


@pytest.fixture
def redacting(deciding):
    deciding.policy = "redact"
    return deciding


def released(deciding) -> dict[str, list[str]]:
    rows = conversations_as_released(deciding.store).iter_rows(named=True)
    return {row["conversation_id"]: [turn["content"] for turn in row["turns"]] for row in rows}


def measured_again(deciding, **facts):
    """Facts of redacted content, as measuring would add them."""
    for signal, values in facts.items():
        deciding.store.append(f"signals/{signal}", facts_frame(signal, values))


def clean_again(deciding, *texts: str):
    for signal in ("text_pii", "language", "text_embedding", "service_text", "model_names"):
        measured_again(deciding, **{signal: {text_id(text): {} for text in texts}})


@pytest.fixture(scope="module")
def mailed(new_deciding):
    """A redacted conversation with an address in both messages. Do not write to it."""
    deciding = new_deciding()
    deciding.policy = "redact"
    deciding.given([conversation("c", ASKED, ANSWERED)], facts={"text_pii": EMAIL | REDACTED}).decide()
    return deciding


def test_a_message_with_personal_data_is_released_without_it(mailed):
    assert released(mailed) == {"c": ["I am <EMAIL_1>, who are you?", "Hello <EMAIL_1>."]}


def test_a_decision_says_what_was_redacted(mailed):
    (decided,) = mailed.store.read("decisions").to_dicts()
    assert (decided["keep"], decided["reasons"], decided["tags"]) == (True, [], ["pii_text", "text_only"])
    assert decided["redactions"] == TWO_MESSAGES


def test_the_store_keeps_the_original_of_what_is_redacted(mailed):
    assert mailed.store.read("conversations").row(0, named=True)["turns"][0]["content"] == ASKED


def test_a_redacted_form_has_ids_of_its_own(mailed):
    original = mailed.store.read("conversations").row(0, named=True)
    shown = conversations_as_released(mailed.store).row(0, named=True)
    for column in ("prompt_id", "document_id", "turns"):
        assert shown[column] != original[column]
    assert shown["prompt_id"] == text_id("I am <EMAIL_1>, who are you?")


def test_what_was_not_looked_at_again_is_not_released(redacting):
    redacting.given([conversation("c", ASKED, ANSWERED)], facts={"text_pii": EMAIL})
    decided = redacting.decide()["c"]
    assert (decided["keep"], decided["reasons"]) == (False, ["unmeasured_text_pii"])


def test_what_is_found_in_a_redacted_text_is_redacted_in_a_second_round(redacting):
    again = {"types": ["person"], "spans": [{"type": "person", "start": 16, "end": 19, "confidence": 1.0}]}
    left = {text_id("I am <EMAIL_1>, who are you?"): again, text_id("I am <EMAIL_1>, <PERSON_1> are you?"): {}}
    redacting.given([conversation("c", ASKED, ANSWERED)], facts={"text_pii": EMAIL | REDACTED | left})
    assert redacting.decide()["c"]["keep"]
    assert released(redacting)["c"][0] == "I am <EMAIL_1>, <PERSON_1> are you?"


def test_what_is_still_found_without_a_place_is_not_released(redacting):
    left = {text_id("Hello <EMAIL_1>."): {"types": ["email"], "spans": []}}
    redacting.given([conversation("c", ASKED, ANSWERED)], facts={"text_pii": EMAIL | REDACTED | left})
    decided = redacting.decide()["c"]
    assert (decided["keep"], decided["reasons"]) == (False, ["redaction_failed"])


def test_what_cannot_be_redacted_because_its_image_is_lost_is_not_released(redacting):
    face = {"1" * 32: {"faces": [{"box": [1, 1, 9, 9], "confidence": 0.9}], "confidence_max": 0.9}}
    redacting.given([conversation("c", image_ids=["1" * 32])], facts={"faces": face})
    assert redacting.reasons() == {"c": ["redaction_failed"]}


def _face(deciding, facts_of_filled: dict | None):
    original = drawn_image(1, (96, 96))
    subject = conversation("c", image_ids=[original.image_id])
    found = {"faces": [{"box": [20, 20, 20, 20], "confidence": 0.9}], "confidence_max": 0.9}
    deciding.given([subject], facts={"faces": {original.image_id: found}}, images=[image(original)])
    deciding.decide()
    (filled,) = deciding.store.read("redacted_images").to_dicts()
    if facts_of_filled is not None:
        measured_again(deciding, faces={filled["image_id"]: facts_of_filled}, image_text={filled["image_id"]: {}})
    return original, filled, deciding.decide()["c"]


@pytest.fixture(scope="module")
def filled_face(new_deciding):
    """Deciding on a redacted image with a face, its original, its filled row, and its decision. Do not write to it."""
    deciding = new_deciding()
    deciding.policy = "redact"
    return deciding, *_face(deciding, {})


def test_a_decision_says_which_image_was_filled(filled_face):
    _, _, _, decided = filled_face
    assert (decided["keep"], decided["tags"]) == (True, ["face", "short_prompt"])
    assert decided["redactions"] == [{"reason": "face", "part": "image", "place": 0, "type": "face", "count": 1}]


def test_a_face_is_filled_to_whole_blocks(filled_face):
    _, original, filled, _ = filled_face
    assert (filled["source_image_id"], filled["boxes"]) == (original.image_id, [[0, 0, 48, 48]])


def test_the_store_keeps_an_image_that_is_filled(filled_face):
    deciding, original, *_ = filled_face
    assert deciding.store.read("images")["image_id"].to_list() == [original.image_id]


def test_a_filled_image_is_released_in_place_of_its_original(filled_face):
    deciding, original, filled, _ = filled_face
    shown = conversations_as_released(deciding.store).row(0, named=True)["image_ids"]
    assert shown == [filled["image_id"]] != [original.image_id]


@pytest.mark.parametrize(
    ("left", "reason"), [(None, "unmeasured_faces"), ({"confidence_max": 0.7, "faces": []}, "redaction_failed")]
)
def test_a_filled_image_without_proof_is_not_released(redacting, left, reason):
    assert reason in _face(redacting, left)[2]["reasons"]


def test_a_second_round_fills_what_was_found_in_the_filled_image(redacting):
    more = {"confidence_max": 0.9, "faces": [{"box": [70, 70, 10, 10], "confidence": 0.9}]}
    _, first, decided = _face(redacting, more)
    assert decided["reasons"] == ["unmeasured_faces", "unmeasured_text_pii"]
    boxes = {row["image_id"]: row["boxes"] for row in redacting.store.read("redacted_images").to_dicts()}
    assert boxes.pop(first["image_id"]) == [[0, 0, 48, 48]]
    assert list(boxes.values()) == [[[0, 0, 48, 48], [64, 64, 96, 96]]]


@pytest.fixture(scope="module")
def read_image(new_deciding):
    """The store of a redacted image in which an address is written, whose reader quotes it. Do not write to it."""
    deciding = new_deciding()
    deciding.policy = "redact"
    original, text = drawn_image(1, (160, 160)), "Hello\nana@example.org\nBye"
    lines = [(0, 5, [8, 8, 40, 10]), (6, 21, [8, 72, 90, 10]), (22, 25, [8, 140, 40, 10])]
    read = {"text": text, "line_count": 3, "boxes": [{"start": s, "end": e, "box": box} for s, e, box in lines]}
    email = {"types": ["email"], "spans": [{"type": "email", "start": 6, "end": 21, "confidence": 1.0}]}
    subject = conversation("c", "Read it", "It says ana@example.org", image_ids=[original.image_id])
    facts = {"image_text": {original.image_id: read}, "text_pii": {text_id(text): email}}
    deciding.given([subject], facts=facts, images=[image(original)]).decide()
    return deciding.store


def test_text_in_an_image_is_filled_where_the_found_stretch_stands(read_image):
    (filled,) = read_image.read("redacted_images").to_dicts()
    assert filled["boxes"] == [[0, 64, 112, 96]]


def test_text_found_in_an_image_is_taken_out_of_what_quotes_it(read_image):
    assert read_image.read("redacted_conversations")["turns"].to_list()[0][1]["content"] == "It says <EMAIL_1>"


def test_what_a_rule_drops_is_not_redacted(redacting):
    facts = {"text_pii": EMAIL | REDACTED, "service_text": {text_id(ANSWERED): {"kinds": ["network_error"]}}}
    decided = redacting.given([conversation("c", ASKED, ANSWERED)], facts=facts).decide()["c"]
    assert (decided["reasons"], decided["tags"], decided["redactions"]) == (
        ["service_error"],
        ["pii_text", "text_only"],
        [],
    )
    assert redacting.store.read("redacted_conversations").is_empty()


def test_a_battle_falls_with_a_side_that_could_not_be_redacted(redacting):
    left, right = sides("b", ASKED, ANSWERED)
    redacting.given([left, right], [battle(left, right)], facts={"text_pii": EMAIL | REDACTED})
    assert redacting.decide()["battle:b"]["reasons"] == ["unmeasured_text_pii"]


def test_a_battle_is_kept_once_both_redacted_sides_were_looked_at_again(redacting):
    left, right = sides("b", ASKED, ANSWERED)
    redacting.given([left, right], [battle(left, right)], facts={"text_pii": EMAIL | REDACTED}).decide()
    clean_again(redacting, "Hello <EMAIL_1>.!")
    assert redacting.decide()["battle:b"]["keep"]


def _people(text: str, *names: str) -> dict:
    spans = [(text.index(name), text.index(name) + len(name)) for name in names]
    return {"types": ["person"], "spans": [{"type": "person", "start": s, "end": e, "confidence": 1} for s, e in spans]}


def test_each_value_has_one_placeholder_of_its_own_on_both_sides_of_a_battle(redacting):
    asked, left_says, right_says = (
        "I am Ana Lopez.",
        "Hello ANA LOPEZ, meet Bo Berg.",
        "Bo Berg knows Cy Dee and Ana Lopez.",
    )
    left, right = (
        conversation(name, asked, says, voted=True, model=name) for name, says in (("b", left_says), ("r", right_says))
    )
    people = {
        text_id(asked): _people(asked, "Ana Lopez"),
        text_id(left_says): _people(left_says, "ANA LOPEZ", "Bo Berg"),
        text_id(right_says): _people(right_says, "Cy Dee"),
    }
    expected = {
        "b": ["I am <PERSON_1>.", "Hello <PERSON_1>, meet <PERSON_2>."],
        "r": ["I am <PERSON_1>.", "<PERSON_2> knows <PERSON_3> and <PERSON_1>."],
    }
    clean = {text_id(text): {} for texts in expected.values() for text in texts}
    redacting.given([left, right], [battle(left, right)], facts={"text_pii": people | clean})
    assert redacting.decide()["battle:b"]["keep"]
    assert released(redacting) == expected


def _exercise(deciding, **changes):
    asked, answered = "Tom has 5 apples. How many are left?", "Tom has three. Ask Ann Berg."
    name = _people(asked, "Tom") | {"types": ["exercise_name"]}
    name["spans"] = [span | {"type": "exercise_name"} for span in name["spans"]]
    texts = {text_id(asked): name, text_id(answered): _people(answered, "Tom", "Ann Berg")}
    return deciding.given([conversation("c", asked, answered)], facts={"text_pii": texts | changes})


NAMED = "Tom has three. Ask <PERSON_1>."


def test_a_name_of_an_exercise_stays(redacting):
    decided = _exercise(redacting, **{text_id(NAMED): _people(NAMED, "Tom")}).decide()["c"]
    assert (decided["keep"], decided["reasons"]) == (True, [])
    assert released(redacting)["c"] == ["Tom has 5 apples. How many are left?", NAMED]


def test_a_name_that_is_found_beside_the_one_of_an_exercise_is_not_released(redacting):
    _exercise(redacting, **{text_id(NAMED): _people(NAMED, "Tom", "three")})
    assert not redacting.decide()["c"]["keep"]


def test_a_name_without_a_place_is_not_taken_for_the_one_of_an_exercise(redacting):
    _exercise(redacting, **{text_id(NAMED): {"types": ["person"], "spans": []}})
    assert redacting.decide()["c"]["reasons"] == ["redaction_failed"]


def test_a_rule_over_every_type_takes_out_the_names_of_exercises_too(redacting):
    anything = "reason: pii_text, signal: text_pii.types, over: messages, contains_any: [], action: redact"
    _exercise(redacting).under(f"name: ours\nrules:\n  - {{{anything}}}\n").decide()
    (row,) = redacting.store.read("redacted_conversations").to_dicts()
    assert row["turns"][0]["content"] == "<EXERCISE_NAME_1> has 5 apples. How many are left?"


def test_what_one_side_says_about_somebody_is_taken_out_of_the_other_side_where_nobody_found_it(redacting):
    left, right = (
        conversation("b", "Who?", "Ana Lopez.", voted=True, model="a"),
        conversation("r", "Who?", "ana or Ana Lopez", voted=True, model="b"),
    )
    redacting.given(
        [left, right],
        [battle(left, right)],
        facts={"text_pii": {text_id("Ana Lopez."): _people("Ana Lopez.", "Ana Lopez")}},
    )
    redacting.decide()
    clean_again(redacting, "<PERSON_1>.", "ana or <PERSON_1>")
    assert redacting.decide()["battle:b"]["keep"]
    assert released(redacting)["r"] == ["Who?", "ana or <PERSON_1>"]


def _connected(wanted: set[str], pairs: list[tuple[str, str]], dropped: set[str] = frozenset()) -> list[list[str]]:
    sides = pl.DataFrame(pairs, schema={"conversation_a": pl.String, "conversation_b": pl.String}, orient="row")
    return [sorted(group) for group in groups(wanted, sides, dropped)]


CHAIN = [("c", "d"), ("a", "b"), ("b", "c"), ("x", "y")]


@pytest.mark.parametrize("votes", [CHAIN, CHAIN[::-1]], ids=["in order", "reversed"])
def test_all_that_battles_connect_is_one_group_in_any_order(votes):
    assert _connected({"a"}, votes) == [["a", "b", "c", "d"]]


def test_nothing_is_connected_through_a_side_that_is_dropped():
    assert sorted(_connected({"a", "lone"}, CHAIN, dropped={"b"})) == [["a"], ["lone"]]


def test_a_long_chain_of_battles_costs_little():
    long = [(f"{n:06d}", f"{n + 1:06d}") for n in range(50_000)]
    started = time.process_time()
    assert [len(group) for group in _connected({"000000"}, long)] == [50_001]
    assert time.process_time() - started < 5


def _answers_of_named_sides(deciding, **facts) -> dict[str, str]:
    """Conversation -> its redacted answer, of a battle in which each side names somebody else."""
    left, right = conversation("b", "Who?", "Bo Berg.", voted=True), conversation("r", "Who?", "Ana Lopez.", voted=True)
    people = {
        text_id("Bo Berg."): _people("Bo Berg.", "Bo Berg"),
        text_id("Ana Lopez."): _people("Ana Lopez.", "Ana Lopez"),
    }
    deciding.given([left, right], [battle(left, right)], facts={"text_pii": people} | facts).decide()
    forms = deciding.store.read("redacted_conversations").to_dicts()
    return {row["conversation_id"]: row["turns"][1]["content"] for row in forms}


def test_people_of_both_sides_are_numbered_together(redacting):
    assert _answers_of_named_sides(redacting) == {"b": "<PERSON_1>.", "r": "<PERSON_2>."}


def test_a_side_whose_other_side_is_dropped_is_numbered_alone(redacting):
    gone = {text_id("Bo Berg."): {"kinds": ["network_error"]}}
    assert _answers_of_named_sides(redacting, service_text=gone) == {"r": "<PERSON_1>."}


def test_decisions_without_their_redactions_release_nothing(redacting):
    redacting.given([conversation("c", ASKED, ANSWERED)], facts={"text_pii": EMAIL | REDACTED}).decide()
    empty = redacting.store.read("redacted_conversations").clear()
    redacting.store.replace("redacted_conversations", empty)
    with pytest.raises(BadInput, match="curate decide"):
        conversations_as_released(redacting.store)


def test_redacting_again_writes_no_new_part(redacting):
    _face(redacting, {})
    before = {table: redacting.store.parts(table) for table in ("redacted_images", "redacted_conversations")}
    redacting.decide()
    assert {table: redacting.store.parts(table) for table in before} == before


@pytest.mark.parametrize("name", ["Priya", "Bo"])
def test_a_name_by_which_a_user_calls_a_person_is_no_name_of_an_exercise(redacting, name):
    asked, answered = f"Hello, {name} here. Give me a puzzle.", f"{name} has 5 apples. How many are left?"
    exercise = _people(answered, name) | {"types": ["exercise_name"]}
    exercise["spans"] = [span | {"type": "exercise_name"} for span in exercise["spans"]]
    facts = {text_id(asked): _people(asked, name), text_id(answered): exercise}
    redacting.given([conversation("c", asked, answered)], facts={"text_pii": facts}).decide()
    (form,) = redacting.store.read("redacted_conversations").to_dicts()
    assert [turn["content"] for turn in form["turns"]] == [
        "Hello, <PERSON_1> here. Give me a puzzle.",
        "<PERSON_1> has 5 apples. How many are left?",
    ]
    assert form["left_names"] == []
