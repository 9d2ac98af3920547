"""The tasks tab: annotators with a key get one item after the other, and say what holds. Texts are shown as text."""

import html
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gradio as gr

from schemas.items.review import Task

_DONE = "Nothing is left for you in this list."
_WHO = "No annotator has this key."


class Tasks(NamedTuple):
    """Lists of tasks that the tab works on, and the functions that serve them."""

    lists: list[tuple[str, str]]
    """(title, name) of each list of tasks."""
    annotator: Callable[[str], str | None]
    """A key -> whose it is."""
    next: Callable[[str, str, str], Task | None]
    """List, annotator, key of the item that is passed over -> the next task, or None."""
    give: Callable[[Task, Sequence[str], str], str]
    """Stores a verdict of an annotator; why it was refused, or nothing."""
    show: Callable[[bytes], str]
    """An encoded image -> its address on the page."""


class Seat:
    """One annotator's tab."""

    def __init__(self) -> None:
        self.annotator = ""
        self.name = ""
        self.task: Task | None = None


def tasks_tab(tasks: Tasks) -> None:
    """The parts of the tab and their events."""
    seat = gr.State(Seat())
    with gr.Row():
        key = gr.Textbox(label="Your key", type="password", elem_id="task-key")
        chosen = gr.Dropdown(tasks.lists, value=tasks.lists[0][1], label="Tasks", interactive=True)
        enter = gr.Button("Begin", elem_id="task-begin")
    notice = gr.Markdown("", elem_classes="status")
    shown = gr.Markdown("", elem_id="task", sanitize_html=True, latex_delimiters=[])
    one = gr.Radio([], label="Your verdict", visible=False)
    several = gr.CheckboxGroup([], label="What holds", visible=False)
    with gr.Row():
        save = gr.Button("Save", interactive=False, elem_id="task-save")
        skip = gr.Button("Skip", interactive=False, elem_id="task-skip")
    parts = [notice, shown, one, several, save, skip]

    def begin(seat: Seat, key: str, name: str) -> list[Any]:
        seat.annotator, seat.name, seat.task = tasks.annotator(key) or "", name, None
        return _next(tasks, seat) if seat.annotator else _nothing(_WHO)

    def saved(seat: Seat, one: str | None, several: list[str] | None) -> list[Any]:
        if not seat.annotator or seat.task is None:
            return _nothing(_WHO)
        given = list(several or []) if seat.task.many else [one] if one else []
        if not given and not seat.task.many:
            return [gr.update(value="Choose a verdict first."), *(gr.update() for _ in parts[1:])]
        refused = tasks.give(seat.task, given, seat.annotator)
        return _next(tasks, seat, told=refused)

    def skipped(seat: Seat) -> list[Any]:
        if not seat.annotator or seat.task is None:
            return _nothing(_WHO)
        return _next(tasks, seat, after=seat.task.key)

    private: dict[str, Any] = {"outputs": parts, "api_visibility": "private", "show_progress": "hidden"}
    enter.click(begin, [seat, key, chosen], **private)
    key.submit(begin, [seat, key, chosen], **private)
    save.click(saved, [seat, one, several], **private)
    skip.click(skipped, [seat], **private)


def _next(tasks: Tasks, seat: Seat, after: str = "", told: str = "") -> list[Any]:
    seat.task = tasks.next(seat.name, seat.annotator, after)
    if seat.task is None:
        return _nothing(" ".join(filter(None, [told, _DONE])))
    task = seat.task
    choices = [(each.label, each.verdict) for each in task.choices]
    return [
        gr.update(value=" ".join(filter(None, [told, f"{task.left:,} left for you."]))),
        gr.update(value=_page(task, tasks.show)),
        gr.update(choices=[] if task.many else choices, value=None, visible=not task.many),
        gr.update(choices=choices if task.many else [], value=[], visible=task.many),
        gr.update(interactive=True),
        gr.update(interactive=True),
    ]


def _nothing(told: str) -> list[Any]:
    hidden = [gr.update(choices=[], value=None, visible=False), gr.update(choices=[], value=[], visible=False)]
    off = [gr.update(interactive=False) for _ in range(2)]
    return [gr.update(value=told), gr.update(value=""), *hidden, *off]


def _page(task: Task, show: Callable[[bytes], str]) -> str:
    """The task as one block of HTML without an empty line, in which every text of others is escaped.

    So Markdown reads nothing in it; Gradio's own component for HTML needs `eval`, which the page's policy forbids. The
    block scrolls by itself and is replaced by the next task's, which so begins at its start, above the choices.
    """
    pieces = [f"<h3>{_escaped(task.question)}</h3>"]
    pieces += [f'<img src="{html.escape(show(image))}" alt="image of the task">' for image in task.images]
    if task.hidden_images:
        pieces.append(f"<p>{task.hidden_images} not shown: may show a person or nudity, or not there any more.</p>")
    for heading, text in task.texts:
        pieces.append(f'<h4>{_escaped(heading)}</h4><div class="task-text" dir="auto">{_escaped(text)}</div>')
    return f'<div class="task-pane">{"".join(pieces)}</div>'


def _escaped(text: str) -> str:
    return html.escape(text).replace("\r", "").replace("\n", "&#10;")
