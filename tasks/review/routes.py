"""Routes of the review pages. Verdicts are posted with a token of the form, from pages of the same origin only."""

import secrets
from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import parse_qs, quote, unquote

from fastapi import Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.background import BackgroundTask

from schemas.items.review import Waiting
from tasks.review.session import REVIEWER_CHARACTERS_MAX, ReviewSession, VerdictRefused
from tasks.review_queue import item_fingerprint, subject_of
from tasks.runtime.untrusted import one_line
from tasks.shown import BATTLE, CONVERSATION, Item, MorePages, ServedPages, blinded, item_key

FIRST = "/review"
_COOKIE = "curate_reviewer_{}"
"""With the port, as the explorer's own."""
Fields = dict[str, list[str]]


async def _fields(request: Request) -> Fields:
    return parse_qs((await request.body()).decode(errors="replace"), max_num_fields=100)


SentForm = Annotated[Fields, Depends(_fields)]


def review_routes(session: ReviewSession, port: Callable[[], int], reviewer: str = "") -> MorePages:
    """A function that adds the pages of a session to an explorer. `reviewer`: a name that need not be asked for."""

    def add(app: FastAPI, served: ServedPages) -> str:
        served.pages.more_tabs.append(("Review", FIRST))
        pages = _ReviewPages(session, served, reviewer, port)
        _reading(app, pages)
        _writing(app, pages)
        return FIRST

    return add


class _ReviewPages:
    """Common parts of the routes: the session, the explorer's pages, and the token that forms send back."""

    def __init__(self, session: ReviewSession, served: ServedPages, reviewer: str, port: Callable[[], int]) -> None:
        self.session, self.served, self.token = session, served, secrets.token_urlsafe(24)
        self._reviewer, self._port = reviewer, port

    @property
    def cookie(self) -> str:
        """Name of the cookie with the reviewer's name."""
        return _COOKIE.format(self._port())

    def reviewer(self, request: Request) -> str:
        """The name that the reviewer gave; empty before."""
        return reviewer_name(unquote(request.cookies.get(self.cookie, ""))) or self._reviewer

    def page(self, content: Callable[[], str | None]) -> Response:
        """A page, after which the journal is taken in when nobody else writes."""
        response = self.served.answer(content)
        response.background = BackgroundTask(self.session.take_in)
        return response

    def refused(self, text: str, back: str, status: int = 409) -> Response:
        """A page that says why nothing was stored."""
        html = self.served.pages.more("refused.html", "Review", text=text, back=back)
        return HTMLResponse(html, status)

    def home(self, reviewer: str) -> str:
        """The queues, how far they are, and what the verdicts say."""
        return self.served.pages.more(
            "reviews.html", "Review", progress=self.session.progress(reviewer), reviewer=reviewer, token=self.token,
            figures=self.session.figures(), in_journal=self.session.in_journal, most=REVIEWER_CHARACTERS_MAX,
        )  # fmt: skip

    def item(self, name: str, key: str, reviewer: str, last: str, whole: bool) -> str | None:
        """One item of a queue with its choices; None when it does not wait. `whole`: also long messages."""
        waiting = self.session.items(name).get(key)
        if waiting is None:
            return None
        item = self.shown(name, key)
        values: dict[str, Any] = {
            "queue": self.session.queues[name], "waiting": waiting, "key": key, "shown": item_fingerprint(waiting),
            "mine": self.session.given(name).get(subject_of(waiting), {}).get(reviewer, ""),
            "left": self.session.progress_of(name, reviewer).left,
            "last": last if last in self.session.items(name) else "", "item": item,
            "images": [image for image in item.images if image.image_id in waiting.image_ids] if item else [],
            "opened": self.opened(name, key), "has_hidden": self._has_hidden(waiting, item),
            "in_journal": self.session.in_journal, "token": self.token,
        }  # fmt: skip
        return self.served.pages.more("review.html", "Review", whole=whole, alone=_is_alone(waiting), **values)

    def _has_hidden(self, waiting: Waiting, item: Item | None) -> bool:
        """Whether something is masked or blurred until somebody asks for it."""
        if not _is_alone(waiting):
            return item is not None and item.has_hidden
        blurred = any(self.served.source.hidden_image(image_id) for image_id in waiting.image_ids)
        return blurred or any(stretch.hidden for text in waiting.texts for stretch in text.stretches)

    def conversation(self, name: str, key: str) -> str:
        """Key of the conversation or battle of an item in the explorer."""
        item = self.session.items(name)[key]
        return item_key(BATTLE, item.battle_id) if item.battle_id else item_key(CONVERSATION, item.conversation_id)

    def shown(self, name: str, key: str) -> Item | None:
        """The conversation or battle of an item; None when it is taken down or quarantined."""
        waiting = self.session.items(name)[key]
        item = self.served.source.item(self.conversation(name, key), self.opened(name, key))
        return blinded(item, waiting.swapped) if item and waiting.blinded else item

    def opened(self, name: str, key: str) -> bool:
        """Whether somebody asked for what is masked."""
        return self._opening(name, key) in self.served.opened

    def open(self, name: str, key: str, reviewer: str) -> Response | None:
        """Show what is masked in an item: the whole conversation, or only what is asked about."""
        waiting = self.session.items(name)[key]
        if _is_alone(waiting):
            return self.served.open_images(self._opening(name, key), waiting.image_ids, reviewer)
        return self.served.open(self.conversation(name, key), reviewer)

    def _opening(self, name: str, key: str) -> str:
        waiting = self.session.items(name)[key]
        return f"{name} {key}" if _is_alone(waiting) else self.conversation(name, key)


def _is_alone(waiting: Waiting) -> bool:
    """Whether images or texts are shown instead of the whole conversation."""
    return bool(waiting.image_ids or waiting.texts) and not waiting.beside


def reviewer_name(text: str) -> str:
    """A name on one line without marks that turn the direction of text."""
    return one_line(text, REVIEWER_CHARACTERS_MAX).strip()


def _reading(app: FastAPI, pages: _ReviewPages) -> None:
    session = pages.session

    @app.get(FIRST)
    def home(request: Request) -> Response:
        return pages.page(lambda: pages.home(pages.reviewer(request)))

    @app.get(FIRST + "/{name}")
    def queue(request: Request, name: str, after: str = "", last: str = "") -> Response:
        reviewer, next_keys = pages.reviewer(request), list[str]()

        def made() -> str | None:
            if name not in session.queues:
                return None
            next_keys.extend(filter(None, [session.next_key(name, reviewer, after)]))
            return pages.home(reviewer)

        response = pages.page(made)
        if not reviewer or not next_keys or response.status_code != 200:
            return response
        query = f"?last={quote(last)}" if last else ""
        return RedirectResponse(f"{FIRST}/{name}/{next_keys[0]}{query}", 303)

    @app.get(FIRST + "/{name}/{key}")
    def item(request: Request, name: str, key: str, last: str = "", whole: str = "") -> Response:
        reviewer = pages.reviewer(request)
        if not reviewer:
            return RedirectResponse(FIRST, 303)
        return pages.page(
            lambda: pages.item(name, key, reviewer, last, bool(whole)) if name in session.queues else None
        )


def _writing(app: FastAPI, pages: _ReviewPages) -> None:
    session = pages.session

    def checked(name: str, key: str, fields: Fields) -> Response | None:
        """Answer to give instead, when the form is not of these pages or there is no such item any more."""
        token = fields.get("token", [""])[0]
        if not secrets.compare_digest(token.encode(), pages.token.encode()):
            return pages.refused("This form is of an earlier start of the explorer. Nothing was stored.", FIRST, 403)
        response = pages.served.answer(lambda: "" if name in session.queues and key in session.items(name) else None)
        if response.status_code == 404 and name in session.queues:
            gone = "This item does not wait any more: it was decided or taken down. Nothing was stored."
            return pages.refused(gone, f"{FIRST}/{name}")
        return None if response.status_code == 200 else response

    @app.post(FIRST)
    def sign_in(fields: SentForm) -> Response:
        token = fields.get("token", [""])[0]
        if not secrets.compare_digest(token.encode(), pages.token.encode()):
            return pages.refused("This form is of an earlier start of the explorer.", FIRST, 403)
        name = reviewer_name(fields.get("reviewer", [""])[0])
        response = RedirectResponse(FIRST, 303)
        response.set_cookie(pages.cookie, quote(name), httponly=True, samesite="strict")
        return response

    @app.post(FIRST + "/{name}/{key}")
    def give(request: Request, name: str, key: str, fields: SentForm) -> Response:
        if (instead := checked(name, key, fields)) is not None:
            return instead
        reviewer = pages.reviewer(request)
        if not reviewer:
            return pages.refused("Say who you are first. Nothing was stored.", FIRST)
        try:
            session.give(name, key, fields.get("shown", [""])[0], fields.get("verdict", []), reviewer)
        except VerdictRefused as refused:
            return pages.refused(str(refused), f"{FIRST}/{name}/{key}")
        task = BackgroundTask(session.take_in)
        return RedirectResponse(f"{FIRST}/{name}?after={key}&last={key}", 303, background=task)

    @app.post(FIRST + "/{name}/{key}/open")
    def open_item(request: Request, name: str, key: str, fields: SentForm) -> Response:
        instead = checked(name, key, fields) or pages.open(name, key, pages.reviewer(request))
        return instead or RedirectResponse(f"{FIRST}/{name}/{key}", 303)
