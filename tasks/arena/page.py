"""The page: Gradio on top of `rounds.Arena`. Nothing here decides anything; another page can take its place."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import gradio as gr

from schemas.conversation import RecordType
from tasks.arena.conversations import Conversation, Mode, Picture
from tasks.arena.entrance.door import Ended, Refused
from tasks.arena.entrance.uploads import Uploads
from tasks.arena.entrance.visitors import fingerprint
from tasks.arena.rounds import REASON_CHARACTERS_MAX, Arena, Visit
from tasks.arena.shown.look import chat_messages, label, status
from tasks.arena.tabs.board import Board, votes_of
from tasks.arena.tabs.tasks import Tasks, tasks_tab

COOKIE = "arena_browser"
CHIPS = ("More accurate", "More helpful", "Better reasoning", "Clearer", "Better looking", "Safer", "Made something up")
_VOTES = {
    RecordType.LEFT_VOTE: "A is better",
    RecordType.RIGHT_VOTE: "B is better",
    RecordType.TIE_VOTE: "Tie",
    RecordType.BOTH_BAD_VOTE: "Both are bad",
}
_FEEDBACK = {
    RecordType.UPVOTE: "Good answer",
    RecordType.DOWNVOTE: "Bad answer",
    RecordType.FLAG: "Flag",
}
_TABS = {Mode.BATTLE: "Battle", Mode.SIDE_BY_SIDE: "Side by side", Mode.DIRECT: "Direct chat"}
_LATEX: list[dict[str, str | bool]] = [
    {"left": "$$", "right": "$$", "display": True},
    {"left": "\\[", "right": "\\]", "display": True},
    {"left": "\\(", "right": "\\)", "display": False},
]
CSS = """
footer {display: none !important}
.gradio-container {max-width: 1400px !important; width: 100%; margin: auto}
.status {min-height: 1.5em}
.waiting img, .message img {max-height: 200px; width: auto; border-radius: 8px}
input[type="checkbox"]:checked {background-image: url(/check.svg) !important}
button[aria-label="Clear"] {display: none}
.message {contain: paint layout}
#task img {max-height: 420px; max-width: 100%; border-radius: 8px; margin-right: 8px}
.task-pane {max-height: 62vh; overflow-y: auto; padding-right: 8px}
.task-text {white-space: pre-wrap; overflow-wrap: anywhere}
.task-text {border-left: 3px solid #8884; padding-left: 12px}
"""
Updates = dict[Any, Any]


class Talk:
    """One visitor's tab: its conversation, and the example image that waits for the next message."""

    def __init__(self) -> None:
        self.conversation: Conversation | None = None
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


class _Parts(NamedTuple):
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
        return Visit(fingerprint(token), self._arena.visitors.address(client, request.headers), accepted)

    async def say(
        self, parts: _Parts, message: Mapping[str, Any], talk: Talk, visit: Visit, chosen: Sequence[str]
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
            if isinstance(refused, Ended):
                self._uploads.discard(paths, visit.owner)
            yield _refused(parts, talk, visit, refused)
            return
        self._uploads.discard(paths, visit.owner)
        talk.conversation, talk.waiting = opened, None
        for picture in opened.prompts[-1].pictures:
            self._show(picture)
        yield view(parts, talk) | {parts.box: {"text": "", "files": []}}
        async for each in self._answers(parts, talk, opened):
            yield each

    async def regenerate(self, parts: _Parts, talk: Talk, request: gr.Request) -> AsyncIterator[Updates]:
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

    async def _answers(self, parts: _Parts, talk: Talk, opened: Conversation) -> AsyncIterator[Updates]:
        buttons = None
        async for _ in self._arena.updates(opened):
            if talk.conversation is not opened:  # a new round was begun meanwhile
                return
            state = (opened.may_vote(), opened.answering, opened.revealed)
            yield windows(parts, talk) if state == buttons else view(parts, talk)
            buttons = state

    async def vote(
        self, parts: _Parts, kind: RecordType, talk: Talk, chips: Sequence[str], words: str, request: gr.Request
    ) -> Updates:
        """Cast a vote with the reasons that were chosen and written."""
        if talk.conversation is None:
            return view(parts, talk)
        reason = ": ".join(part for part in (", ".join(chips or []), (words or "").strip()) if part)
        visit = self.visit(request)
        try:
            await self._arena.vote(talk.conversation, kind, reason, visit)
        except Refused as refused:
            return _refused(parts, talk, visit, refused)
        return view(parts, talk) | {parts.chips: [], parts.words: ""}

    async def act(
        self, parts: _Parts, what: Callable[[Conversation, Visit], Any], talk: Talk, request: gr.Request
    ) -> Updates:
        """Stop, share or forget."""
        visit = self.visit(request)
        try:
            if talk.conversation is not None:
                await what(talk.conversation, visit)
        except Refused as refused:
            return _refused(parts, talk, visit, refused)
        return view(parts, talk)

    async def new(self, parts: _Parts, talk: Talk, request: gr.Request) -> Updates:
        """Begin a new round."""
        if talk.conversation is not None:
            visit = self.visit(request)
            try:
                await self._arena.stop(talk.conversation, visit)
            except Refused as refused:
                return _refused(parts, talk, visit, refused)
            self._arena.close(talk.conversation)
        talk.conversation = talk.waiting = None
        return view(parts, talk)

    async def example(self, parts: _Parts, talk: Talk) -> Updates:
        """Put a random example image beside the next message."""
        if self._example is None:
            return {}
        try:
            talk.waiting = await asyncio.to_thread(self._example)
        except Refused as refused:
            return {parts.notice: str(refused)}
        self._show(talk.waiting)
        return _waiting(parts, talk)


def windows(parts: _Parts, talk: Talk) -> Updates:
    """What the windows show, without their labels."""
    conversation = talk.conversation
    if conversation is None:
        return {window: [] for window in parts.windows}
    return {
        window: chat_messages(conversation, conversation.sides[place]) for place, window in enumerate(parts.windows)
    }


def _labelled(parts: _Parts, talk: Talk) -> Updates:
    """What the windows show, with the names that may be shown."""
    shown = windows(parts, talk)
    for place, window in enumerate(parts.windows):
        name = label(talk.conversation, parts.mode, place)
        if talk.change(window, "label", name, label(None, parts.mode, place)):
            shown[window] = gr.update(value=shown[window], label=name)
    return shown


def view(parts: _Parts, talk: Talk, notice: str | None = None) -> Updates:
    """What the whole tab shows."""
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


def _refused(parts: _Parts, talk: Talk, visit: Visit, refused: Refused) -> Updates:
    """The reason; to another browser than the one that opened the conversation, nothing else."""
    if talk.conversation is not None and talk.conversation.owner != visit.owner:
        return {parts.notice: str(refused)}
    return view(parts, talk, str(refused))


def _waiting(parts: _Parts, talk: Talk) -> Updates:
    found = talk.waiting
    html = f'<img src="pictures/{found.token}.png" alt="example image">' if found else ""
    changed = talk.change(parts.waiting, "value", html, "")
    return {parts.waiting: gr.update(value=html, visible=found is not None)} if changed else {}


def make_page(
    arena: Arena,
    page: Page,
    *,
    title: str,
    terms: str,
    hint: str = "",
    answers_at_once: int = 40,
    examples: bool = False,
    board: Board | None = None,
    tasks: Tasks | None = None,
) -> gr.Blocks:
    """The whole page."""
    blocks = gr.Blocks(title=title, analytics_enabled=False)
    with blocks:
        gr.Markdown(f"# {title}\n{hint}")
        with gr.Accordion("Terms of use", open=True):
            gr.Markdown(terms)
            accepted = gr.Checkbox(label="I accept these terms", value=False, elem_id="accepted")
        with gr.Tabs():
            for mode, name in _TABS.items():
                with gr.Tab(name):
                    parts = _tab(arena, mode, examples)
                    _events(arena, page, parts, accepted, answers_at_once)
            if board is not None:
                with gr.Tab("Leaderboard") as tab:
                    _board(tab, board)
            if tasks is not None:
                with gr.Tab("Tasks"):
                    tasks_tab(tasks)
    return blocks


def _tab(arena: Arena, mode: Mode, examples: bool) -> _Parts:
    sides = 1 if mode is Mode.DIRECT else 2
    names = [model.name for model in arena.pool.models if not model.anonymous_only]
    models: list[Any] = []
    if mode is not Mode.BATTLE:
        with gr.Row():
            for place in range(sides):
                value = names[place % len(names)] if names else None
                models.append(gr.Dropdown(names, value=value, label=label(None, mode, place), interactive=True))
    with gr.Row():
        shown = [_window(label(None, mode, place)) for place in range(sides)]
    with gr.Row():
        kinds = _FEEDBACK if mode is Mode.DIRECT else _VOTES
        votes = {kind: gr.Button(text, interactive=False, min_width=100) for kind, text in kinds.items()}
    notice = gr.Markdown("", elem_classes="status", sanitize_html=True)
    with gr.Accordion("Why? (optional, sent with your vote)", open=False, visible=mode is not Mode.DIRECT):
        chips = gr.CheckboxGroup(list(CHIPS), show_label=False, container=False)
        words = gr.Textbox(max_length=REASON_CHARACTERS_MAX, lines=2, label=f"At most {REASON_CHARACTERS_MAX} letters")
    waiting = gr.Markdown("", visible=False, elem_classes="waiting")
    box = gr.MultimodalTextbox(
        file_types=["image"],
        file_count="multiple",
        sources=["upload"],
        placeholder="Ask something; add images with the clip",
        show_label=False,
        max_plain_text_length=100_000,
    )
    with gr.Row():
        stop = gr.Button("Stop", interactive=False, min_width=80)
        again = gr.Button("Regenerate", interactive=False, min_width=80)
        new = gr.Button("New round", min_width=80)
        example = gr.Button("Random image", min_width=80, visible=examples)
        share = gr.Button("Share", interactive=False, min_width=80, visible=mode is not Mode.DIRECT)
        forget = gr.Button("Forget my conversation", interactive=False, min_width=210, variant="stop")
    talk = gr.State(Talk(), delete_callback=partial(_left, arena))
    return _Parts(
        mode, shown, models, box, waiting, notice, votes, stop, again, new, example, share, forget, chips, words, talk
    )


def _window(name: str) -> Any:
    return gr.Chatbot(
        label=name,
        height=440,
        buttons=["copy"],
        latex_delimiters=_LATEX,
        sanitize_html=True,
        allow_tags=False,
        allow_file_downloads=False,
        feedback_options=None,
    )


def _left(arena: Arena, talk: Talk) -> None:
    if isinstance(talk, Talk) and talk.conversation is not None:
        arena.close(talk.conversation)


def _events(arena: Arena, page: Page, parts: _Parts, accepted: Any, answers_at_once: int) -> None:
    """Connect the buttons. Every event is private, so that none is part of an API."""
    private: dict[str, Any] = {"outputs": parts.shown, "api_visibility": "private", "show_progress": "hidden"}
    answering = private | {"concurrency_limit": answers_at_once, "concurrency_id": "answers", "show_progress": "full"}
    answering["show_progress_on"] = parts.notice
    at_once = private | {"concurrency_limit": None}

    async def say(
        message: Any, talk: Talk, accepted: bool, request: gr.Request, *chosen: str
    ) -> AsyncIterator[Updates]:
        async for each in page.say(parts, message, talk, page.visit(request, accepted), chosen):
            yield each

    async def regenerate(talk: Talk, request: gr.Request) -> AsyncIterator[Updates]:
        async for each in page.regenerate(parts, talk, request):
            yield each

    async def new(talk: Talk, request: gr.Request) -> Updates:
        return await page.new(parts, talk, request)

    async def example(talk: Talk) -> Updates:
        return await page.example(parts, talk)

    parts.box.submit(say, [parts.box, parts.talk, accepted, *parts.models], **answering)
    parts.again.click(regenerate, [parts.talk], **answering)
    for kind, button in parts.votes.items():
        button.click(_vote(page, parts, kind), [parts.talk, parts.chips, parts.words], **at_once)
    for button, what in ((parts.stop, arena.stop), (parts.share, arena.share), (parts.forget, arena.forget)):
        button.click(_act(page, parts, what), [parts.talk], **at_once)
    parts.new.click(new, [parts.talk], **at_once)
    parts.example.click(example, [parts.talk], **at_once)


def _vote(page: Page, parts: _Parts, kind: RecordType) -> Callable[..., Any]:
    async def vote(talk: Talk, chips: Any, words: Any, request: gr.Request) -> Updates:
        return await page.vote(parts, kind, talk, chips, words, request)

    return vote


def _act(page: Page, parts: _Parts, what: Callable[[Conversation, Visit], Any]) -> Callable[..., Any]:
    async def act(talk: Talk, request: gr.Request) -> Updates:
        return await page.act(parts, what, talk, request)

    return act


def _board(tab: Any, board: Board) -> None:
    """The leaderboard tab: boards are read when it is opened."""
    gr.Markdown(board.about)
    chosen = gr.Dropdown([], label="Board", interactive=True)
    count = gr.Markdown("", elem_id="board-votes")
    table = gr.Dataframe(headers=["Rank", "Model", "Rating", "95 % interval", "Votes"], interactive=False, wrap=True)

    def shown(name: str) -> tuple[str, list[list[Any]]]:
        rows = board.rows(name)
        return votes_of(rows), rows

    def opened() -> tuple[Any, Any, Any]:
        names = board.slices()
        first = names[0] if names else ""
        return gr.update(choices=names, value=first or None), *shown(first)

    private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    tab.select(opened, None, [chosen, count, table], **private)
    chosen.input(shown, [chosen], [count, table], **private)
