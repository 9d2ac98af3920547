"""False alarms among what `public_release` drops for personal data, on public chats that nobody wrote for it.

    python -m benchmarks.privacy_unseen DATA [--part 0|1|2] [--labels FILE]

DATA is the folder of shared data: chats of nine public sets, and sentences in 75 languages, which are counted apart.
Every finding for which a conversation is dropped was read and labelled in `pii_labels.csv`, by hash and place of the
text, so no text is kept there. Parts 0 and 1, halves of the questions by hash, served to mend the finder, first 0 and
later 1. Part 2 was only measured: what a judge wrote about answers, captions, references, texts of generated
images, XSTest's prompts and pairs of words. FILE has
more labels, of reviewers (`curate review results alarms --out FILE`). A finding that nobody labelled is listed as
`unread` and counts as a false alarm.
"""

import argparse
import csv
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.privacy_quality import Figure, figure
from schemas.signals import PiiSpan
from tasks.policy.policy_file import load_policy
from tasks.providers import Providers
from tasks.providers.capabilities import PiiFinder
from tasks.review.alarms import text_hash

LABELS = Path(__file__).with_name("pii_labels.csv")
_FIELD_CHARACTERS_MAX = 10**8
SENTENCES = "sentences"
"""No chats: sentences of news and encyclopedias in 75 languages, of which the finder's model knows few."""


LATER = 2
"""The part that served for nothing but measuring."""


class Chat(NamedTuple):
    """A conversation of a public set."""

    source: str
    question: str
    """What halves are made by: all answers to one question are in one half."""
    messages: tuple[str, ...]


class Finding(NamedTuple):
    """What a message is dropped for."""

    text: str
    span: PiiSpan
    personal: bool | None
    """None if nobody read it."""


def chats(data: Path) -> Iterator[Chat]:
    """Every prompt of the shared data that has not served to work on the finder, with each of its answers."""
    yield from _visit(data / "visit-bench")
    yield from _answered(data / "owleval", "question_id", "question", "answer")
    yield from _answered(data / "judge-wildvision", "question_id", "instruction", "output", by="question_id")
    yield from _answered(data / "mathv", "id", "question", "response")
    prompts = {row["id"]: row["text"] for row in _lines(data / "votes-llmfao" / "prompts.jsonl")}
    for row in _lines(data / "votes-llmfao" / "answers.jsonl"):
        yield Chat("votes-llmfao", prompts[row["prompt"]], (prompts[row["prompt"]], _text(row["result"])))
    for name in ("arena-hard-v0.1", "mt-bench", "vicuna-bench"):
        for row in _lines(data / "text-categories" / f"{name}.jsonl"):
            turns = tuple(row.get("turns") or (row["prompt"],))
            yield Chat(name, turns[0], turns)
    for row in _lines(data / "text-language" / "chat-prompts-12lang.jsonl"):
        yield Chat("chat-prompts-12lang", str(row["question_id"]), (row["text"],))
    for row in _lines(data / "text-language" / "lingua.jsonl"):
        if row["kind"] == SENTENCES:
            yield Chat(SENTENCES, row["text"], (row["text"],))


def later_chats(data: Path) -> Iterator[Chat]:
    """Part 2: every text of the shared data that is in no half, as a chat of one message."""
    for file in sorted((data / "judge-wildvision" / "judgements").glob("*.jsonl")):
        for row in _lines(file):
            for game in row["games"]:
                yield Chat("judge", row["question_id"], (_text(game.get("judgment")),))
    for file in sorted((data / "visit-bench").glob("*-images*.csv")):
        for row in _rows(file):
            for name in ("image_dense_captions", "images_dense_captions", "images_blip2_captions", "reference_output"):
                if text := row.get(name):
                    yield Chat("captions", text, (text,))
    for row in _read(data / "alignment-human" / "human_annotations_with_scores.json", {}).values():
        yield Chat("generated images", row["text"], (row["text"],))
    for row in _read(data / "alignment-human" / "sample_question_answers.json", []):
        yield Chat("generated images", row["question"], (row["question"],))
    for row in _rows(data / "text-safety" / "xstest.csv"):
        yield Chat("xstest", row["prompt"], (row["prompt"],))
    for row in _lines(data / "text-language" / "lingua.jsonl"):
        if row["kind"] != SENTENCES:
            yield Chat("words", row["text"], (row["text"],))


def _read(file: Path, otherwise: Any) -> Any:
    return json.loads(file.read_bytes()) if file.exists() else otherwise


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


def _rows(file: Path) -> list[dict[str, str]]:
    if not file.exists():
        return []
    csv.field_size_limit(_FIELD_CHARACTERS_MAX)
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _visit(folder: Path) -> Iterator[Chat]:
    """GPT-4's answers to both sheets, and six models' answers, which stand in the last column."""
    for file in sorted(folder.glob("*-images*.csv")):
        for row in _rows(file):
            question = row["instruction"] + row.get("row", "")
            yield Chat("visit-bench", question, (row["instruction"], row["gpt4_prediction"]))
    for file in sorted(folder.glob("predictions/*.csv")):
        for row in _rows(file):
            yield Chat("visit-bench", row["instruction"], (row["instruction"], _text(list(row.values())[-1])))


def _answered(folder: Path, key: str, asked: str, answered: str, by: str = "") -> Iterator[Chat]:
    """Questions, and the files of answers to them; halves are made by the question, or the field `by`."""
    questions = {str(row[key]): row for row in _lines(folder / "questions.jsonl")}
    for file in sorted(folder.glob("answers/*.jsonl")):
        for row in _lines(file):
            if question := questions.get(str(row[key])):
                yield Chat(folder.name, question[by or asked], (question[asked], _text(row[answered])))


def half(chat: Chat) -> int:
    """0 or 1, by the hash of the question."""
    return hashlib.sha256(chat.question.encode("utf-8", "surrogatepass")).digest()[0] % 2


Labels = dict[str, list[tuple[int, int, bool]]]
"""Text hash -> start, end and whether it is personal data."""


def labels(*files: Path) -> Labels:
    """What was read and labelled."""
    known: Labels = {}
    for row in (row for file in files or (LABELS,) for row in _rows(file)):
        known.setdefault(row["text"], []).append((int(row["start"]), int(row["end"]), row["personal"] == "yes"))
    return known


def findings(texts: Sequence[str], finder: PiiFinder, known: Labels) -> dict[str, list[Finding]]:
    """Text -> what it is dropped for; texts that are not dropped are missing."""
    # types of personal data for which `public_release` drops a conversation
    rule = next(each for each in load_policy("public_release").rules if each.reason == "pii_text")
    types = frozenset(rule.contains_any or ())
    found: dict[str, list[Finding]] = {}
    for text, spans in zip(texts, finder.find_pii(texts), strict=True):
        of_text = known.get(text_hash(text), [])
        for span in spans if isinstance(spans, list) else ():
            if span.type in types:
                told = [personal for start, end, personal in of_text if start < span.end and span.start < end]
                found.setdefault(text, []).append(Finding(text, span, any(told) if told else None))
    return found


def false_alarms(given: Sequence[Chat], finder: PiiFinder, known: Labels) -> Iterator[Figure]:
    """Name, false alarms, number and list, of dropped conversations, and of the questions and messages behind them.

    A question is a false alarm if all its dropped conversations are.
    """
    found = findings(sorted({text for chat in given for text in chat.messages}), finder, known)
    wrong = {text for text, each in found.items() if not any(finding.personal for finding in each)}
    dropped = [chat for chat in given if any(text in found for text in chat.messages)]
    false = [chat for chat in dropped if not any(text in found and text not in wrong for text in chat.messages)]
    yield "dropped, false alarms", len(false), len(dropped), []
    questions, true = {chat.question for chat in dropped}, {chat.question for chat in dropped if chat not in false}
    yield "dropped, distinct questions, false alarms", len(questions - true), len(questions), []
    shown = [_shown(finding) for text in sorted(wrong) for finding in found[text]]
    yield "dropped, distinct messages, false alarms", len(wrong), len(found), shown


def _shown(finding: Finding) -> str:
    text, span = finding.text, finding.span
    read = "unread " if finding.personal is None else ""
    around = (
        f"{text[max(0, span.start - 30) : span.start]}[{text[span.start : span.end]}]{text[span.end : span.end + 20]}"
    )
    return f"{read}{span.type} {text_hash(text)} {span.start} {span.end}: {around!r}"


def main(data: Path, parts: Sequence[int], labelled: Sequence[Path] = ()) -> list[dict[str, Any]]:
    """The figures of every part."""
    finder, halves = Providers()["text_pii"], list(chats(data))
    known, figures = labels(LABELS, *labelled), []
    for number in parts:
        of_part = list(later_chats(data)) if number == LATER else [chat for chat in halves if half(chat) == number]
        for kind, apart in (("chats", False), ("sentences", True)):
            given = [chat for chat in of_part if (chat.source == SENTENCES) == apart]
            print(f"part {number}: {len(given)} {kind}")
            figures += [
                figure(f"part {number}: {kind} {name}", *rest) for name, *rest in false_alarms(given, finder, known)
            ]
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.privacy_unseen", description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--part", type=int, choices=(0, 1, LATER))
    parser.add_argument("--labels", type=Path, action="append", default=[], help="of `review results alarms --out`")
    told = parser.parse_args()
    main(told.data, (0, 1, LATER) if told.part is None else (told.part,), told.labels)
