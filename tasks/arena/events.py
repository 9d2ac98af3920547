"""Events in a tab of the page: messages, answers as they come, votes, and what the browser is then sent.

Nothing here decides anything: `rounds.Arena` does.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, NamedTuple

import gradio as gr

from schemas.items.conversation import RecordType
from tasks.arena.conversations import ArenaConversation, Mode, Picture
from tasks.arena.entrance import ConversationEnded, Refused, cookie_hash
from tasks.arena.look import chat_messages, label, status
from tasks.arena.rounds import Arena, Visit
from tasks.arena.uploads import Uploads

COOKIE = "arena_browser"
Updates = dict[Any, Any]


class VisitorTab:
    """One visitor's tab: its conversation, and the example image that waits for the next message."""

    def __init__(self) -> None:
        self.conversation: ArenaConversation | None = None
        self.waiting: Picture | None = None
        self.sent: dict[tuple[int, str], object] = {}
        """(component, property) -> what the browser has; properties as the page begins with are not in it."""

    def change(self, part: Any, name: str, value: object, at_first: object) -> bool:
        """Whether a property differs from what the browser has, which is noted.

        Gradio makes the schema of a component anew for each property that is sent: milliseconds of CPU.
        """
        key = (part._id, name)
        differs = self.sent.get(key, at_first) != value
        self.sent[key] = value
        return differs


class Parts(NamedTuple):
    """The components of a tab."""

    mode: Mode
    windows: list[Any]
    models: list[Any]
    box: Any
    waiting: Any
    notice: Any
    votes: dict[RecordType, Any]
    stop: Any
    again: Any
    new: Any
    example: Any
    share: Any
    forget: Any
    chips: Any
    words: Any
    talk: Any

    @property
    def shown(self) -> list[Any]:
        """Everything that an event may change."""
        buttons = [self.stop, self.again, self.share, self.forget]
        fields = [self.box, self.waiting, self.notice, self.chips, self.words]
        return [*self.windows, *self.models, *self.votes.values(), *buttons, *fields]


class Page:
    """All events of the page."""

    def __init__(
        self, arena: Arena, uploads: Uploads, example: Callable[[], Picture] | None, show: Callable[[Picture], None]
    ) -> None:
        self._arena, self._uploads, self._example, self._show = arena, uploads, example, show

    def visit(self, request: gr.Request, accepted: bool = True) -> Visit:
        """Who sent an event; without the cookie, a visit that owns nothing."""
        token = request.cookies.get(COOKIE, "")
        client = request.client.host if request.client else ""
        return Visit(cookie_hash(token), self._arena.visitors.address(client, request.headers), accepted)

    async def say(
        self, parts: Parts, message: Mapping[str, Any], talk: VisitorTab, visit: Visit, chosen: Sequence[str]
    ) -> AsyncIterator[Updates]:
        """Take the message in the box, then show the answers as they come."""
        try:
            paths = [str(file) for file in message.get("files") or []]
            waiting = [talk.waiting] if talk.waiting else []

            def pictures() -> list[Picture]:
                return [*waiting, *self._uploads.collect(paths, visit.owner)]

            text = str(message.get("text") or "")
            opened = await self._arena.say(talk.conversation, parts.mode, chosen, text, pictures, visit)
        except Refused as refused:
            if isinstance(refused, ConversationEnded):
                self._uploads.discard(paths, visit.owner)
            yield _refused(parts, talk, visit, refused)
            return
        self._uploads.discard(paths, visit.owner)
        talk.conversation, talk.waiting = opened, None
        for picture in opened.prompts[-1].pictures:
            self._show(picture)
        yield tab_view(parts, talk) | {parts.box: {"text": "", "files": []}}
        async for each in self._answers(parts, talk, opened):
            yield each

    async def regenerate(self, parts: Parts, talk: VisitorTab, request: gr.Request) -> AsyncIterator[Updates]:
        """Show new answers of every side."""
        if talk.conversation is None:
            return
        visit = self.visit(request)
        try:
            await self._arena.regenerate(talk.conversation, visit)
        except Refused as refused:
            yield _refused(parts, talk, visit, refused)
            return
        async for each in self._answers(parts, talk, talk.conversation):
            yield each

    async def _answers(self, parts: Parts, talk: VisitorTab, opened: ArenaConversation) -> AsyncIterator[Updates]:
        buttons = None
        async for _ in self._arena.updates(opened):
            if talk.conversation is not opened:  # a new round was begun meanwhile
                return
            state = (opened.may_vote(), opened.answering, opened.revealed)
            yield window_contents(parts, talk) if state == buttons else tab_view(parts, talk)
            buttons = state

    async def vote(
        self, parts: Parts, kind: RecordType, talk: VisitorTab, chips: Sequence[str], words: str, request: gr.Request
    ) -> Updates:
        """Cast a vote with the reasons that were chosen and written."""
        if talk.conversation is None:
            return tab_view(parts, talk)
        reason = ": ".join(part for part in (", ".join(chips or []), (words or "").strip()) if part)
        visit = self.visit(request)
        try:
            await self._arena.vote(talk.conversation, kind, reason, visit)
        except Refused as refused:
            return _refused(parts, talk, visit, refused)
        return tab_view(parts, talk) | {parts.chips: [], parts.words: ""}

    async def act(
        self, parts: Parts, what: Callable[[ArenaConversation, Visit], Any], talk: VisitorTab, request: gr.Request
    ) -> Updates:
        """Stop, share or forget."""
        visit = self.visit(request)
        try:
            if talk.conversation is not None:
                await what(talk.conversation, visit)
        except Refused as refused:
            return _refused(parts, talk, visit, refused)
        return tab_view(parts, talk)

    async def new(self, parts: Parts, talk: VisitorTab, request: gr.Request) -> Updates:
        """Begin a new round."""
        before, waiting = talk.conversation, talk.waiting
        talk.conversation = talk.waiting = None  # at once: the next message may come while answers end
        if before is not None:
            visit = self.visit(request)
            try:
                await self._arena.stop(before, visit)
            except Refused as refused:  # the conversation is another browser's
                talk.conversation, talk.waiting = before, waiting
                return _refused(parts, talk, visit, refused)
            self._arena.close(before)
        return tab_view(parts, talk)

    async def example(self, parts: Parts, talk: VisitorTab) -> Updates:
        """Put a random example image beside the next message."""
        if self._example is None:
            return {}
        try:
            talk.waiting = await asyncio.to_thread(self._example)
        except Refused as refused:
            return {parts.notice: str(refused)}
        self._show(talk.waiting)
        return _waiting(parts, talk)


def window_contents(parts: Parts, talk: VisitorTab) -> Updates:
    """Contents of the windows, without their labels."""
    conversation = talk.conversation
    if conversation is None:
        return {window: [] for window in parts.windows}
    return {
        window: chat_messages(conversation, conversation.sides[place]) for place, window in enumerate(parts.windows)
    }


def _labelled(parts: Parts, talk: VisitorTab) -> Updates:
    """Contents of the windows, with the names that may be shown."""
    shown = window_contents(parts, talk)
    for place, window in enumerate(parts.windows):
        name = label(talk.conversation, parts.mode, place)
        if talk.change(window, "label", name, label(None, parts.mode, place)):
            shown[window] = gr.update(value=shown[window], label=name)
    return shown


def tab_view(parts: Parts, talk: VisitorTab, notice: str | None = None) -> Updates:
    """Contents of the whole tab."""
    conversation = talk.conversation
    voting = conversation is not None and conversation.may_vote()
    finished = conversation is not None and bool(conversation.prompts) and not conversation.answering
    sharing = finished and conversation is not None and conversation.may_vote("share")
    enabled = {
        parts.stop: conversation is not None and conversation.answering,
        parts.again: finished and conversation is not None and not conversation.closed,
        parts.share: sharing and parts.mode is not Mode.DIRECT,
        parts.forget: conversation is not None and bool(conversation.prompts) and not conversation.forgotten,
        **dict.fromkeys(parts.votes.values(), voting),
        **dict.fromkeys(parts.models, conversation is None),
    }
    return {
        **_labelled(parts, talk),
        **{
            part: gr.update(interactive=on)
            for part, on in enabled.items()
            if talk.change(part, "interactive", on, part in parts.models)
        },
        parts.notice: notice if notice is not None else status(conversation),
        **_waiting(parts, talk),
    }


def _refused(parts: Parts, talk: VisitorTab, visit: Visit, refused: Refused) -> Updates:
    """The reason; to another browser than the one that opened the conversation, nothing else."""
    if talk.conversation is not None and talk.conversation.owner != visit.owner:
        return {parts.notice: str(refused)}
    return tab_view(parts, talk, str(refused))


def _waiting(parts: Parts, talk: VisitorTab) -> Updates:
    found = talk.waiting
    html = f'<img src="pictures/{found.token}.png" alt="example image">' if found else ""
    changed = talk.change(parts.waiting, "value", html, "")
    return {parts.waiting: gr.update(value=html, visible=found is not None)} if changed else {}
