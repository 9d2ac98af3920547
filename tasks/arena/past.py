"""Conversations that the log holds: whose they are, and a conversation read back from its lines.

The log is the only copy. In memory is, for every conversation, where its lines stand, about 0.3 kB each.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple

from schemas.asked_model import ArenaModel
from schemas.items.conversation import RecordType
from tasks.arena.conversations import (
    ArenaConversation,
    Mode,
    Picture,
    Side,
    StreamedAnswer,
    TermsAccepted,
    VisitorPrompt,
)
from tasks.arena.entrance import Refused
from tasks.arena.logs import CHOICES, RATINGS, Line, LogFolder, LoggedRecord, conv_ids_in
from tasks.arena.names import names_of, without_names
from tasks.arena.opinions import AnswerReaction, vote_of_line

_SHOWN_MAX = 200
"""Conversations in a list: the newest ones."""
_TITLES_MAX, _TITLE_CHARACTERS_MAX = 30, 80
"""The list at the side: its longest length, and that of a title."""
_LINK_MARK = b'"link":'
"""In every line that says of a conversation that it is shared, or no more."""
_TITLES_KEPT = 4096
"""Titles of all visitors that are kept in memory."""


class TalkTitle(NamedTuple):
    """A conversation in the list at the side."""

    number: str
    text: str
    """Beginning of its first message; empty for an image alone."""


class Past:
    """The conversations of every browser in a log."""

    def __init__(
        self, logs: LogFolder, served: Callable[[], Sequence[ArenaModel]],
        link: Callable[[str], str] = lambda made_of: made_of,
    ) -> None:  # fmt: skip
        """`served`: the models of now. `link`: what the log says of a read-only page -> the end of its address."""
        self._logs, self._served, self._link = logs, served, link
        self._title = lru_cache(_TITLES_KEPT)(self._read_title)
        self._links: dict[str, Line | None] = {}
        """Last part of the address of a read-only page -> the line that it shows; None for one that was taken back."""
        self._linked: dict[str, set[str]] = {}
        """Number of a conversation -> its read-only pages."""
        self.links_read_to: dict[str, int] = {}
        """File -> the bytes in which links were looked for."""
        self._change = Lock()
        """Held by whoever changes what is known: answers are noted on threads, and requests come meanwhile."""
        self._lines: dict[str, list[Line]] = {}
        """Number of a conversation -> its lines, in order."""
        self._of: dict[str, list[str]] = {}
        """Browser -> numbers, in order."""
        self._gone: set[str] = set()
        """Numbers of conversations whose removal was asked for; a line that was still being written adds nothing."""
        self._ended: set[str] = set()
        """Ids of sides that a known image has ended."""

    @property
    def _models(self) -> dict[str, ArenaModel]:
        return {model.name: model for model in self._served()}

    def note(self, record: LoggedRecord, line: Line) -> None:
        """Take in a line; lines of other arenas and of earlier versions are left out."""
        match record:
            case {"state": {"has_csam_image": True, "conv_id": str(number)}}:
                self._ended.add(number)
            case {"arena": {"browser": str(browser), "sides": [{"conv_id": str(number)}, *_]}}:
                with self._change:
                    if number in self._gone:
                        return
                    if number not in self._lines:
                        self._of.setdefault(browser, []).append(number)
                    self._lines.setdefault(number, []).append(line)
                    self._note_link(record, line)

    def _note_link(self, record: LoggedRecord, line: Line) -> None:
        """Take in what a line says of a read-only page."""
        if (number := _number_of(record)) in self._gone or not isinstance(record["arena"].get("link"), str):
            return
        address = self._link(record["arena"]["link"])
        self._links[address] = None if record["arena"].get("withdrawn") else line
        self._linked.setdefault(number, set()).add(address)

    def shared(self, address: str) -> ArenaConversation:
        """A conversation as its visitor shared it, by the last part of its page's address; nobody can act on it.

        Another process may have written that it is shared, no more, or to be removed: the log and the requests tell.
        Raises Refused: "no_link" for an address that never was, "link_gone" for one that was taken back.
        """
        return self._as_shared(self._shared_record(address))

    def shared_picture(self, address: str, place: int) -> bytes:
        """An image of a shared conversation as PNG, by its place; empty where there is none. Raises Refused."""
        record = self._shared_record(address)
        # names of all images, in order; a message without images is a text alone
        names = [
            name
            for role, content in _states(record)[0]["messages"]
            if role == "user" and isinstance(content, list)
            for name in content[1]
        ]
        return self._logs.image(names[place]) if 0 <= place < len(names) else b""

    def _shared_record(self, address: str) -> LoggedRecord:
        """The line of a share that a page shows now. Raises Refused."""
        with self._change:
            for record, line in self._logs.added(self.links_read_to, _LINK_MARK):
                if _number_of(record):
                    self._note_link(record, line)
            if address not in self._links:
                raise Refused("no_link")
            shared_line = self._links[address]
        for record in self._logs.read([shared_line]) if shared_line else []:
            is_this = _number_of(record) and self._link(str(record["arena"].get("link"))) == address
            if is_this and not self._logs.forgotten() & {*conv_ids_in(record)}:
                return record
        raise Refused("link_gone")

    def _as_shared(self, record: LoggedRecord) -> ArenaConversation:
        """The conversation of the line of a share, as it was then."""
        marks, sides, states = record["arena"], [], _states(record)
        for state in states:
            texts = [text or "" for role, text in state["messages"] if role == "assistant"]
            answers = [StreamedAnswer(text, done=True, failed=not text) for text in texts]
            sides.append(Side(_model(state["model_name"], self._models), state["conv_id"], answers))
        conversation = ArenaConversation(
            Mode(marks["mode"]), sides, owner="", closed=True, revealed=bool(marks["named"])
        )
        for role, content in states[0]["messages"]:
            if role == "user":
                text, names = content if isinstance(content, list) else (content, [])
                pictures = tuple(Picture(name, self._logs.image(name)) for name in names)
                conversation.prompts.append(VisitorPrompt(text, pictures))
        return conversation

    def drop(self, numbers: Collection[str]) -> None:
        """Let conversations go whose removal was asked for."""
        with self._change:
            self._gone.update(numbers)
            for address in set().union(*(self._linked.pop(number, set()) for number in numbers)):
                self._links[address] = None
            gone = {number for number in numbers if self._lines.pop(number, None)}
            if gone:
                # each browser's numbers without those that go
                self._of = {
                    browser: [kept_number for kept_number in numbers_of_browser if kept_number not in gone]
                    for browser, numbers_of_browser in self._of.items()
                }

    def numbers(self, browser: str) -> list[str]:
        """A browser's conversations, newest first."""
        return list(reversed(self._of.get(browser, [])))

    def conv_ids(self, number: str) -> list[str]:
        """The ids of all sides of a conversation, as far as its lines tell them; its number is the first one."""
        records = self._read(number, self._lines.get(number, []))
        ids = [side["conv_id"] for record in records for side in record["arena"]["sides"]]
        return list(dict.fromkeys([number, *ids]))

    def titles(self, browser: str) -> list[TalkTitle]:
        """A browser's newest conversations, newest first, by their first message."""
        newest = self.numbers(browser)[:_TITLES_MAX]
        # the lines of each; a talk may be forgotten meanwhile
        lines_of = {number: self._lines.get(number) for number in newest}
        return [self._title(number, lines[0]) for number, lines in lines_of.items() if lines]

    def _read_title(self, number: str, line: Line) -> TalkTitle:
        """The title of the conversation whose first line is this one; empty where it is not there any more."""
        record: LoggedRecord = next(iter(self._read(number, [line])), {})
        state: LoggedRecord = record.get("state") or next(iter(record.get("states", ())), {})
        content = next((text for role, text in state.get("messages", ()) if role == "user"), "")
        text = content[0] if isinstance(content, list) else content
        return TalkTitle(number, " ".join(text.split())[:_TITLE_CHARACTERS_MAX])

    def load(self, number: str, browser: str, owner: str) -> ArenaConversation | None:
        """A browser's conversation as its lines tell it; None when it has none of this number."""
        if number not in self._of.get(browser, []):
            return None
        conversation = self._whole(self._read(number, self._lines.get(number, [])), owner)
        if conversation:
            conversation.closed = conversation.closed or number in self._ended
        return conversation

    def _read(self, number: str, lines: Sequence[Line]) -> list[LoggedRecord]:
        """The records of a conversation's lines; what stands there now and is another's is left out."""
        return [record for record in self._logs.read(lines) if _number_of(record) == number]

    def listed(self, browser: str, whole: bool = False) -> list[dict[str, Any]]:
        """A browser's conversations as it may see them, newest first: no address, and no names before the vote.

        The newest ones that a page shows, or the `whole` list.
        """
        numbers = self.numbers(browser)[: None if whole else _SHOWN_MAX]
        talks = [(number, self._read(number, self._lines.get(number, []))) for number in numbers]
        return [_told(number, records, self._models) for number, records in talks if records]

    def _whole(self, records: Sequence[LoggedRecord], owner: str) -> ArenaConversation | None:
        chats = [record for record in records if record["type"] == RecordType.CHAT]
        if not chats:
            return None
        marks = chats[-1]["arena"]
        sides = [self._side(mark, chats) for mark in marks["sides"]]
        conversation = ArenaConversation(Mode(marks["mode"]), sides, owner, marks["browser"])
        longest = max(chats, key=lambda record: len(record["state"]["messages"]))
        # number of messages in a line -> kinds of personal data that its last message was sent with
        sent_anyway = {_prompt_count(record): record["arena"].get("sent_anyway", ()) for record in chats}
        conversation.prompts = [
            replace(prompt, personal=tuple(sent_anyway.get(number, ())))
            for number, prompt in enumerate(self._prompts(longest), 1)
        ]
        conversation.terms = TermsAccepted(**marks["terms"]) if "terms" in marks else None
        conversation.moderation = longest["arena"]["moderation"]["flagged_categories"]
        _add_failed(sides, len(conversation.prompts))
        lost = any(not picture.png for prompt in conversation.prompts for picture in prompt.pictures)
        conversation.closed = lost or any(side.model.name not in self._models for side in sides)
        for record in records:
            _vote_again(conversation, record)
        return conversation

    def _side(self, mark: LoggedRecord, chats: Sequence[LoggedRecord]) -> Side:
        """One side: its answers are those of its last line, which repeats the earlier ones."""
        model = _model(mark["model"], self._models)
        lines = [record for record in chats if record["state"]["conv_id"] == mark["conv_id"]]
        side = Side(model, mark["conv_id"], logged=bool(lines))
        if lines:
            last = lines[-1]
            params, marks = last["gen_params"], last["arena"]
            sampled = {key: params[key] for key in ("temperature", "top_p")}
            side.model = model.model_copy(update=sampled | {"answer_tokens_max": params["max_new_tokens"]})
            texts = [text or "" for role, text in last["state"]["messages"] if role == "assistant"]
            # number of messages in a line -> how many answers to its last one came before; the last line counts
            regenerated = {_prompt_count(record): record["arena"]["regenerated"] for record in lines}
            side.answers = [
                StreamedAnswer(text, done=True, regenerated=regenerated.get(number, 0))
                for number, text in enumerate(texts, 1)
            ]
            side.answers[-1] = StreamedAnswer(
                texts[-1], marks.get("thinking", ""), last["start"],
                first=last["start"] + marks.get("first_word_seconds", 0.0),
                finished=last["finish"], done=True, stopped=marks["stopped"], regenerated=marks["regenerated"],
            )  # fmt: skip
        return side

    def _prompts(self, record: LoggedRecord) -> list[VisitorPrompt]:
        marks, number, prompts = record["arena"], 0, list[VisitorPrompt]()
        for role, content in record["state"]["messages"]:
            if role != "user":
                continue
            text, names = content if isinstance(content, list) else (content, [])
            pictures = []
            for name in names:
                preset, checked = marks["presets"][number], marks["moderation"]["images"][number]
                pictures.append(Picture(name, self._logs.image(name), preset, checked))
                number += 1
            prompts.append(VisitorPrompt(text, tuple(pictures)))
        return prompts


def _number_of(record: LoggedRecord) -> str:
    """The number of the conversation that a line is about; empty for lines of other arenas and of earlier versions."""
    match record.get("arena"):
        case {"browser": str(), "sides": [{"conv_id": str(number)}, *_]}:
            return number
    return ""


def _states(record: LoggedRecord) -> Sequence[LoggedRecord]:
    """The state of each side that a line has; of a direct chat there is one."""
    return record.get("states") or [record["state"]]


def _prompt_count(record: LoggedRecord) -> int:
    """How many messages of the visitor the line of an answer has."""
    return sum(role == "user" for role, _ in record["state"]["messages"])


def _add_failed(sides: Sequence[Side], prompt_count: int) -> None:
    """Add the answers that failed, of which the log has no line; one may have replaced an answer that it has."""
    answered = [side.answers[-1].regenerated for side in sides if len(side.answers) == prompt_count]
    newest = max(answered, default=0)
    for side in sides:
        if len(side.answers) == prompt_count and side.answers[-1].regenerated < newest:
            side.answers.pop()
        missing_count = prompt_count - len(side.answers)
        side.answers += [StreamedAnswer(done=True, failed=True, regenerated=newest) for _ in range(missing_count)]


def _vote_again(conversation: ArenaConversation, record: LoggedRecord) -> None:
    """Note a vote, reaction, report or share of the log on the state that it was given."""
    kind, state = RecordType(record["type"]), record["arena"].get("voted_on")
    if state is None:
        return
    prompts, regenerated, place = state
    if kind in RATINGS and _is_reaction(record):
        conversation.reactions.pop((prompts, place), None)
        if not _is_withdrawn(record):
            (opinion,) = record["opinions"]
            reasons = tuple(reason[:-1] for reason in opinion.get("reasons", ()))
            reaction = AnswerReaction(kind, prompts, place, reasons, opinion.get("comment", ""))
            conversation.reactions[prompts, place] = reaction
    elif kind in RATINGS and _is_withdrawn(record):
        conversation.votes.pop((prompts, regenerated), None)
        conversation.voted.pop(("vote", prompts, regenerated), None)
        conversation.voted.pop(("reason", prompts, regenerated), None)
    elif kind in CHOICES | RATINGS:
        vote = vote_of_line(kind, (prompts, regenerated), record)
        conversation.votes[vote.state] = vote
        conversation.voted[("vote", prompts, regenerated)] = kind
        if vote.has_reasons:
            conversation.voted[("reason", prompts, regenerated)] = kind
        if conversation.mode is Mode.BATTLE and not vote.goes_on:
            conversation.revealed = conversation.closed = True
    elif kind is RecordType.SHARE and record["arena"].get("withdrawn"):
        conversation.link = ""
        conversation.voted = {
            state: noted_kind for state, noted_kind in conversation.voted.items() if state[0] != "share"
        }
    elif kind in (RecordType.SHARE, RecordType.FLAG):
        conversation.voted[("share" if kind is RecordType.SHARE else f"flag {place}", prompts, regenerated)] = kind
        conversation.link = record["arena"].get("link", conversation.link)


def _is_reaction(record: LoggedRecord) -> bool:
    """Whether a line is about one answer of two, and says which; in direct chat a button is the vote."""
    marks = record["arena"]
    return record["type"] in RATINGS and marks["mode"] != Mode.DIRECT and "voted_on" in marks


def _is_withdrawn(record: LoggedRecord) -> bool:
    """Whether a line takes a button back."""
    return any("liked" in (opinion or {}) and opinion["liked"] is None for opinion in record.get("opinions", ()))


def _told(number: str, records: Sequence[LoggedRecord], models: Mapping[str, ArenaModel]) -> dict[str, Any]:
    """One conversation for its own visitor."""
    marks = records[-1]["arena"]  # a model that gave no answer is in the first lines alone
    votes = [record for record in records if record["type"] != RecordType.CHAT]
    is_battle = marks["mode"] == Mode.BATTLE
    ending = (vote for vote in votes if vote["type"] in CHOICES and not vote["arena"].get("goes_on"))
    # names appear with the first verdict after which the talk does not go on
    hidden = is_battle and next(ending, None) is None
    names = names_of([_model(side["model"], models) for side in marks["sides"]]) if hidden else frozenset()
    last = {record["state"]["conv_id"]: record["state"] for record in records if record["type"] == RecordType.CHAT}
    # one row a side: its model, unless it is hidden, and its messages as its last line has them
    sides = [
        {
            "conversation_id": side["conv_id"],
            "model": None if hidden else side["model"],
            "messages": [
                {"role": role, "content": without_names(content or "", names, True) if role == "assistant" else content}
                for role, content in last.get(side["conv_id"], {"messages": []})["messages"]
            ],
        }
        for side in marks["sides"]
    ]
    return {
        "number": number,
        "mode": marks["mode"],
        "time": _time(records[0]),
        "terms": records[-1]["arena"].get("terms"),
        "earlier_terms": _earlier_terms(records),
        "shared": _is_shared(votes),
        "sides": sides,
        # one row a verdict, report or share, as often as it was written
        "votes": [
            {
                "kind": vote["type"],
                "reason": vote.get("reason", ""),
                "time": _time(vote),
                "opinions": _opinions(vote),
                "taken_back": bool(vote["arena"].get("withdrawn")) or _is_withdrawn(vote),
            }
            for vote in votes
            if not _is_reaction(vote)
        ],
        # one row a thumb up or down on one answer of two
        "reactions": [
            {
                "kind": vote["type"],
                "time": _time(vote),
                "side": vote["arena"]["voted_on"][2],
                "opinions": _opinions(vote),
                "taken_back": _is_withdrawn(vote),
            }
            for vote in votes
            if _is_reaction(vote)
        ],
    }


def _earlier_terms(records: Sequence[LoggedRecord]) -> list[Any]:
    """Acceptances of terms before the last one of a conversation, each once, in order."""
    agreed = [record["arena"]["terms"] for record in records if "terms" in record["arena"]]
    return [terms for place, terms in enumerate(agreed) if terms not in agreed[:place] and terms != agreed[-1]]


def _is_shared(records: Sequence[LoggedRecord]) -> bool:
    """Whether others may see the conversation by the last line about it."""
    shares = [record["arena"] for record in records if record["type"] == RecordType.SHARE]
    return bool(shares) and not shares[-1].get("withdrawn")


def _opinions(record: LoggedRecord) -> list[Any]:
    """The opinions of a line on each side's answer: its turn from 1, reasons with their sign, and a comment."""
    return list(record.get("opinions") or [])


def _model(name: str, models: Mapping[str, ArenaModel]) -> ArenaModel:
    """A model of a line; one that is not served any more has its name alone."""
    return models.get(name) or ArenaModel(name=name, base_url="http://gone")


def _time(record: LoggedRecord) -> str:
    return datetime.fromtimestamp(record["tstamp"], UTC).isoformat(timespec="seconds")
