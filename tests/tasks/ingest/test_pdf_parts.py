"""PDFs in messages: pages are pictures where they stand; a document that cannot be drawn is named with its place."""

import base64
import hashlib
import json
import random

import pytest

from tests.pdf_documents import encrypted, pdf
from tests.tasks.ingest.logs import ingested
from tests.tasks.ingest.spelled_parts import PDFS

pytest.importorskip("pypdfium2", reason="the extra pdf")
DOCUMENTS = {
    "one page": (pdf(1), 1, None),
    "three pages": (pdf(3), 3, None),
    "damaged": (b"%PDF-1.4 and no more", 0, "damaged_pdf"),
    "encrypted": (encrypted(), 0, "encrypted_pdf"),
    "long": (pdf(51), 0, "large_pdf"),
}
"""Document -> its bytes, pages that are drawn, kind of the part that is not read."""
TEXT, ANSWER = {"type": "text", "text": "What does it say?"}, {"role": "assistant", "content": "Red."}
PLACES = {
    "before the text": lambda part: [{"role": "user", "content": [part, TEXT]}, ANSWER],
    "after the text": lambda part: [{"role": "user", "content": [TEXT, part]}, ANSWER],
    "alone": lambda part: [{"role": "user", "content": [part]}, ANSWER],
    "in the second question": lambda part: [
        {"role": "user", "content": [TEXT]},
        ANSWER,
        {"role": "user", "content": [TEXT, part]},
        ANSWER,
    ],
    "in an answer": lambda part: [
        {"role": "user", "content": "Draw it."},
        {"role": "assistant", "content": [{"type": "text", "text": "Here."}, part]},
    ],
}
MESSAGES = {name: 3 if name == "in the second question" else 1 for name in PLACES} | {"in an answer": 2}
"""Place -> the number of its message, from 1."""


def drawn(seed: int, count: int) -> list[tuple[str, str, str]]:
    """(document, place, spelling) by rule: each of them at least once, in an order of the seed."""
    rng = random.Random(seed)
    axes = [rng.sample(list(axis), len(axis)) for axis in (DOCUMENTS, PLACES, PDFS)]
    return [tuple(axis[number % len(axis)] for axis in axes) for number in range(count)]


@pytest.mark.parametrize("seed", range(2))
def test_a_document_is_its_pages_or_is_named_with_its_place(tmp_path, seed):
    cases = drawn(seed, 40)
    lines = []
    for document, place, spelling in cases:
        part = PDFS[spelling](base64.b64encode(DOCUMENTS[document][0]).decode())
        lines.append(json.dumps({"messages": PLACES[place](part), "model": "x"}))
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rows.jsonl").write_text("\n".join(lines) + "\n")
    store = ingested(tmp_path / "logs", tmp_path / "store")
    conversations = {row["line"]: row for row in store.read("conversations").to_dicts()}
    evidence = store.read("rejects")["evidence"].to_list()
    for line, (document, place, _) in enumerate(cases, 1):
        _, pages, kind = DOCUMENTS[document]
        row = conversations[line]
        assert row["unread_parts"] == ([kind] if kind else []), (document, place)
        assert len(row["image_ids"]) == pages and not row["image_problems"], (document, place)
        places = [(number, each["character"]) for number, turn in enumerate(row["turns"], 1) for each in turn["images"]]
        text = {"before the text": 0, "alone": 0, "in an answer": len("Here.")}.get(place, len(TEXT["text"]))
        assert places == [(MESSAGES[place], text)] * pages, (document, place)
        assert (f"{kind} in message {MESSAGES[place]} of line {line}" in evidence) == bool(kind)


def test_pages_follow_each_other_in_the_order_of_the_document(tmp_path):
    (tmp_path / "logs").mkdir()
    part = PDFS["openai"](base64.b64encode(pdf(3)).decode())
    row = {"messages": PLACES["before the text"](part), "model": "x"}
    (tmp_path / "logs" / "rows.jsonl").write_text(json.dumps(row) + "\n")
    store = ingested(tmp_path / "logs", tmp_path / "store")
    (conversation,) = store.read("conversations").to_dicts()
    shown = [conversation["image_ids"][each["image"]] for each in conversation["turns"][0]["images"]]
    from tasks.images.pdf_pages import open_page

    assert shown == [open_page(pdf(3), number).image_id for number in range(3)]


def test_the_same_document_twice_is_stored_once(tmp_path):
    (tmp_path / "logs").mkdir()
    part = PDFS["anthropic"](base64.b64encode(pdf(2)).decode())
    line = json.dumps({"messages": PLACES["after the text"](part), "model": "x"})
    (tmp_path / "logs" / "rows.jsonl").write_text(f"{line}\n{line}\n")
    store = ingested(tmp_path / "logs", tmp_path / "store")
    assert store.height("images") == 2


FILES = {  # of a path
    "qwen": lambda path: {"file": path},
    "path": lambda path: {"type": "file", "path": path},
    "file_path": lambda path: {"type": "file", "file": {"file_path": path}},
    "address": lambda path: {"type": "input_file", "file_url": f"file:{path}"},
    "anthropic": lambda path: {"type": "document", "source": {"type": "url", "url": path}},
    "stated type": lambda path: {"type": "file", "mediaType": "application/pdf", "url": path},
    "struct": lambda path: {"type": "file", "file": {"bytes": None, "path": path}},
}
NAMES = {
    "one page": "one.pdf",
    "three pages": "deep/three.PDF",
    "damaged": "damaged.pdf",
    "encrypted": "deep/encrypted.pdf",
    "long": f"{'0a' * 16}.pdf",
}
UNREACHED = ("missing.pdf", "../outside.pdf", "link.pdf", "deep", "/etc/hostname.pdf")
"""Paths of no file of the folder."""


def _folder_of_documents(folder):
    """`logs` with a file for each of DOCUMENTS, beside a document that is out of it and a link to that one."""
    logs = folder / "logs"
    (logs / "deep").mkdir(parents=True)
    for document, name in NAMES.items():
        (logs / name).write_bytes(DOCUMENTS[document][0])
    (folder / "outside.pdf").write_bytes(pdf(2))
    (logs / "link.pdf").symlink_to(folder / "outside.pdf")
    return logs


@pytest.mark.parametrize("seed", range(2))
def test_a_document_in_a_file_is_its_pages_or_is_named_with_its_place(tmp_path, seed):
    logs, rng = _folder_of_documents(tmp_path), random.Random(seed)
    lines, expected = [], []
    for number in range(60):
        document = [*DOCUMENTS, *UNREACHED][number % (len(DOCUMENTS) + len(UNREACHED))]
        place, spelling = rng.choice([*PLACES]), rng.choice([*FILES])
        if document == "deep" and spelling != "stated type":
            spelling = "stated type"  # nothing else says that it should be a document
        part = FILES[spelling](NAMES.get(document, document))
        lines.append(json.dumps({"messages": PLACES[place](part), "model": "x"}))
        _, pages, kind = DOCUMENTS.get(document, (b"", 0, "pdf"))
        expected.append((document, place, pages, kind))
    (logs / "rows.jsonl").write_text("\n".join(lines) + "\n")
    store = ingested(logs, tmp_path / "store")
    conversations = {row["line"]: row for row in store.read("conversations").to_dicts()}
    evidence = store.read("rejects")["evidence"].to_list()
    for line, (document, place, pages, kind) in enumerate(expected, 1):
        row = conversations[line]
        assert row["unread_parts"] == ([kind] if kind else []), (document, place)
        assert len(row["image_ids"]) == pages and not row["image_problems"], (document, place)
        assert (f"{kind} in message {MESSAGES[place]} of line {line}" in evidence) == bool(kind)
    assert store.height("images") == 3


def test_pages_of_a_file_are_those_of_the_same_document_in_a_row(tmp_path):
    logs = _folder_of_documents(tmp_path)
    parts = (FILES["path"]("deep/three.PDF"), PDFS["openai"](base64.b64encode(pdf(3)).decode()))
    rows = [json.dumps({"messages": PLACES["before the text"](part), "model": "x"}) for part in parts]
    (logs / "rows.jsonl").write_text("\n".join(rows) + "\n")
    of_file, of_row = ingested(logs, tmp_path / "store").read("conversations").sort("line")["image_ids"].to_list()
    assert of_file == of_row
    assert len(set(of_file)) == 3


def test_a_document_in_a_file_on_a_list_of_known_hashes_is_held_with_every_line_that_names_it(tmp_path):
    logs = _folder_of_documents(tmp_path)
    parts = (FILES["path"]("one.pdf"), FILES["qwen"]("./one.pdf"), FILES["qwen"]("deep/three.PDF"))
    rows = [json.dumps({"messages": PLACES["after the text"](part), "model": "x"}) for part in parts]
    (logs / "rows.jsonl").write_text("\n".join(rows) + "\n")
    (tmp_path / "known.txt").write_text("md5 " + hashlib.md5(DOCUMENTS["one page"][0]).hexdigest() + "\n")
    store = ingested(logs, tmp_path / "store", known_hashes=[str(tmp_path / "known.txt")])
    assert store.read("conversations")["line"].to_list() == [3]


def test_a_document_on_a_list_of_known_hashes_is_held_with_its_line(tmp_path):
    (tmp_path / "logs").mkdir()
    part = PDFS["anthropic"](base64.b64encode(pdf(2)).decode())
    (tmp_path / "logs" / "rows.jsonl").write_text(
        json.dumps({"messages": PLACES["after the text"](part), "model": "x"}) + "\n"
    )
    (tmp_path / "known.txt").write_text("md5 " + hashlib.md5(pdf(2)).hexdigest() + "\n")
    store = ingested(tmp_path / "logs", tmp_path / "store", known_hashes=[str(tmp_path / "known.txt")])
    assert store.height("conversations") == 0
    assert store.height("quarantine") > 0
