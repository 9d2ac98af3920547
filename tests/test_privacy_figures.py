"""The figures about the detectors are counted as documented."""

import PIL.Image

from benchmarks.privacy_programs import texts_of
from benchmarks.privacy_quality import image_figures
from benchmarks.privacy_spans import pii_figures
from benchmarks.privacy_unseen import Chat, false_alarms, text_hash
from benchmarks.redaction import of_texts, removed, value_hash
from schemas.signals import PiiSpan
from tasks.providers import Providers


class Finder:
    """A detector that returns fixed findings."""

    version = "told"

    def __init__(self, *spans):
        self.spans = [PiiSpan(type=kind, start=start, end=end, confidence=1) for kind, start, end in spans]

    def find_pii(self, texts):
        return [self.spans for _ in texts]


SENTENCE = {
    "full_text": "Ann lives at 5 Elm Road, Leeds",
    "spans": [
        {"entity_type": "PERSON", "start_position": 0, "end_position": 3},
        {"entity_type": "STREET_ADDRESS", "start_position": 13, "end_position": 23},
        {"entity_type": "GPE", "start_position": 25, "end_position": 30},
    ],
}


def figures(*spans):
    return {name: (hits, n) for name, hits, n, _ in pii_figures([SENTENCE], Finder(*spans)) if n}


def test_a_town_beside_its_street_is_right_but_alone_it_is_not():
    assert figures(("address", 13, 30))["pii address: precision"] == (1, 1)
    assert figures(("address", 25, 30))["pii address: precision"] == (0, 1)
    assert figures(("address", 25, 30))["pii address: recall"] == (0, 1)


def test_half_of_a_label_must_be_covered_by_its_own_kind():
    assert figures(("person", 0, 3))["pii person: recall"] == (1, 1)
    assert figures(("person", 0, 1))["pii person: recall"] == (0, 1)
    assert figures(("address", 0, 3))["pii person: recall"] == (0, 1)


def test_an_image_without_a_label_has_no_face(tmp_path):
    PIL.Image.new("RGB", (64, 64), "white").save(tmp_path / "blank.png")
    PIL.Image.new("RGB", (64, 64), "grey").save(tmp_path / "hidden.png")
    PIL.Image.new("RGB", (64, 64), "black").save(tmp_path / "missed.png")
    labels = tmp_path / "labels.csv"
    labels.write_text("file,face_px,kind\nhidden.png,40,hidden\nmissed.png,40,face\n", encoding="utf-8")
    found = {row["bench"]: (row["value"], row["n"]) for row in image_figures(tmp_path, labels, Providers())}
    assert found["faces: recall, at least 32 px"] == (0.0, 1)
    assert found["faces: false alarms"] == (0.0, 1)
    assert found["nsfw: false alarms on harmless images"] == (0.0, 3)


def test_a_conversation_is_a_false_alarm_unless_one_of_its_findings_is_labelled_personal():
    chats = [Chat("set", "q", ("call 555", answer)) for answer in ("yes", "no")] + [Chat("set", "r", ("unread 7",))]
    known = {text_hash("call 555"): [(5, 8, True)], text_hash("no"): [(0, 2, False)], text_hash("yes"): []}
    alarms = {name: (false, n) for name, false, n, _ in false_alarms(chats, Finder(("phone", 0, 8)), known)}
    assert alarms == {
        "dropped, false alarms": (1, 3),
        "dropped, distinct questions, false alarms": (1, 2),  # of "q", one answer is dropped with reason
        "dropped, distinct messages, false alarms": (3, 4),
    }
    assert next(iter(false_alarms(chats, Finder(("person", 0, 8)), known)))[2] == 0  # a name alone drops nothing


def test_what_redaction_took_out_is_read_back_from_the_texts_and_counted_by_its_label():
    before, after = "Ann Berg saw Tom and Ann Berg", "<PERSON_1> saw <PERSON_2> and <PERSON_1>"
    assert list(removed(before, after)) == [("Ann Berg", "person"), ("Tom", "person"), ("Ann Berg", "person")]
    figure = of_texts("set", [((before,), (after,))], {value_hash("Ann Berg"): "somebody"})
    assert (figure["value"], figure["n"]) == (0.2, 5)  # Tom is unread, and counts as nobody


def test_docstrings_and_functions_of_sampled_files_are_messages(tmp_path):
    file = tmp_path / "some.py"
    file.write_text('"""About it."""\n\n\ndef half(n):\n    """Half."""\n    return n / 2\n')
    function = 'def half(n):\n    """Half."""\n    return n / 2'
    found = {("documentation", "About it."), ("documentation", "Half."), ("code", function)}
    assert set(texts_of(file, 0)) == found
    assert {source for source, _ in texts_of(file, 5)} == {"documentation"}
    assert list(texts_of(file, 1)) == []
    file.write_text("def broken(")
    assert list(texts_of(file, 0)) == []
