"""Tasks: annotators with a key get one item after the other, and say what holds; answers look as the crowd saw them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from schemas.items.review import Task
from tasks.arena.guards.requests import form_of
from tasks.arena.markdown import html_of
from tasks.arena.page import ArenaPages
from tasks.arena.words import number, page_words

KEY_COOKIE = "arena_annotator"
_FIELDS_MAX = 200
"""More fields than any task has."""


class Tasks(NamedTuple):
    """Lists of tasks that annotators work on, and the functions that serve them."""

    lists: list[tuple[str, str]]
    """(title, name) of each list of tasks."""
    annotator: Callable[[str], str | None]
    """A key -> whose it is."""
    next: Callable[[str, str, str], Task | None]
    """List, annotator, key of the item that is passed over -> the next task, or None."""
    give: Callable[[Task, Sequence[str], str], str]
    """Stores a verdict of an annotator; why it was refused, or nothing."""


class _Seats:
    """The task that each annotator looks at."""

    def __init__(self, pages: ArenaPages, tasks: Tasks) -> None:
        self._pages, self._tasks = pages, tasks
        self._now: dict[tuple[str, str], Task | None] = {}

    def who(self, request: Request) -> str:
        """The annotator whose key the browser has; empty for none."""
        return self._tasks.annotator(request.cookies.get(KEY_COOKIE, "")) or ""

    def enter(self, key: str, name: str) -> Response:
        """Take a key, and begin a list."""
        if not self._tasks.annotator(key) or all(name != list_name for _, list_name in self._tasks.lists):
            return self.page("", "", None, page_words()["task_who"])
        response = RedirectResponse(f"/tasks?list={name}", 303)
        response.set_cookie(KEY_COOKIE, key.strip(), httponly=True, samesite="strict", path="/tasks")
        return response

    def shown(self, name: str, who: str, notice: str = "", after: str = "") -> Response:
        """The next task of a list."""
        task = self._now[who, name] = self._tasks.next(name, who, after)
        progress = page_words()["task_left"].format(left=number(task.left)) if task else page_words()["task_none"]
        return self.page(who, name, task, " ".join(filter(None, [notice, progress])))

    def given(self, name: str, who: str, form: dict[str, list[str]]) -> Response:
        """Store a verdict on the task that was shown, or pass it over, and show the next one."""
        task = self._now.get((who, name))
        if task is None or [task.key, task.shown] != [form.get(field_name, [""])[0] for field_name in ("key", "shown")]:
            return self.shown(name, who, page_words()["task_other"])
        if "skip" in form:
            return self.shown(name, who, after=task.key)
        verdicts = form.get("verdict", [])
        if not verdicts and not task.many:
            return self.page(who, name, task, page_words()["task_choose"])
        return self.shown(name, who, self._tasks.give(task, verdicts, who))

    def image(self, name: str, who: str, place: int) -> Response:
        """An image of the task that is shown."""
        task = self._now.get((who, name))
        content = task.images[place] if task and 0 <= place < len(task.images) else None
        return Response(content, 200 if content else 404, {"cache-control": "no-store"}, "image/png")

    def page(self, who: str, name: str, task: Task | None, notice: str) -> Response:
        texts = [(heading, html_of(text)) for heading, text in task.texts] if task else []
        page_values = {"lists": self._tasks.lists, "name": name, "task": task, "told": notice, "rows": _beside(texts)}
        return HTMLResponse(self._pages.page("tasks.html", "tasks", who=who, **page_values))


def _beside(texts: Sequence[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """Texts in rows: answers of two sides to one prompt stand beside each other, everything else alone.

    A heading of a side is `SIDE: answer`; a prompt that both sides have is shown once.
    """
    rows: list[list[tuple[str, str]]] = []
    turns: dict[str, list[list[tuple[str, str]]]] = {}
    for heading, text in texts:
        side, colon, _ = heading.rpartition(":")
        if not colon:
            rows.append([(heading, text)])
        else:
            turns.setdefault(side, []).append([(heading, text)])
    if len(turns) == 2:
        first, second = turns.values()
        for a, b in zip(first, second, strict=False):
            rows.append([("User", a[0][1])] if a[0][1] == b[0][1] and "user" in a[0][0] else [*a, *b])
        shorter = min(len(first), len(second))
        return [*rows, *first[shorter:], *second[shorter:]]
    return [*rows, *(row for side in turns.values() for row in side)]


def task_routes(app: FastAPI, pages: ArenaPages, tasks: Tasks) -> None:
    """The page of the tasks."""
    seats = _Seats(pages, tasks)

    @app.get("/tasks")
    def begin(request: Request, list: str = "") -> Response:
        who = seats.who(request)
        has_list = any(name == list for _, name in tasks.lists)
        return seats.shown(list, who) if who and has_list else seats.page(who, "", None, "")

    @app.post("/tasks")
    async def entered(request: Request) -> Response:
        form = await form_of(request)
        return seats.enter(form.get("key", [""])[0], form.get("list", [""])[0])

    @app.post("/tasks/{name}")
    async def given(name: str, request: Request) -> Response:
        who = seats.who(request)
        if not who:
            return seats.page("", "", None, page_words()["task_who"])
        return await run_in_threadpool(seats.given, name, who, await form_of(request, _FIELDS_MAX))

    @app.get("/tasks/{name}/{place}")
    def image(name: str, place: int, request: Request) -> Response:
        return seats.image(name, seats.who(request), place)
