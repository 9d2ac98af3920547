"""What the preset `redact` takes out of public data that hold little personal data: how much of it was personal.

    python -m benchmarks.redaction DATA [--every-type]

DATA is the folder of shared data. Redacted as conversations, with the code and the preset of a run: the messages of
`arena-logs` and of `visit-bench` (each question with each answer), the sentences of `text-pii`, and the images of
`charts-maps-diagrams` and `art`. Tokens are words between blanks; in images, boxes are counted. Every value
that is taken out, but for text-pii, was read and labelled by one author in `redaction_labels.csv`, by hash: `somebody`
(could be a person's own data, planted or real), `public` (an artist, an athlete, a law of physics), `invented`
(exercises, stories) and `no_name`. A value that nobody labelled counts as no personal data and is listed as `unread`.
text-pii has labels of its own; faces are labelled in `face_labels.csv`. With --every-type the rules take every type
out, names of exercises too.
"""

import argparse
import csv
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.privacy_quality import IMAGES, figure
from benchmarks.privacy_quality import LABELS as FACE_LABELS
from benchmarks.privacy_unseen import chats
from schemas.policy import Action, Over, Policy
from schemas.signals import TextPii
from tasks.images.decode import ImageRejected, open_image
from tasks.policy.policy_file import load_policy
from tasks.policy.redact import findings, redacted
from tasks.providers import Providers
from tasks.signals.registry import Signal, signal_of
from tasks.storage.content_id import text_id

LABELS = Path(__file__).with_name("redaction_labels.csv")
FOLDERS = ("charts-maps-diagrams", "art")
PERSONAL = "somebody"
TEXTS_A_BATCH = 64
_PLACEHOLDER = re.compile(r"<([A-Z_]+)_\d+>")

Chat = tuple[str, ...]
"""Messages of a conversation, the user's first."""


def value_hash(value: str) -> str:
    """The first 12 hexadecimal digits of the value's SHA-256, as in the labels."""
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def logged_chats(folder: Path) -> set[Chat]:
    """The distinct conversations of FastChat's logs."""
    found = set()
    for file in sorted(folder.rglob("*-conv.json")):
        for line in file.read_text("utf-8", "replace").splitlines():
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            states = [record.get("state"), *record.get("states", ())] if isinstance(record, dict) else []
            found |= {chat for state in states if isinstance(state, dict) and (chat := _messages(state))}
    return found


def _messages(state: Mapping[str, Any]) -> Chat:
    said = [message[1] for message in state.get("messages") or () if isinstance(message, list) and len(message) == 2]
    texts = [each[0] if isinstance(each, list) and each else each for each in said]
    return tuple(text for text in texts if isinstance(text, str))


def removed(before: str, after: str) -> Iterator[tuple[str, str]]:
    """(value, type) of every placeholder of `after`, from the text before."""
    pieces = _PLACEHOLDER.split(after)
    place = len(pieces[0])
    for kind, rest in zip(pieces[1::2], pieces[2::2], strict=True):
        end = before.index(rest, place + 1) if rest else len(before)
        yield before[place:end], kind.lower()
        place = end + len(rest)


def redact_chats(given: Sequence[Chat], signal: Signal[str], policy: Policy) -> Iterator[tuple[Chat, Chat]]:
    """Every conversation as it is and as it is redacted."""
    texts = sorted({text for chat in given for text in chat})
    values: dict[str, TextPii] = {}
    for start in range(0, len(texts), TEXTS_A_BATCH):
        some = texts[start : start + TEXTS_A_BATCH]
        measured = zip(some, signal.values(some), strict=True)
        values |= {text_id(text): value for text, value in measured if isinstance(value, TextPii)}
    rows = [{"content_id": name, **value.model_dump()} for name, value in values.items()]
    frame = pl.DataFrame(rows, infer_schema_length=None)
    of_texts = [rule for rule in policy.rules if rule.over is Over.MESSAGES]
    found = findings(policy.model_copy(update={"rules": of_texts}), lambda name: frame)
    for chat in given:
        turns = [
            {"role": "assistant" if place % 2 else "user", "content": text, "text_id": text_id(text), "images": []}
            for place, text in enumerate(chat)
        ]
        (form,) = redacted([_ROW | {"turns": turns}], found, {}, "")
        yield chat, tuple(turn.content for turn in form.turns)


_ROW = {
    "conversation_id": "c", "model": "m", "null_turns": [], "num_turns": 1, "prompt_id": "", "document_id": "",
    "image_ids": [], "image_problems": [], "unread_parts": [], "tstamp": "2024-01-01T00:00:00Z",
    "day": "2024-01-01", "user_id": None, "anonymous": None, "voted": False, "feedback": [], "source": "", "line": 1,
}  # fmt: skip


def of_texts(name: str, pairs: Sequence[tuple[Chat, Chat]], known: Mapping[str, str]) -> dict[str, Any]:
    """The share of tokens taken out of labelled chats that were no personal data."""
    tokens, unread, asked = Counter[str](), set(), Counter[str]()
    for before, after in pairs:
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            for value, kind in removed(old, new):
                label = known.get(value_hash(value), "unread")
                tokens[label] += len(value.split()) or 1
                asked[label] += 0 if place % 2 else len(value.split()) or 1
                unread |= {f"unread {kind}: {value!r}"} if label == "unread" else set()
    print(f"{name}: in questions {dict(asked)}")
    print(f"{name}: {dict(tokens)} of {sum(len(text.split()) for chat, _ in pairs for text in chat)} tokens")
    return figure(f"redaction, {name}: tokens that were no personal data",
                  tokens.total() - tokens[PERSONAL], tokens.total(), sorted(unread))  # fmt: skip


def of_sentences(rows: Sequence[Mapping[str, Any]], signal: Signal[str], policy: Policy) -> list[dict[str, Any]]:
    """Of labelled sentences: tokens taken out that no label touches, and labelled names and addresses that stay."""
    rules = [rule for rule in policy.rules if rule.action is Action.REDACT and rule.over is Over.MESSAGES]
    wanted = {kind for rule in rules for kind in rule.contains_any or ()}
    wrong = total = gone = 0
    labels = [label for row in rows for label in row["spans"] if label["entity_type"] == "PERSON"]
    for row, value in zip(rows, signal.values([row["full_text"] for row in rows]), strict=True):
        spans = [s for s in value.spans if s.type in wanted or not wanted] if isinstance(value, TextPii) else []
        for span in spans:
            size = len(row["full_text"][span.start : span.end].split())
            total += size
            wrong += 0 if any(_touch(label, span) for label in row["spans"]) else size
        gone += sum(any(_touch(x, s) for s in spans) for x in row["spans"] if x["entity_type"] == "PERSON")
    return [
        figure("redaction, text-pii: tokens that were no personal data", wrong, total),
        figure("redaction, text-pii: labelled names taken out", gone, len(labels)),
    ]


def _touch(label: Mapping[str, Any], span: Any) -> bool:
    return bool(span.start < label["end_position"] and label["start_position"] < span.end)


def of_images(folder: Path, providers: Providers, policy: Policy, known: Mapping[str, str]) -> dict[str, Any]:
    """Boxes filled in images that show nobody's face and nobody's data."""
    rules = {rule.reason: rule for rule in policy.rules if rule.action is Action.REDACT}
    with FACE_LABELS.open(encoding="utf-8") as lines:
        faces_of = {row["file"]: row["kind"] for row in csv.DictReader(lines)}
    pii, wrong, total, listed = signal_of("text_pii", providers), 0, 0, []
    for file in sorted(each for each in folder.rglob("*") if each.suffix.lower() in IMAGES):
        try:
            image = open_image(file.read_bytes())
        except ImageRejected:
            continue
        name = file.relative_to(folder.parent).as_posix()
        (faces,), (read,) = providers["faces"].find_faces([image]), providers["image_text"].read([image])
        hit = any(face.confidence >= (rules["face"].at_least or 0) for face in faces)
        somebodys = faces_of.get(name, "none") in ("face", "small", "hidden")
        spans = pii.values([read.text])[0].spans if read.text else []
        types = rules["pii_image"].contains_any
        values = [read.text[s.start : s.end] for s in spans if not types or s.type in types]
        false = [repr(value) for value in values if known.get(value_hash(value)) != PERSONAL]
        false += ["face"] * len(faces) if hit and not somebodys else []
        total += len(values) + (len(faces) if hit else 0)
        wrong += len(false)
        listed += [f"{name}: {', '.join(false)}"] if false else []
    return figure(f"redaction, {folder.name}: boxes on nobody's data", wrong, total, listed)


def main(data: Path, every_type: bool) -> list[dict[str, Any]]:
    """Every figure that the data allows."""
    providers, policy = Providers(), load_policy("redact")
    if every_type:
        rules = [r.model_copy(update={"contains_any": []}) if r.contains_any and r.action is Action.REDACT else r
                 for r in policy.rules]  # fmt: skip
        policy = policy.model_copy(update={"rules": rules})
    signal = signal_of("text_pii", providers)
    with LABELS.open(encoding="utf-8") as lines:
        known = {row["value"]: row["kind"] for row in csv.DictReader(lines)}
    visit = sorted({chat.messages for chat in chats(data) if chat.source == "visit-bench"})
    figures = [
        of_texts(name, list(redact_chats(given, signal, policy)), known)
        for name, given in (("arena-logs", sorted(logged_chats(data / "arena-logs"))), ("visit-bench", visit))
    ]
    rows = [json.loads(line) for line in (data / "text-pii" / "labelled.jsonl").read_text("utf-8").splitlines()]
    figures += of_sentences(rows, signal, policy)
    return figures + [of_images(data / name, providers, policy, known) for name in FOLDERS]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.redaction", description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--every-type", action="store_true")
    given = parser.parse_args()
    if not (given.data / "arena-logs").is_dir():
        parser.error(f"DATA {str(given.data)!r} has no arena-logs; give the folder of shared data")
    main(given.data, given.every_type)
