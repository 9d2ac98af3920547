"""`curate tags`: compare a tagger with another or with human labels, and count the tags of kept conversations."""

import hashlib
import json
from random import Random

import PIL.Image
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
    PIL.Image.new("RGB", (64, 64), "red").save(tmp_path / "red.png")
    items = _write(tmp_path / "items.jsonl", [{"id": "a", "prompt": "Describe this image.", "images": ["red.png"]}])
    labels = tmp_path / "people.csv"
    labels.write_text("id,captioning,humor\na,yes,\n")
    code, out, err = curate("tags", "evaluate", "embedded", labels, "--documents", items, "--json")
    assert code == 0, err
    captioning, humor = _json(out)
    assert (captioning["accuracy"]["value"], humor["items"], humor["undecided"]) == (1.0, 0, 1)


MADE = [(n, f"Prompt {n}: what is this?") for n in range(12)]


def labelled_lines(random, drawn=MADE):
    """Label lines by rule: every third was made with, a fifth of the labels is null."""
    lines = []
    for number, prompt in drawn:
        labels = {tag: random.choice([True, True, False, False, None]) for tag in ("captioning", "ocr")}
        lines.append({"id": f"i{number}", "prompt": prompt, "made_with": number % 3 == 0, "labels": labels})
    return lines


def shares(lines, said, tag, made_with):
    """n, true, precision, recall, share of null, counted line by line."""
    pairs = [
        (said[line["prompt"]][tag], line["labels"][tag])
        for line in lines
        if line["made_with"] is made_with and line["labels"][tag] is not None
    ]
    hits = sum(1 for ours, theirs in pairs if ours and theirs)
    tagged, true = sum(1 for ours, _ in pairs if ours), sum(1 for _, theirs in pairs if theirs)
    null = sum(1 for ours, _ in pairs if ours is None) / len(pairs)
    return len(pairs), true, hits / tagged if tagged else None, hits / true if true else None, null


@pytest.mark.parametrize("seed", range(4))
def test_a_provider_is_held_against_labels_on_seen_and_unseen_lines_with_cost_and_time(
    seed, curate, openai_server, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    random = Random(seed)
    lines = labelled_lines(random)
    said = {
        prompt: NO | {tag: random.choice([True, False, None]) for tag in ("captioning", "ocr")} for _, prompt in MADE
    }

    def answer(request):
        shown = json.dumps(request["messages"][-1])
        return completed(json.dumps(next(said[prompt] for _, prompt in MADE if prompt in shown)))

    openai_server.answer(Reply(answer))
    labels = _write(tmp_path / "labels.jsonl", lines)
    command = ("tags", "evaluate", "--provider", "categories=openai", labels, "--json")
    for calls in (12, 0):
        before = len(openai_server.requests)
        code, out, err = curate(*command)
        assert (code, len(openai_server.requests) - before) == (0, calls), err
        figures = {(row["tag"], row["material"]): row for row in _json(out) if "material" in row}
        for (tag, material), row in figures.items():
            n, true, precision, recall, null = shares(lines, said, tag, material == "seen")
            assert (row["items"], row["true"], row["not_known"]) == (n, true, pytest.approx(null))
            assert (row["precision"]["value"], row["recall"]["value"]) == (precision, recall)
            for share in (row["precision"], row["recall"]):
                assert share["value"] is None or 0 <= share["ci95_low"] <= share["value"] <= share["ci95_high"] <= 1
        assert set(figures) == {(tag, side) for tag in ("captioning", "ocr") for side in ("seen", "unseen")}
        cost = next(row for row in _json(out) if "seconds" in row)
        assert (cost["items"], cost["calls"]) == (calls, calls)
        assert (cost["input_tokens"], cost["output_tokens"]) == (9 * calls, 5 * calls)
        assert cost["usd"] == pytest.approx(cost["usd"]) and (cost["usd"] > 0) is bool(calls)
        assert (cost["items_per_second"] is None) is not bool(calls)
    code, out, err = curate(*command[:-1])
    assert code == 0, err
    assert "precision seen" in out and "recall unseen" in out and "cost: $0.0000" in out and "seconds" in out


def test_the_recommended_provider_is_asked_once_a_tag_with_a_picture_and_answers_are_kept(
    curate, openai_server, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    PIL.Image.new("RGB", (64, 64), "red").save(tmp_path / "red.png")

    def answer(request):
        (tag,) = request["response_format"]["json_schema"]["schema"]["properties"]
        return completed(json.dumps({tag: tag == "captioning"}))

    openai_server.answer(Reply(answer))
    lines = [
        {"prompt": f"Describe picture {n}.", "image": "red.png", "labels": {"captioning": n < 2, "diagram": False}}
        for n in range(3)
    ]
    labels = _write(tmp_path / "labels.jsonl", lines)
    for calls in (3 * len(TAGS), 0):
        before = len(openai_server.requests)
        code, out, err = curate("tags", "evaluate", "--provider", "categories=openai_each_tag", labels, "--json")
        assert (code, len(openai_server.requests) - before) == (0, calls), err
        unseen = {row["tag"]: row for row in _json(out) if row.get("material") == "unseen"}
        assert (unseen["captioning"]["precision"]["value"], unseen["captioning"]["recall"]["value"]) == (2 / 3, 1.0)
        assert unseen["diagram"]["items"] == 3 and unseen["diagram"]["precision"]["value"] is None
    assert not any(file.suffix in (".png", ".jpg") for file in (tmp_path / "tag-answers").rglob("*"))


def test_an_evaluation_that_fails_half_way_pays_for_no_answer_twice(curate, openai_server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    limit = [5]

    def answer(_):
        limit[0] -= 1
        return completed(json.dumps(NO)) if limit[0] >= 0 else {"error": {"message": "bad", "code": 400}}

    openai_server.answer(Reply(answer))
    labels = _write(tmp_path / "labels.jsonl", labelled_lines(Random(0)))
    command = ("tags", "evaluate", "--provider", "categories=openai", labels, "--json")
    code, out, err = curate(*command)
    assert code == 0 and "FAILED openai: " in err
    known = max(row["items"] for row in _json(out) if "material" in row)
    assert 0 < known <= 5
    limit[0] = 1000
    code, out, err = curate(*command)
    assert code == 0 and "FAILED" not in err
    assert next(row["items"] for row in _json(out) if "seconds" in row) == 12 - 5


def test_a_budget_is_kept_and_a_service_without_a_price_is_said(curate, refused, openai_server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    openai_server.answer(Reply(lambda _: completed(json.dumps(NO))))
    labels = _write(tmp_path / "labels.jsonl", labelled_lines(Random(0)))
    command = ("tags", "evaluate", "--provider", "categories=openai", labels)
    code, _, err = curate(*command, "--budget", "0.0000001")
    assert code == 0 and "FAILED openai: budget_reached: 12" in err and openai_server.requests == []
    monkeypatch.setenv("CURATE_OPENAI_MODEL", "own-model")
    assert "no price for 'openai-own-model'" in refused(*command, "--budget", "5")
    assert openai_server.requests == []
    code, out, err = curate(*command)
    assert code == 0 and "cost: unknown, as the price file has no price for 'openai-own-model'" in out, err


def test_the_embedded_provider_is_free_and_says_so(curate, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [{"prompt": text, "labels": {"captioning": text.startswith("Describe")}} for text in PROMPTS.values()]
    code, out, err = curate("tags", "evaluate", _write(tmp_path / "labels.jsonl", lines))
    assert code == 0, err
    assert "cost: nothing" in out and "items a second" in out
    assert not (tmp_path / "tag-answers").exists()


def test_labels_of_a_store_are_figures_of_its_documents(curate, refused, store, ids, tmp_path):
    labels = _write(
        tmp_path / "people.jsonl", [{"id": ids["c0"], "captioning": True}, {"id": ids["c1"], "captioning": False}]
    )
    code, out, err = curate("tags", "evaluate", labels, "--store", store.root, "--json")
    assert code == 0, err
    unseen = next(row for row in _json(out) if row.get("material") == "unseen")
    assert (unseen["items"], unseen["true"], unseen["recall"]["value"]) == (2, 1, 1.0)
    other = _write(
        tmp_path / "other.jsonl", [{"id": ids["c0"], "captioning": True}, {"id": "elsewhere", "captioning": True}]
    )
    told = refused("tags", "evaluate", other, "--store", store.root)
    assert "1 of 2 ids are of no document that store" in told and "another release or store" in told


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ([[{"prompt": "a", "labels": {"mood": True}}]], "line 1: label of an unknown tag 'mood'"),
        ([[{"prompt": "a", "labels": {"mood": None, "ocr": True}}]], "line 1: label of an unknown tag 'mood'"),
        ([[{"prompt": "a", "labels": {"ocr": True}}] * 2], "occurs twice"),
        (
            [[{"prompt": "a", "labels": {"ocr": True}}], [{"prompt": "a", "labels": {"ocr": False}}]],
            "give each item one",
        ),
        (
            [[{"id": "x", "prompt": "a", "ocr": True}], [{"id": "y", "ocr": True}]],
            "1 of 2 ids are of no prompt in these",
        ),
        ([[{"id": "x", "prompt": "a", "ocr": True, "made_with": "perhaps"}]], "made_with is 'perhaps'"),
        ([[{"id": "x", "ocr": True}]], "a provider needs prompts"),
        ([[{"id": "x", "prompt": "a", "images": ["none.png"], "ocr": True}]], "image 'none.png' cannot be read"),
    ],
)
def test_a_file_of_labels_that_cannot_be_used_is_one_line_and_nobody_is_asked(
    files, told, refused, openai_server, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    written = [_write(tmp_path / f"{n}.jsonl", rows) for n, rows in enumerate(files)]
    assert told in refused("tags", "evaluate", "--provider", "categories=openai", *written)
    assert openai_server.requests == [] and not (tmp_path / "tag-answers").exists()


def test_sides_that_are_no_sides_are_one_line(refused, tmp_path):
    labels = _write(tmp_path / "l.jsonl", [{"prompt": "a", "question_category": "x"}])
    assert "1 sides are given" in refused("tags", "evaluate", "embedded")
    assert "--signal 'taxonomy'" in refused("tags", "evaluate", labels, "--signal", "taxonomy")


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
