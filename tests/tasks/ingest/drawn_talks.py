"""Talks whose parts are drawn from a seed: of kinds known and unknown, and in every place where a message has parts.

Every part holds a word of its own (`w3`), so that parts can be counted in the raw row by whoever knows no format.
`WRITERS` has a case for each format: how it writes down one talk, or the two of a battle.
"""

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.tasks.ingest.spelled_parts import ENCODED, OTHERS, PICTURES, TEXTS

Row = dict[str, Any]
SECONDS = 1_718_884_800
_THOUGHTS: tuple[Callable[[str], Any], ...] = (
    lambda word: {"type": "thinking", "thinking": word},
    lambda word: {"type": "reasoning", "text": word},
    lambda word: {"type": "redacted_thinking", "data": word},
)
_TOOLS: tuple[Callable[[str], Any], ...] = (
    lambda word: {"type": "tool_use", "id": "1", "name": word, "input": {}},
    lambda word: {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": word}]},
    lambda word: {"type": "tool_call", "tool_call": {"name": word, "args": "{}"}},
)
_ODD: tuple[Callable[[str], Any], ...] = (
    lambda word: {"type": "file", "file": {"filename": f"{word}.pdf"}},
    lambda word: {"type": "document", "source": {"type": "url", "url": f"https://example.org/{word}.pdf"}},
    lambda word: {"hologram": word},
    lambda word: {"type": None, "hologram": {"of": [word]}},
    lambda word: {"type": 7, "text": word},
    lambda word: {"type": ["text"], "text": word},
    lambda word: {"type": "text", "text": {"hologram": word}},
    lambda word: {"type": "text", "text": [word]},
    lambda word: {"type": "text", "hologram": word},
    lambda word: {"type": "image", "hologram": word},
    lambda word: {"type": "image_url", "image_url": [word]},
    lambda word: {"content_type": "audio_asset_pointer", "asset_pointer": word},
    lambda word: {"content_type": "image_asset_pointer", "asset_pointer": word},
    lambda word: [word],
    lambda word: [[{"type": "text", "text": word}]],
)
_PARTS = (*TEXTS, *PICTURES.values(), *ENCODED.values(), *OTHERS.values(), *_THOUGHTS, *_TOOLS, *_ODD)
_NOTHING = (None, "", [], {}, [None], [[]], {"type": "text", "text": ""}, {"type": None}, 7, True, 0.5)
"""Values without a word: no part, or one that nobody can name."""
_BESIDE: dict[str, Callable[[str], Any]] = {
    "images": lambda word: [f"pics/{word}.png"],
    "image": lambda word: {"bytes": None, "path": f"pics/{word}.png"},
    "files": lambda word: [{"type": "file", "name": word}],
    "file": lambda word: {"name": word},
    "attachments": lambda word: [{"name": word}],
    "attachment": lambda word: word,
    "documents": lambda word: [{"text": word}],
    "tool_calls": lambda word: [{"type": "function", "id": "1", "function": {"name": word, "arguments": "{}"}}],
    "function_call": lambda word: {"name": word, "arguments": "{}"},
    "reasoning_content": lambda word: word,
    "reasoning": lambda word: word,
    "thinking": lambda word: word,
    "refusal": lambda word: word,
    "audio": lambda word: {"id": "1", "data": word},
    "videos": lambda word: [f"{word}.mp4"],
    "video": lambda word: f"{word}.mp4",
}
"""Key of a message beside its content -> a value with one part."""


@dataclass
class Message:
    """One message, before a format writes it down."""

    role: str
    content: Any
    beside: Row = field(default_factory=dict)


Talk = list[Message]
Place = tuple[int | None, int]
"""(talk, number of a message in it); no talk where all of them have the message."""


class Drawn:
    """Talks, and where each part of them is."""

    def __init__(self, seed: object, talks: int, *, odd: float = 0.3, has_same_questions: bool = False) -> None:
        """`odd`: share of the contents that are no plain text. With the same questions, talks are contents alone."""
        self._rng, self._odd = random.Random(str(seed)), odd
        self._place: Place = (0, 0)
        self.places: dict[str, Place] = {}
        """Word of a part -> its place."""
        self.unnamed = Counter[Place]()
        """Values without a word, of each message."""
        self.talks = self._asked_alike(talks) if has_same_questions else [self._talk(n) for n in range(talks)]

    @property
    def rng(self) -> random.Random:
        return self._rng

    def _word(self) -> str:
        word = f"w{len(self.places)}"
        self.places[word] = self._place
        return word

    def _nothing(self) -> Any:
        self.unnamed[self._place] += 1
        return self._rng.choice(_NOTHING)

    def _part(self) -> Any:
        if self._rng.random() < 0.15:
            return self._nothing()
        return self._rng.choice(_PARTS)(self._word() if self._rng.random() < 0.7 else f"pics/{self._word()}.png")

    def _content(self) -> Any:
        if self._rng.random() >= self._odd:
            return f"{self._word()} is said"
        form = self._rng.randrange(10)
        if form == 0:
            return self._nothing()
        if form == 1:
            return self._part()
        if form == 2:
            return [[self._part() for _ in range(self._rng.randint(1, 3))]]
        return [self._part() for _ in range(self._rng.randint(1, 4))]

    def _message(self, role: str, talk: Talk, number: int) -> None:
        self._place = (number, len(talk))
        beside = {}
        content = self._content()
        for _ in range(self._rng.choice((1, 1, 2)) if self._rng.random() < self._odd / 2 else 0):
            key = self._rng.choice([key for key in _BESIDE if key not in beside])
            beside[key] = _BESIDE[key](self._word()) if self._rng.random() < 0.8 else self._nothing()
        talk.append(Message(role, content, beside))

    def _asked_alike(self, count: int) -> list[Talk]:
        talks: list[Talk] = [[] for _ in range(count)]
        for turn in range(self._rng.randint(1, 3)):
            self._place = (None, 2 * turn)
            question = Message("user", self._content())
            for number, talk in enumerate(talks):
                self._place = (number, 2 * turn + 1)
                talk += [question, Message("assistant", self._content())]
        return talks

    def words_of(self, talk: int) -> dict[str, int]:
        """Word of each part of a talk -> number of its message."""
        return {word: message for word, (number, message) in self.places.items() if number in (talk, None)}

    def unnamed_of(self, talk: int) -> Counter[int]:
        """Number of a message of a talk -> its values without a word."""
        return Counter({message: count for (number, message), count in self.unnamed.items() if number in (talk, None)})

    def _talk(self, number: int) -> Talk:
        talk: Talk = []
        if self._rng.random() < self._odd / 2:
            talk.append(Message("system", "Be kind."))
        for _ in range(self._rng.randint(1, 3)):
            self._message("user", talk, number)
            if self._rng.random() < self._odd / 4:
                self._message("assistant", talk, number)
                self._message("tool", talk, number)
            self._message("assistant", talk, number)
        return talk


def words_in(value: Any) -> list[str]:
    """The words of the parts in a value, each as often as it stands there."""
    return re.findall(r"(?<![0-9a-z])w\d+(?![0-9a-z])", json.dumps(value, default=str).replace("\\n", " "))


class Case(NamedTuple):
    """How one format writes talks down."""

    write: Callable[[Sequence[Talk]], Row]
    talks: int = 1
    """Talks in a row."""
    has_same_questions: bool = False
    """Whether the talks of a row share their questions, and have contents alone."""

    def drawn(self, seed: object, odd: float) -> Drawn:
        """Talks that the format can write down."""
        return Drawn(seed, self.talks, odd=odd, has_same_questions=self.has_same_questions)


def _listed(talk: Talk, role: str = "role", content: str = "content") -> list[Row]:
    return [{role: message.role, content: message.content, **message.beside} for message in talk]


def _columns(columns: Row, *names: str, wrapped: bool = False) -> Callable[[Sequence[Talk]], Row]:
    """A format whose columns `names` each hold the messages of a talk."""

    def write(talks: Sequence[Talk]) -> Row:
        lists = [_listed(talk) for talk in talks]
        values: list[Any] = [[[message] for message in each] for each in lists] if wrapped else list(lists)
        return columns | dict(zip(names, values, strict=True))

    return write


_MODELS = {"model_a": "heron-2", "model_b": "wren-1"}
_BATTLE = {**_MODELS, "winner": "model_a", "judge": "j1", "tstamp": SECONDS}
_SIDES = ("conversation_a", "conversation_b")


def _sharegpt(talks: Sequence[Talk]) -> Row:
    names = {"user": "human", "assistant": "gpt"}
    talk = [Message(names.get(message.role, message.role), message.content, message.beside) for message in talks[0]]
    return {"conversations": _listed(talk, "from", "value"), "id": "c" * 12, "model": "heron-2", "user": "u"}


def _request(form: str) -> Callable[[Sequence[Talk]], Row]:
    """A request without its last answer, and the answer where an API or a proxy puts it."""

    def write(talks: Sequence[Talk]) -> Row:
        *asked, answer = _listed(talks[0])
        request = {"model": "heron-2", "messages": asked}
        choices = {"choices": [{"index": 0, "message": answer}]}
        return {
            "choices": {**request, **choices},
            "response": {**request, "response": answer},
            "pair": {"request": request, "response": choices},
            "anthropic": {"custom_id": "r-1", "params": request, "result": {"type": "succeeded", "message": answer}},
            "openai": {"custom_id": "r-1", "body": request, "response": {"status_code": 200, "body": choices}},
            "list": {"data": [{**request, **choices, "id": "chatcmpl-00000001"}], "has_more": False},
        }[form]

    return write


def _contents(talk: Talk, role: str) -> list[Any]:
    return [message.content for message in talk if message.role == role]


def _of_55k(talks: Sequence[Talk], *, as_json: bool = False) -> Row:
    lists = {"prompt": _contents(talks[0], "user")}
    lists |= {f"response_{side}": _contents(talk, "assistant") for side, talk in zip("ab", talks, strict=True)}
    values = {name: json.dumps(value) for name, value in lists.items()} if as_json else lists
    return {"id": 7, **_MODELS, **values, "winner_model_a": 1, "winner_model_b": 0, "winner_tie": 0}


def _of_ppe(talks: Sequence[Talk]) -> Row:
    said = {"prompt": _contents(talks[0], "user")[0]}
    said |= {f"response_{n}": _contents(talk, "assistant")[0] for n, talk in enumerate(talks, 1)}
    return {"question_id": "a" * 32, **_MODELS, "winner": "tie", "language": "English", **said}


def _wildchat(talks: Sequence[Talk]) -> Row:
    facts = {"country": "France", "hashed_ip": "f" * 64, "toxic": False, "turn_identifier": 1}
    messages = [facts | message for message in _listed(talks[0])]
    return {"conversation_hash": "d" * 32, "model": "heron-2", "conversation": messages, "timestamp": SECONDS}


def _node_keys(talk: Talk) -> list[tuple[str, str | None]]:
    """(key, key before) of each message of a talk."""
    return [(f"n{number}", f"n{number - 1}" if number else None) for number in range(len(talk))]


def _open_webui_tree(talk: Talk) -> Row:
    messages = {}
    for (key, parent), message in zip(_node_keys(talk), talk, strict=True):
        model = {"model": "heron-2"} if message.role == "assistant" else {}
        node = {"id": key, "parentId": parent, "role": message.role, "content": message.content, "timestamp": SECONDS}
        messages[key] = node | model | {"childrenIds": []} | message.beside
        if parent is not None:
            messages[parent]["childrenIds"] = [key]
    return {"title": "T", "models": ["heron-2"], "history": {"currentId": key, "messages": messages}}


def _open_webui(talks: Sequence[Talk]) -> Row:
    return {"id": "a" * 12, "user_id": "u1", "chat": _open_webui_tree(talks[0]), "created_at": SECONDS}


def _open_webui_list(talks: Sequence[Talk]) -> Row:
    return {"title": "T", "history": None, "models": ["heron-2"], "messages": _listed(talks[0])}


def _feedback(talks: Sequence[Talk]) -> Row:
    chat = _open_webui_tree(talks[0])
    return {
        "id": "f" * 12, "user_id": "u1", "type": "rating", "data": {"rating": 1, "model_id": "heron-2"},
        "meta": {"message_id": chat["history"]["currentId"], "chat_id": "c" * 12},
        "snapshot": {"chat": {"id": "c" * 12, "chat": chat}}, "created_at": SECONDS, "updated_at": SECONDS,
    }  # fmt: skip


def _librechat(talks: Sequence[Talk]) -> Row:
    messages = []
    for (key, parent), message in zip(_node_keys(talks[0]), talks[0], strict=True):
        said = {"text": message.content} if isinstance(message.content, str) else {"content": message.content}
        node = {"messageId": key, "parentMessageId": parent, "isCreatedByUser": message.role == "user", **said}
        messages.append({**node, "sender": "x", "createdAt": "2024-06-20T12:00:00.000Z", **message.beside})
    return {"conversationId": "b" * 12, "endpoint": "openAI", "messages": messages, "options": {"model": "heron-2"}}


def _chatgpt(talks: Sequence[Talk]) -> Row:
    mapping = {}
    for (key, parent), message in zip(_node_keys(talks[0]), talks[0], strict=True):
        content = {"content_type": "text", "parts": [message.content]}
        if isinstance(message.content, dict):
            content = {"content_type": "hologram", **message.content}
        elif not isinstance(message.content, str):
            content = {"content_type": "multimodal_text", "parts": message.content}
        said = {"author": {"role": message.role}, "content": content, "metadata": {"model_slug": "heron-2"}}
        mapping[key] = {"id": key, "parent": parent, "message": said | {"create_time": SECONDS} | message.beside}
    return {"title": "T", "mapping": mapping, "current_node": key, "conversation_id": "c" * 12}


def _comparia(talks: Sequence[Talk]) -> Row:
    lists = {f"full_conversation_{side}": _listed(talk) for side, talk in zip("ab", talks, strict=True)}
    metadata = {"time_to_vote": 2.5, "categories": ["Arts"], "languages": ["fr"]}
    turn = {"comparison_id": "e" * 32, "turn": 0, "choice": "a_better", "timestamp": SECONDS, "metadata": metadata}
    return {**turn, **_MODELS, **lists}


def _comparia_pair(talks: Sequence[Talk], **columns: Any) -> Row:
    lists = {name: _listed(talk) for name, talk in zip(_SIDES, talks, strict=True)}
    ids = {"conversation_pair_id": "e" * 32, "visitor_id": "v1", "timestamp": SECONDS}
    return {**ids, "model_a_name": "heron-2", "model_b_name": "wren-1", **lists, **columns}


def _comparia_vote(talks: Sequence[Talk]) -> Row:
    return _comparia_pair(talks, chosen_model_name="heron-2", both_equal=False, conv_useful_a=True)


def _comparia_reaction(talks: Sequence[Talk]) -> Row:
    sides = [*talks, [Message("user", "Hm?"), Message("assistant", "Hm.")]]
    reaction = {"refers_to_conv_id": "a1", "conv_a_id": "a1", "conv_b_id": "b1", "liked": True, "disliked": False}
    return _comparia_pair(sides, **reaction, msg_index=len(talks[0]) - 1)


def _item(talks: Sequence[Talk]) -> Row:
    columns = {"item_id": "i" * 12, "captions": None, "images": [], "problem": None}
    return {**columns, "instruction": talks[0][0].content}


def _log_state(talk: Talk, conv_id: str) -> Row:
    return {"conv_id": conv_id, "model_name": "x", "messages": [[message.role, message.content] for message in talk]}


def _log_chat(talks: Sequence[Talk]) -> Row:
    return {"type": "chat", "tstamp": SECONDS, "model": "x", "ip": "i", "state": _log_state(talks[0], "a" * 32)}


def _log_vote(talks: Sequence[Talk]) -> Row:
    states = [_log_state(talk, side * 32) for side, talk in zip("ab", talks, strict=True)]
    return {"type": "leftvote", "tstamp": SECONDS, "models": ["", ""], "ip": "i", "states": states}


_CHAT = {"model": "heron-2", "user_id": "u1", "tstamp": SECONDS}
WRITERS: dict[str, Case] = {
    "arena-logs": Case(_log_chat),
    "arena-logs vote": Case(_log_vote, 2),
    "vision-arena-chat": Case(_columns({"conversation_id": "c" * 32, "images": [], **_CHAT}, "conversation")),
    "vision-arena-chat wrapped": Case(
        _columns({"conversation_id": "c" * 32, "images": [], **_CHAT}, "conversation", wrapped=True)
    ),
    "vision-arena-battle": Case(_columns({"question_id": "q" * 32, "images": [], **_BATTLE}, *_SIDES), 2),
    "wildvision-chat": Case(_columns({"question_id": "c" * 32, "image": None, **_CHAT}, "conversation")),
    "wildvision-battle": Case(_columns({"question_id": "q" * 32, "image": None, **_BATTLE}, *_SIDES), 2),
    "human-preference": Case(_columns({"id": "q" * 32, **_BATTLE}, *_SIDES), 2),
    "lmsys-chat": Case(_columns({"conversation_id": "c" * 32, **_CHAT}, "conversation")),
    "openai-messages": Case(
        _columns({"id": "c" * 12, "model": "heron-2", "user": "u", "created": SECONDS}, "messages")
    ),
    **{f"openai-messages {form}": Case(_request(form))
       for form in ("choices", "response", "pair", "anthropic", "openai", "list")},
    "sharegpt": Case(_sharegpt),
    "human-preference-55k": Case(_of_55k, 2, True),
    "human-preference-55k json": Case(lambda talks: _of_55k(talks, as_json=True), 2, True),
    "ppe-human-preference": Case(_of_ppe, 2, True),
    "wildchat": Case(_wildchat),
    "search-arena": Case(_columns({**_BATTLE, "timestamp": SECONDS}, "messages_a", "messages_b"), 2),
    "search-arena unvoted": Case(_columns({**_BATTLE, "winner": None}, "messages_a", "messages_b"), 2),
    "open-webui": Case(_open_webui),
    "open-webui list": Case(_open_webui_list),
    "openwebui-feedback": Case(_feedback),
    "librechat": Case(_librechat),
    "chatgpt-export": Case(_chatgpt),
    "comparia": Case(_comparia, 2),
    "comparia-conversations": Case(_comparia_pair, 2),
    "comparia-votes": Case(_comparia_vote, 2),
    "comparia-reactions": Case(_comparia_reaction),
    "bench-items": Case(_item),
}  # fmt: skip
"""Name of a format, and behind a space of a way in which it is written -> its case."""
