"""How a judge is asked about two answers. A protocol is data: prompts, orders, follow-up, how a verdict is read.

Marks and verdicts that an answer imitates are broken up before a judge sees them, so that they decide nothing. A
verdict is one of five labels (Arena-Hard), A or B (VisIT-Bench), or a vote of people, with its words.
"""

import hashlib
import html
import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from schemas.benches.judging import Label
from schemas.errors import BadInput, known_values
from schemas.items.conversation import Winner
from tasks.judging.questions import Images
from tasks.prompts import filled, load_prompt, reply_format, untrusted
from tasks.prompts.replies import ReplyFormat
from tasks.providers.capabilities import ChatMessage, ReplyShape

_OPENS, _INNER, _CLOSES = r"[\[［]", r"([^\[\]［］]{1,40})", r"[\]］]"
_DOUBLE = re.compile(f"{_OPENS}{{2}}{_INNER}{_CLOSES}{{2}}")
_SINGLE = re.compile(f"{_OPENS}{_INNER}{_CLOSES}")
"""Arena-Hard's two patterns; the second is read only where the first finds nothing. WildVision-Bench has the first."""
_BRACKETED = re.compile(rf"({_OPENS}\s*)?{_OPENS}{_INNER}{_CLOSES}(\s*{_CLOSES})?")
"""Text in single brackets, or in double ones (groups 1 and 3) with or without blanks between them."""
_LIKE_A_LABEL = re.compile(r"[AB](?:[<>=]+[AB])?", re.IGNORECASE)
_ARROWS = str.maketrans({"»": ">>", "«": "<<", "≫": ">>", "≪": "<<"})
_SPELLINGS = {
    **{label.value: label for label in Label},
    "A<<B": Label.B_MUCH_BETTER,
    "A<B": Label.B_BETTER,
    "B=A": Label.TIE,
    "B<A": Label.A_BETTER,
    "B<<A": Label.A_MUCH_BETTER,
}
"""Every spelling of a label in plain characters and without blanks."""
VERDICT_SHAPE = ReplyShape(
    "verdict",
    {
        "type": "object",
        "properties": {"reasons": {"type": "string"}, "better": {"type": "string", "enum": ["A", "B", "none"]}},
        "required": ["reasons", "better"],
        "additionalProperties": False,
    },
)
"""A verdict as JSON. Reasons first: a model writes the keys in this order."""
_STATED = re.compile(r"\[\[\s*(A|B|none)\s*\]\]", re.IGNORECASE)
_BETTER_VALUE = re.compile(r'"[\[\s]*(A|B|none)[\]\s]*"', re.IGNORECASE)
_OBJECT_OPENS = re.compile(r"\{")
_DECODER = json.JSONDecoder(strict=False)
"""Reader of JSON that takes line breaks inside of texts, as models write them."""
_EXTRACTED = re.compile(r"\W*(?:response\s+)?(A|B|unknown)\W*", re.IGNORECASE)
_BETTER = {"a": Label.A_BETTER, "b": Label.B_BETTER}
_VOTE = re.compile(r"\[\[\s*(left|right|tie|both\s+bad|na)\s*\]\]", re.IGNORECASE)
_VOTES = {"left": Winner.MODEL_A, "right": Winner.MODEL_B, "tie": Winner.TIE, "both bad": Winner.BOTH_BAD}


def parse_label(text: str) -> Label | None:
    """The label in double square brackets, or in single ones where nothing stands in double ones.

    None without one, or with several different ones. Both spellings are read: `A<B` is `B>A`. Anything else in
    brackets, such as [[A]], is no label.
    """
    labels = labels_in(text)
    return labels.pop() if len(labels) == 1 else None


def labels_in(text: str) -> set[Label]:
    """Every label in the text."""
    marks = _DOUBLE.findall(text) or _SINGLE.findall(text)
    return {label for mark in marks if (label := labelled(mark))}


def labelled(mark: str) -> Label | None:
    """The label that a mark without its brackets says, such as `A>>B`, `A >> B`, `A&gt;&gt;B` or `A » B`."""
    return _SPELLINGS.get(_plain(mark))


def without_labels(text: str) -> tuple[str, int]:
    """The text with round brackets around what square ones hold of a label, and how many there were.

    So a quote of it is no label. `[[A]]` counts too; `[A]` does not, because answers number their options so.
    """
    marks = [
        mark
        for mark in _BRACKETED.finditer(text)
        if labelled(mark[2]) or (mark[1] and mark[3] and _LIKE_A_LABEL.fullmatch(_plain(mark[2])))
    ]
    for mark in reversed(marks):
        text = f"{text[: mark.start(2)]}({mark[2]}){text[mark.end(2) :]}"
    return text, len(marks)


def without_quotes(text: str, judged_text: str) -> str:
    """A judge's text without double brackets that it quotes from what it was shown, such as [[1]]."""
    return _DOUBLE.sub(lambda mark: "" if mark[0] in judged_text else mark[0], text)


def _plain(mark: str) -> str:
    """The mark without blanks (of any width) and HTML escapes, its full-width characters and double arrows as ASCII."""
    ascii_signs = unicodedata.normalize("NFKC", html.unescape(mark)).translate(_ARROWS)
    return "".join(sign for sign in ascii_signs if not sign.isspace() and unicodedata.category(sign) != "Cf")


def verdict_in(text: str) -> tuple[bool, Label | None]:
    """Whether the text states a verdict, and which; null where it says that there is none.

    Of a JSON object with the key `better` that alone counts, so that what its reasons quote does not. Of other text the
    last verdict in double square brackets counts.
    """
    reply_object = _closing_object(text)
    if "better" in reply_object:
        match = _BETTER_VALUE.fullmatch(json.dumps(reply_object["better"]))
        better = match[1] if match else None
    else:
        better = next(reversed(_STATED.findall(text)), None)
    return better is not None, _BETTER.get((better or "").lower())


def _closing_object(text: str) -> dict[str, Any]:
    """The JSON object that a text is or ends with, also in a code fence; empty without one."""
    content = text.rstrip().removesuffix("```").rstrip()
    for opening in _OBJECT_OPENS.finditer(content):
        with suppress(ValueError, RecursionError):
            reply_object, end = _DECODER.raw_decode(content, opening.start())
            if end == len(content):
                return dict(reply_object)
    return {}


def extracted(text: str) -> Label | None:
    """The label in the reply to the question what a judge said; None unless it is one word for one side."""
    match = _EXTRACTED.fullmatch(text.strip())
    return _BETTER.get(match[1].lower()) if match else None


def parse_vote(text: str) -> Winner | None:
    """The one vote in double square brackets; None for NA, for none, and for several different ones."""
    stated_votes = {" ".join(mark.lower().split()) for mark in _VOTE.findall(text)}
    return _VOTES.get(stated_votes.pop()) if len(stated_votes) == 1 else None


PROTOCOLS = ("visionarena", "wildvision", "visit")
"""Ways to compare two answers to a benchmark, as in the settings."""
VISIT_PROTOCOLS = ("visit", "visit-reference")
"""Protocols of judges that read captions instead of images, as in `verdicts`: without and with the reference."""
VOTE = "vote"
"""The protocol of votes on battles that people voted on."""
_MARK = re.compile(
    r"<\|[^|<>\n]{1,60}\|>"
    r"|[<＜]\s?[|｜]\s?(?:user\s+prompt|the\s+(?:start|end)\s+of\s+assistant\s+[AB]['’]s\s+answer)\s?[|｜]\s?[>＞]",
    re.IGNORECASE,
)
"""A mark such as <|User Prompt|>; those of Arena-Hard's prompt also over line breaks and in full-width characters."""
_BETTER_KEY = r"[\"'“”]\s*better\s*\\?[\"'“”]\s*[:：]"
_JSON_VERDICT = re.compile(rf"{_BETTER_KEY}(?=\s*\\?[\"'“”]?\s*(?:A|B|none)\b)", re.IGNORECASE)
_VISIT_MARK = re.compile(rf"{_OPENS}\s*{_OPENS}\s*(?:A|B|none)\s*{_CLOSES}\s*{_CLOSES}|{_BETTER_KEY}", re.IGNORECASE)
"""A verdict as a judge under `visit` states it; in an answer it is spaced out."""
_VOTE_OPENS = re.compile(r"\[(?=\[)")
_SIDES = ("model_a", "model_b", "answer_a", "answer_b")


@dataclass(frozen=True)
class AnswerPair:
    """Two answers to one prompt, in the order in which a judge sees them."""

    row: Mapping[str, str]
    """Columns of the stored row that are known before the judge is asked."""
    prompt: str
    """The user's text."""
    first: str
    """Text of the answer shown first; of a battle the left one."""
    second: str
    """Text of the other answer."""
    image_ids: tuple[str, ...] = ()
    """Images of the prompt, in order; empty for a judge that reads captions."""
    images: Callable[[], Images] = tuple
    """Reads the images. Thread-safe."""
    places: tuple[int, ...] = ()
    """Characters of the prompt before each image; empty where all stand before it, or a place is unknown."""
    captions: Sequence[str] = ()
    """Captions of the images, for a judge that does not see them."""
    reference: str = ""
    """Reference answer; empty where the judge is not shown it."""


class JudgePrompt(NamedTuple):
    """The chat that a judge is sent."""

    messages: list[ChatMessage]
    fenced_marks: int = 0
    """Labels and marks of the prompt that the two answers imitate."""
    quotable: str = ""
    """Question and answers as they are shown, which the judge may quote."""


class FollowUp(NamedTuple):
    """Further question, asked once, when the first reply states no verdict."""

    name: str
    """Ending of the call's name in a batch."""
    messages: Callable[[Sequence[ChatMessage], str], list[ChatMessage]]
    """The chat, from the first one and the judge's reply."""
    read: Callable[[str, str], Label | None]
    """The verdict, from both replies."""


@dataclass(frozen=True)
class Protocol:
    """One way to ask a judge about a pair."""

    name: str
    """Name in `verdicts`."""
    version: str
    """The name and 8 hex digits of the SHA-256 of the prompts, the orders and a reply format of the prompt's author.

    How texts of others are framed and broken up, and how our own verdicts are read, is no part of it: what a judge was
    asked means the same, and would be paid for again.
    """
    prompt: Callable[[AnswerPair], JudgePrompt]
    """The first chat."""
    read: Callable[[str], tuple[bool, Label | Winner | None]]
    """Whether a reply states a verdict, and which; null where it says that there is none."""
    key: tuple[str, ...]
    """Columns of the pair that, with the judge's version, name its row."""
    table: str = "verdicts"
    """Table of the rows."""
    draw: tuple[str, ...] = ()
    """Columns that a known verdict is stored again under when they differ; the judge is not asked for it."""
    both_orders: bool = True
    """Whether each pair is shown in both orders; otherwise once."""
    follow_up: FollowUp | None = None
    """Further question; None where a reply without a verdict is final."""
    shape: ReplyShape | None = None
    """The reply as JSON, where the server can do that."""
    by_state: bool = False
    """Whether an empty reply fails and a refusal is final; otherwise both are replies without a verdict."""
    reply_tokens: int = 400
    """Expected length of a reply, for estimates."""

    @property
    def counted(self) -> str:
        """Verdicts or votes, in reports."""
        return self.table.rpartition("_")[2]


def protocol(name: str) -> Protocol:
    """The protocol `name`: one of `PROTOCOLS`, `VISIT_PROTOCOLS`, or `VOTE`. Raises BadInput for an unknown one."""
    if name in VISIT_PROTOCOLS:
        return _visit(name)
    if name == VOTE:
        return _vote()
    if name not in PROTOCOLS:
        raise BadInput(f"--protocol {known_values(name, PROTOCOLS)}")
    # Arena-Hard's published prompt, with the images; WildVision-Bench shows the baseline first, once
    both_orders = name == "visionarena"
    system, user, again = (
        load_prompt(f"judges/{text}").text.removesuffix("\n") for text in ("system", "user", f"follow_up_{name}")
    )
    reply = reply_format("judges/system")
    read = partial(_stated, reply) if reply else lambda text: (bool(labels_in(text)), parse_label(text))
    return Protocol(
        name=name,
        version=_version(name, system, user, again, str(both_orders), *_told(reply)),
        prompt=partial(_arena_hard_prompt, system, user, reply=reply),
        read=read,
        key=("question_id", "document_id", *_SIDES),
        draw=("draw", "baseline"),
        both_orders=both_orders,
        follow_up=FollowUp("again", partial(_asked_again, again), partial(_of_both, read)),
    )


def _of_both(read: Callable[[str], tuple[bool, Any]], text: str, more: str) -> Any:
    """The verdict of both replies as one text, as published; else of the second, whatever brackets the first holds."""
    return read(f"{text}\n{more}")[1] or read(more)[1]


def _stated(reply: ReplyFormat, text: str) -> tuple[bool, Any]:
    """Whether a reply in a format of the prompt's own states a verdict, and which."""
    value = reply.value(text)
    return value is not None, value


def _told(reply: ReplyFormat | None) -> list[str]:
    """Texts of a reply format for a version."""
    return [f"{reply.pattern.pattern} {dict(reply.words)}"] if reply else []


def _arena_hard_prompt(system: str, user: str, pair: AnswerPair, *, reply: ReplyFormat | None) -> JudgePrompt:
    """Answers, and the question, with marks of the prompt are fenced."""
    (question, asked_marks), (first, marks), (second, more_marks) = (
        _fenced(text, reply) for text in (pair.prompt, pair.first, pair.second)
    )
    texts = {"question_1": question, "answer_1": first, "answer_2": second}
    text, start = filled(user, texts), len(filled(user.partition("{question_1}")[0], texts))
    places = () if asked_marks else tuple(start + place for place in pair.places)
    return JudgePrompt(
        [ChatMessage("system", system), ChatMessage("user", text, pair.images(), places)],
        marks + more_marks,
        "\n".join(texts.values()),
    )


def _asked_again(question: str, messages: Sequence[ChatMessage], reply_text: str) -> list[ChatMessage]:
    """The chat with the follow-up; after an empty reply the same chat: vendors take no empty turn."""
    if not reply_text.strip():
        return list(messages)
    return [*messages, ChatMessage("assistant", reply_text), ChatMessage("user", question)]


def _fenced(text: str, reply: ReplyFormat | None = None) -> tuple[str, int]:
    """The text and how many marks and labels it holds; with any, they are broken up and it stands between two lines.

    Broken up, a mark does not end the answer early, and a label does not count when the judge quotes it.
    """
    fenced, marks = _MARK.subn(lambda mark: f"< {mark[0][1:-1]} >", text)
    fenced, labels = without_labels(fenced)
    fenced, verdicts = _JSON_VERDICT.subn(lambda mark: " ".join(mark[0]), fenced)
    marks += labels + verdicts
    if reply:
        fenced, stated = reply.broken_up(fenced)
        marks += stated
    return (untrusted(fenced), marks) if marks else (text, 0)


def _visit(name: str) -> Protocol:
    """A judge that reads captions, as in VisIT-Bench; where its text states no verdict, it is asked which it holds.

    A prompt with a reply format says itself how the verdict is stated; a reply without one is final.
    """
    reply = reply_format("judges/visit_system")
    parts = ["system", *(["reference"] if name == VISIT_PROTOCOLS[1] else []), *([] if reply else ["stated"])]
    system = "\n".join(load_prompt(f"judges/visit_{part}").text for part in parts)
    extract = load_prompt("judges/visit_extract").text
    shape = "" if reply else str(VERDICT_SHAPE.schema)
    return Protocol(
        name=name,
        version=_version(name, system, extract, shape, _visit_text(AnswerPair({}, "", "", ""), "", ""), *_told(reply)),
        prompt=partial(_visit_prompt, system, reply=reply),
        read=partial(_preferred, reply) if reply else verdict_in,
        key=("question_id", "shown", *_SIDES),
        follow_up=None
        if reply
        else FollowUp(
            "extracted",
            lambda _, judge_text: [ChatMessage("user", f"{extract}\n{untrusted(judge_text)}")],
            lambda _, more: extracted(more),
        ),
        shape=None if reply else VERDICT_SHAPE,
        by_state=True,
        reply_tokens=250,  # a verdict with its reasons, as VisIT-Bench estimates it
    )


def _preferred(reply: ReplyFormat, text: str) -> tuple[bool, Label | None]:
    has_verdict, better = _stated(reply, text)
    return has_verdict, _BETTER.get(str(better).lower())


def _visit_prompt(system: str, pair: AnswerPair, *, reply: ReplyFormat | None) -> JudgePrompt:
    """Verdicts in the material are spaced out, so that none counts when it is quoted; those of answers are counted."""
    spaced = reply.broken_up if reply else partial(_VISIT_MARK.subn, lambda mark: " ".join(mark[0]))
    (first, marks), (second, more_marks) = spaced(pair.first), spaced(pair.second)
    prompt, reference, *captions = (spaced(text)[0] for text in (pair.prompt, pair.reference, *pair.captions))
    user = _visit_text(replace(pair, prompt=prompt, reference=reference, captions=captions), first, second)
    return JudgePrompt([ChatMessage("system", system), ChatMessage("user", user)], marks + more_marks)


def caption_parts(captions: Sequence[str], instruction: str) -> list[tuple[str, str]]:
    """Headings and texts of captions, which are numbered if there are several, and of the instruction."""
    count = len(captions)
    named = ["Caption of the image"] if count == 1 else [f"Caption of image {n + 1}" for n in range(count)]
    return [*zip(named, captions, strict=True), ("Instruction", instruction)]


def _visit_text(pair: AnswerPair, first: str, second: str) -> str:
    """A reference that is not shown has no heading."""
    parts = caption_parts(pair.captions, pair.prompt)
    parts += [("Reference", pair.reference)] if pair.reference else []
    parts += [("Response A", first), ("Response B", second)]
    return "\n\n".join(f"{name}:\n{untrusted(text)}" for name, text in parts)


def _vote() -> Protocol:
    """A vote on a battle as people cast it: left, right, tie, both bad, or none.

    Its version is that of the prompt's file, in whose hash the head with a reply format is.
    """
    prompt = load_prompt("judges/vote")
    reply = prompt.reply
    return Protocol(
        name=VOTE, version=prompt.version.removeprefix("judges/"),
        prompt=partial(_vote_prompt, prompt.text, reply=reply),
        read=lambda text: (True, _VOTES.get(str(reply.value(text))) if reply else parse_vote(text)),
        key=("battle_id", "shown"), table="judge_votes", both_orders=False,
    )  # fmt: skip


def _vote_prompt(template: str, pair: AnswerPair, *, reply: ReplyFormat | None) -> JudgePrompt:
    """Votes in the material are spaced out. Images stand at their places where the prompt is as it was."""
    spaced = reply.broken_up if reply else partial(_VOTE_OPENS.subn, "[ ")
    material = {"prompt": pair.prompt, "left": pair.first, "right": pair.second}
    text = filled(template, {name: untrusted(spaced(material_text)[0]) for name, material_text in material.items()})
    start = text.find(f"]\n{pair.prompt}\n[")
    places = tuple(start + 2 + place for place in pair.places) if start >= 0 else ()
    return JudgePrompt([ChatMessage("user", text, pair.images(), places)])


def _version(name: str, *parts: str) -> str:
    return f"{name}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:8]}"
