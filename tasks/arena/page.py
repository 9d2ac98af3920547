"""The page: components of Gradio, connected with `events.Page`. Another page can take its place."""

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import gradio as gr

from schemas.items.conversation import RecordType
from tasks.arena.board import Board, votes_of
from tasks.arena.conversations import ArenaConversation, Mode
from tasks.arena.events import Page, Parts, Updates, VisitorTab
from tasks.arena.look import label
from tasks.arena.rounds import REASON_CHARACTERS_MAX, Arena, Visit
from tasks.arena.tasks_tab import Tasks, tasks_tab

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


def _tab(arena: Arena, mode: Mode, examples: bool) -> Parts:
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
    talk = gr.State(VisitorTab(), delete_callback=partial(_left, arena))
    return Parts(
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


def _left(arena: Arena, talk: VisitorTab) -> None:
    if isinstance(talk, VisitorTab) and talk.conversation is not None:
        arena.close(talk.conversation)


def _events(arena: Arena, page: Page, parts: Parts, accepted: Any, answers_at_once: int) -> None:
    """Connect the buttons. Every event is private, so that none is part of an API."""
    private: dict[str, Any] = {"outputs": parts.shown, "api_visibility": "private", "show_progress": "hidden"}
    answering = private | {"concurrency_limit": answers_at_once, "concurrency_id": "answers", "show_progress": "full"}
    answering["show_progress_on"] = parts.notice
    at_once = private | {"concurrency_limit": None}

    async def say(
        message: Any, talk: VisitorTab, accepted: bool, request: gr.Request, *chosen: str
    ) -> AsyncIterator[Updates]:
        async for each in page.say(parts, message, talk, page.visit(request, accepted), chosen):
            yield each

    async def regenerate(talk: VisitorTab, request: gr.Request) -> AsyncIterator[Updates]:
        async for each in page.regenerate(parts, talk, request):
            yield each

    async def new(talk: VisitorTab, request: gr.Request) -> Updates:
        return await page.new(parts, talk, request)

    async def example(talk: VisitorTab) -> Updates:
        return await page.example(parts, talk)

    parts.box.submit(say, [parts.box, parts.talk, accepted, *parts.models], **answering)
    parts.again.click(regenerate, [parts.talk], **answering)
    for kind, button in parts.votes.items():
        button.click(_vote(page, parts, kind), [parts.talk, parts.chips, parts.words], **at_once)
    for button, what in ((parts.stop, arena.stop), (parts.share, arena.share), (parts.forget, arena.forget)):
        button.click(_act(page, parts, what), [parts.talk], **at_once)
    parts.new.click(new, [parts.talk], **at_once)
    parts.example.click(example, [parts.talk], **at_once)


def _vote(page: Page, parts: Parts, kind: RecordType) -> Callable[..., Any]:
    async def vote(talk: VisitorTab, chips: Any, words: Any, request: gr.Request) -> Updates:
        return await page.vote(parts, kind, talk, chips, words, request)

    return vote


def _act(page: Page, parts: Parts, what: Callable[[ArenaConversation, Visit], Any]) -> Callable[..., Any]:
    async def act(talk: VisitorTab, request: gr.Request) -> Updates:
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
