"""`curate tags`: compare a tagger with another or with human labels, and count the tags of kept conversations."""

import hashlib
import json

import pytest

from schemas.items.decision import Decision
from schemas.tags import TAGS
from tasks.providers.embedded import known_tags
from tasks.providers.embedded.known_tags import SWITCHED_ON
from tasks.providers.embedded_figures import TagAnswers
from tasks.storage.tables import frame_of
from tests.asked_bench import completed, models_file
from tests.builders import conversation, decision, store_with
from tests.http_server import Reply

PROMPTS = {
    "c0": "Describe this image.",
    "c1": "Write a poem about a lamp.",
    "c2": "Solve the equation x + 1 = 2 for my homework.",
    "c3": "Why is this meme funny?",
}
NO = dict.fromkeys(TAGS, False)


@pytest.fixture(autouse=True)
def every_tag_is_on(monkeypatch):
    """What the rule finds, whatever its figures are."""
    monkeypatch.setenv(SWITCHED_ON, " ".join(TAGS))


@pytest.fixture
def store(tmp_path):
    chats = [conversation(name, prompt, "Answer.") for name, prompt in PROMPTS.items()]
    made = store_with(tmp_path, conversations=chats)
    made.replace("decisions", frame_of(Decision, [decision(chat) for chat in chats]))
    return made


@pytest.fixture
def ids(store):
    return {row["conversation_id"]: row["document_id"] for row in store.read("conversations").iter_rows(named=True)}


def _json(out):
    return [json.loads(line) for line in out.splitlines()]


def _write(file, rows):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_a_tagger_is_held_against_people_s_labels_of_a_store(curate, store, ids, tmp_path):
    people = [
        {"id": ids["c0"], "captioning": True, "creative_writing": False},
        {"id": ids["c1"], "captioning": False, "creative_writing": False},
    ]
    labels = _write(tmp_path / "people.jsonl", people)
    code, out, err = curate("tags", "evaluate", "embedded", labels, "--store", store.root, "--json")
    assert code == 0, err
    rows = {row["tag"]: row for row in _json(out) if "accuracy" in row}
    assert list(rows) == ["captioning", "creative_writing"]
    assert (rows["captioning"]["items"], rows["captioning"]["f1"]["value"]) == (2, 1.0)
    assert rows["creative_writing"]["precision"]["value"] == 0.0
    differ = [row for row in _json(out) if "prompt" in row]
    assert differ == [
        {"item": ids["c1"], "tag": "creative_writing", "tagger": True, "reference": False, "prompt": PROMPTS["c1"]}
    ]


def test_what_was_asked_for_an_evaluation_is_not_asked_again(curate, store, ids, tmp_path):
    labels = _write(tmp_path / "people.jsonl", [{"id": each, **NO} for each in ids.values()])
    assert curate("tags", "evaluate", "embedded", labels, "--store", store.root)[0] == 0
    parts = store.parts("signals/categories")
    assert store.read("signals/categories").height == len(PROMPTS)
    assert curate("tags", "evaluate", "embedded", labels, "--store", store.root)[0] == 0
    assert store.parts("signals/categories") == parts


@pytest.fixture
def server(openai_server):
    """A model that finds text only under the paper's prompt, or as the large model."""

    def answer(request):
        sees = "AS PRINTED" in json.dumps(request["messages"][0]) or request["model"] == "large"
        return completed(json.dumps({**NO, "ocr": sees}))

    openai_server.answer(Reply(answer))
    return openai_server


@pytest.mark.parametrize("two", ["prompts", "models"])
def test_two_sets_of_prompts_or_two_models_are_compared_after_their_cost_and_asked_once(
    two, curate, store, server, tmp_path
):
    (tmp_path / "paper/tags").mkdir(parents=True)
    (tmp_path / "paper/tags/ocr.md").write_text("* `ocr`: AS PRINTED.\n")
    sets = ["--prompts", "ours", "--prompts", tmp_path / "paper"]
    of_models = [models_file(tmp_path, server.url, name, model=name) for name in ("small", "large")]
    command = ["tags", "evaluate", *(["openai", "openai", *sets] if two == "prompts" else of_models)]
    command += ["--store", store.root, "--json"]
    code, out, err = curate(*command, "--dry-run")
    assert (code, server.requests, store.parts("signals/categories")) == (0, [], []), err
    assert [(row["calls"], row["items"], row["input_tokens"] > 100) for row in _json(out)] == [(4, 4, True)] * 2
    for calls in (8, 0):
        before = len(server.requests)
        code, out, err = curate(*command, "--first", "0")
        assert (code, len(server.requests) - before) == (0, calls), err
        assert len([line for line in err.splitlines() if f"{calls // 2} calls" in line]) == 2
        accuracy = {row["tag"]: row["accuracy"]["value"] for row in _json(out)}
        assert accuracy == {tag: float(tag != "ocr") for tag in TAGS}
    assert len({request["messages"][0]["content"] for request in server.requests}) == (2 if two == "prompts" else 1)


def test_loose_prompts_with_images_need_no_store(curate, tmp_path):
    import PIL.Image

    PIL.Image.new("RGB", (64, 64), "red").save(tmp_path / "red.png")
    items = _write(tmp_path / "items.jsonl", [{"id": "a", "prompt": "Describe this image.", "images": ["red.png"]}])
    labels = tmp_path / "people.csv"
    labels.write_text("id,captioning,humor\na,yes,\n")
    code, out, err = curate("tags", "evaluate", "embedded", labels, "--documents", items, "--json")
    assert code == 0, err
    captioning, humor = _json(out)
    assert (captioning["accuracy"]["value"], humor["items"], humor["undecided"]) == (1.0, 0, 1)


def test_two_files_of_labels_need_no_documents(curate, tmp_path):
    one = _write(tmp_path / "one.jsonl", [{"id": n, "ocr": n < 3} for n in range(4)])
    two = _write(tmp_path / "two.jsonl", [{"id": n, "ocr": n < 2} for n in range(4)])
    code, out, _ = curate("tags", "evaluate", one, two)
    assert code == 0
    assert "0.750" in out
    assert "disagreements" in out


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("embedded", "nope", "--documents", "x.jsonl"), "unknown provider 'nope'"),
        (("embedded", "embedded"), "--store DIR or --documents FILE"),
        (("none.yaml", "embedded", "--documents", "x.jsonl"), "cannot be read"),
        (("embedded", "embedded", "--prompts", "none"), "--prompts 'none' is no folder"),
        (("embedded", "embedded", *["--prompts", "."] * 3, "--documents", "x.jsonl"), "one for each side"),
        (("embedded", "embedded", "--documents", "missing.jsonl"), "does not exist"),
        (("missing.csv", "embedded", "--documents", "x.jsonl"), "does not exist"),
        (("embedded", "embedded", "--store", "missing"), "is not a store"),
        (("embedded", "embedded", "--signal", "mood", "--documents", "x.jsonl"), "--signal 'mood'"),
    ],
)
def test_what_cannot_be_used_is_one_clear_line(refused, tmp_path, monkeypatch, given, told):
    monkeypatch.chdir(tmp_path)
    assert told in refused("tags", "evaluate", *given)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("id,ocr\na,perhaps\n", "line 2: ocr is 'perhaps'"),
        ("id,ocr\na,yes\na,no\n", "occurs twice"),
        ("name,ocr\na,yes\n", "no `id`"),
        ("id,mood\na,yes\n", "line 2: label of an unknown tag 'mood'"),
        ("id,ocr,homewrok\na,yes,\nb,no,False\n", "line 3: label of an unknown tag 'homewrok'"),
        ("id,note\na,a note\n", "has no label"),
        ("id,ocr\n", "has no label"),
    ],
)
def test_a_wrong_file_of_labels_is_told_by_its_line(refused, tmp_path, text, told):
    (tmp_path / "people.csv").write_text(text)
    assert told in refused("tags", "evaluate", tmp_path / "people.csv", tmp_path / "people.csv")


def test_labels_of_another_definition_file_are_refused(curate, refused, tmp_path):
    meaning, labels = tmp_path / "people.md", tmp_path / "people.csv"
    meaning.write_text("ocr: text must be read")
    hashed = hashlib.sha256(meaning.read_bytes()).hexdigest()[:8]
    labels.write_text(f"id,ocr,definitions\na,yes,{hashed}\n")
    assert curate("tags", "evaluate", labels, labels)[0] == 0
    for change in (lambda: meaning.write_text("ocr: all text"), meaning.unlink):
        change()
        err = refused("tags", "evaluate", labels, labels)
        assert f"line 2: labelled by definitions '{hashed}', but 'people.md' beside it is" in err


def test_labels_of_another_store_are_counted_in_one_line(curate, refused, store, ids, tmp_path):
    both = [{"id": each, **NO} for each in (*ids.values(), *"xyz")]
    labels = _write(tmp_path / "people.jsonl", both)
    code, _, err = curate("tags", "evaluate", "embedded", labels, "--store", store.root)
    assert code == 0
    assert f"note: '{labels}': 3 of 7 ids are of no document here; they are left out\n" in err
    other = _write(tmp_path / "other.jsonl", both[4:])
    assert "keeps no document to compare" in refused("tags", "evaluate", "embedded", other, "--store", store.root)


def test_a_tag_that_is_off_is_counted_as_not_told(curate, store, ids, tmp_path, monkeypatch):
    monkeypatch.setattr(known_tags, "tag_answers", lambda tag: TagAnswers.OFF if tag == "humor" else TagAnswers.ALL)
    monkeypatch.setenv(SWITCHED_ON, "ocr")
    labels = _write(tmp_path / "people.jsonl", [{"id": each, **NO} for each in ids.values()])
    code, _, err = curate("tags", "evaluate", "embedded", labels, "--store", store.root)
    assert code == 0, err
    _, out, _ = curate("tags", "show", "--store", store.root, "--json")
    tags = {row["tag"]: row for row in _json(out) if row["section"] == "tags"}
    assert (tags["humor"]["items"], tags["humor"]["not_told"], tags["humor"]["known"]) == (0, 4, 0.0)
    assert (tags["captioning"]["items"], tags["captioning"]["known"]) == (1, 1.0)


def test_show_counts_tags_and_says_which_come_together(curate, refused, store, ids, tmp_path):
    labels = _write(tmp_path / "people.jsonl", [{"id": each, **NO} for each in ids.values()])
    assert curate("tags", "evaluate", "embedded", labels, "--store", store.root)[0] == 0
    code, out, err = curate("tags", "show", "--store", store.root, "--json")
    assert code == 0, err
    tags = {row["tag"]: row for row in _json(out) if row["section"] == "tags"}
    assert (tags["captioning"]["items"], tags["captioning"]["not_told"]) == (1, 0)
    assert (tags["code"]["items"], tags["code"]["not_told"]) == (0, 4)
    shares = {row["tag"]: row for row in _json(out) if row["section"] == "overlap"}
    assert (shares["captioning"]["captioning"], shares["captioning"]["creative_writing"]) == (1.0, 0.0)
    assert "is not a store" in refused("tags", "show", "--store", tmp_path / "none")
