"""Serves the pages on this machine only. A store needs the token of its link; other host names are refused."""

import secrets
from collections.abc import Callable, Sequence
from functools import lru_cache
from threading import Lock
from typing import Any
from urllib.parse import parse_qsl, quote

import polars as pl
from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from schemas.errors import BadInput, StoreUnwell
from tasks.explore.facets import NoSelection, Query, query_of
from tasks.explore.pages import EXPLORER_FILES, Links, Pages
from tasks.images import small
from tasks.look import POLICY
from tasks.runtime.serving import Bounded, is_from_elsewhere
from tasks.runtime.untrusted import csv_cell, one_line
from tasks.shown import Comparison, Gone, MorePages, Source

EXPLORER_COOKIE = "curate_explorer_{}"
"""With the port, because browsers send cookies of one port to all."""
FORM_BYTES_MAX = 20_000
"""Longer forms are not read."""
_THUMBS_IN_MEMORY = 512
"""About 8 KB each."""
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def _after(query: Query | None) -> str:
    encoded = query.encoded() if query else ""
    return f"?{encoded}" if encoded else ""


SERVED_LINKS = Links(
    policy="",
    opens=True,
    whole=True,
    rows="",
    browse=lambda query=None: "/" + _after(query),
    map=lambda query=None: "/topics" + _after(query),
    item=lambda key: f"/items/{key}",
    opening=lambda key: f"/items/{key}/open",
    image=lambda image_id, opened: f"/images/{image_id}" + ("?opened=1" if opened else ""),
    thumb=lambda image_id: f"/thumbs/{image_id}",
    boards=lambda name="": "/boards" + (f"?slice={quote(name)}" if name else ""),
    board_of=lambda query: "/selection/board" + _after(query),
    ids=lambda query: "/selection/ids.csv" + _after(query),
    sql=lambda question: "/sql" + (f"?q={quote(question)}" if question else ""),
    asset=lambda name: f"/static/{name}",
    points=lambda query: "/topics/points.js" + _after(query),
    piece="/topics/piece-{}.js",
    dropped="/dropped",
    compare="/compare",
)


def explorer(
    source: Source, port: Callable[[], int], comparison: Comparison | None = None, more: Sequence[MorePages] = ()
) -> tuple[FastAPI, str]:
    """The app and the path of the link to open first. `port` is known once the server listens.

    A comparison needs a token too: it may tell what the store knows of removed rows. Each of `more` adds routes behind
    the same guard and returns the path of its first page, to which the link then leads.
    """
    token = secrets.token_urlsafe(24) if source.private or comparison else ""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    served = Served(source, comparison)
    first = ["/", *(add(app, served) for add in more)][-1]
    _guard(app, token, port, first)
    app.add_middleware(Bounded, bytes_max=lambda path: FORM_BYTES_MAX)
    _routes(app, served)
    return app, f"/?token={token}" if token else "/"


class Served:
    """The pages, and what the requests of this session have opened."""

    def __init__(self, source: Source, comparison: Comparison | None) -> None:
        self.source = source
        self.pages = Pages(source, SERVED_LINKS, comparison)
        self.opened: set[str] = set()
        self.opened_images: set[str] = set()
        self._thumbs = lru_cache(_THUMBS_IN_MEMORY)(self._thumb)
        self._changes = 0
        self._lock = Lock()
        self._seen: Any = None

    def refresh(self) -> None:
        """Take in what changed; what was small copies of images before is forgotten."""
        with self._lock:
            self.source.refresh()
            if self.source.listing is not self._seen:
                self._seen = self.source.listing
                self._changes += 1
                self._thumbs.cache_clear()

    def open(self, key: str, by: str = "") -> Response | None:
        """Show the masked content of an item from now on; returns a page instead when that cannot be noted."""
        item = self.source.item(key, False)
        images = [*item.images, *item.twin_images] if item else []
        return self.open_images(key, [image.image_id for image in images], by) if item else None

    def open_images(self, key: str, image_ids: Sequence[str], by: str = "") -> Response | None:
        """The same for something that is no item of its own. `by` is a reviewer, or "" for who serves the pages."""
        if key in self.opened:
            return None
        try:
            self.source.note_opened(by)
        except StoreUnwell:
            text = "Who sees masked content is noted in the store's audit log, and that cannot be written now."
            return HTMLResponse(self.pages.message("It is not shown", text), 503)
        self.pages.opened += 1
        self.opened.add(key)
        self.opened_images |= set(image_ids)
        return None

    def answer(self, made: Callable[[], str | None]) -> Response:
        """The page, or one sentence when there is none or nothing may be shown."""
        try:
            self.refresh()
            html = made()
        except NoSelection as refused:
            return HTMLResponse(self.pages.message("Nothing is selected", f"{one_line(str(refused), 400)}."), 400)
        except Gone as gone:
            return HTMLResponse(self.pages.message("Nothing is shown", f"{str(gone).capitalize()}."), 410)
        except StoreUnwell:
            text = "A table that this page needs is lost or broken. Other pages work; `curate` commands name the table."
            return HTMLResponse(self.pages.message("This page cannot be shown", text), 500)
        except BadInput:
            text = "Another version made this store, and it lacks what this page needs; `curate run` makes it again."
            return HTMLResponse(self.pages.message("This page cannot be shown", text), 500)
        if html is None:
            return HTMLResponse(self.pages.message("Not found", "There is no such item, or it was taken down."), 404)
        return HTMLResponse(html)

    def thumb(self, image_id: str) -> bytes | None:
        """A small copy of an image; one that another request began before a change is not shown after it."""
        return self._thumbs(image_id, self._changes)

    def _thumb(self, image_id: str, changes: int) -> bytes | None:
        content = self.source.image(image_id)
        hidden = self.source.hidden_image(image_id)
        return content and (small.blurred(content) if hidden else small.thumb(content))


def _guard(app: FastAPI, token: str, port: Callable[[], int], first: str) -> None:
    @app.middleware("http")
    async def guarded(request: Request, answer: Callable[[Request], Any]) -> Response:
        """Check host and token, then add the policy to every answer."""
        hosts = {f"{name}:{port()}" for name in ("127.0.0.1", "localhost", "[::1]")}
        if is_from_elsewhere(request.method, request.headers.raw, hosts.__contains__):  # cookies know no ports
            response: Response = Response("This explorer answers its own pages on this machine only.", 403)
        elif token and _entering(request, token):
            response = RedirectResponse(first, 303)
            response.set_cookie(EXPLORER_COOKIE.format(port()), token, httponly=True, samesite="lax")
        elif token and not secrets.compare_digest(
            request.cookies.get(EXPLORER_COOKIE.format(port()), "").encode(), token.encode()
        ):
            response = Response("Open the link that `curate` printed: it has a token that this address lacks.", 403)
        else:
            response = await answer(request)
        response.headers.update(_HEADERS)
        response.headers["Cache-Control"] = "no-store" if token else "no-cache"
        return response


def _entering(request: Request, token: str) -> bool:
    sent_token = request.query_params.get("token", "")
    return request.url.path == "/" and secrets.compare_digest(sent_token.encode(), token.encode())


def _routes(app: FastAPI, served: Served) -> None:
    pages, page = served.pages, served.answer

    @app.get("/")
    def browse(request: Request) -> Response:
        return page(lambda: pages.browse(_query(request)))

    @app.get("/topics")
    def topics(request: Request) -> Response:
        return page(lambda: pages.map(_query(request)))

    @app.get("/boards")
    def boards(slice: str = "") -> Response:
        return page(lambda: pages.boards(slice))

    @app.get("/sql")
    def sql(q: str = "") -> Response:
        return page(lambda: pages.sql(q.strip()))

    @app.get("/selection/board")
    def board_of(request: Request) -> Response:
        return page(lambda: pages.board_of(_query(request)))

    @app.get("/selection/ids.csv")
    def ids(request: Request) -> Response:
        rows = list[pl.DataFrame]()

        def chosen() -> str:
            rows.append(pages.selected(_query(request)).select(pl.col("kind").cast(pl.String), "id"))
            served.source.note_ids_given(rows[0].height)
            return ""

        refused = page(chosen)
        if refused.status_code != 200:
            return refused
        # A row is one item; no id is read as a formula by a spreadsheet.
        safe = rows[0].with_columns(pl.col("id").map_elements(csv_cell, return_dtype=pl.String))
        headers = {"Content-Disposition": 'attachment; filename="selection.csv"'}
        return Response(safe.write_csv(), media_type="text/csv", headers=headers)

    @app.get("/dropped")
    def dropped() -> Response:
        return page(lambda: pages.dropped() if served.source.private else None)

    @app.get("/compare")
    def compare() -> Response:
        return page(pages.compare)

    @app.get("/items/{key}")
    def item(key: str, whole: str = "") -> Response:
        return page(lambda: pages.item(key, key in served.opened, bool(whole)))

    @app.post("/items/{key}/open")
    def open_item(key: str) -> Response:
        refused = page(lambda: pages.item(key, False, False))
        if refused.status_code != 200:
            return refused
        return served.open(key) or RedirectResponse(f"/items/{key}", 303)

    _file_routes(app, served)


def _file_routes(app: FastAPI, served: Served) -> None:
    def content(read_content: Callable[[], bytes | str | None], kind: str = "") -> Response:
        """A script or image; nothing when it is not there or may not be shown."""
        try:
            served.refresh()
            body = read_content()
        except (Gone, StoreUnwell, NoSelection):
            body = None
        if body is None:
            return Response(status_code=404)
        media_type = kind or (small.media_type(body) if isinstance(body, bytes) else "")
        return Response(body, media_type=media_type)

    @app.get("/topics/points.js")
    def points(request: Request) -> Response:
        return content(lambda: served.pages.points(_query(request)), "text/javascript")

    @app.get("/topics/piece-{number}.js")
    def piece(number: int) -> Response:
        return content(lambda: served.pages.piece(number) if number >= 0 else None, "text/javascript")

    @app.get("/thumbs/{image_id}")
    def thumb(image_id: str) -> Response:
        return content(lambda: served.thumb(image_id), small.MEDIA_TYPE)

    @app.get("/images/{image_id}")
    def image(image_id: str) -> Response:
        def shown() -> bytes | None:
            hidden = served.source.hidden_image(image_id) and image_id not in served.opened_images
            return served.thumb(image_id) if hidden else served.source.image(image_id)

        return content(shown)  # asks what is hidden after the source was refreshed

    @app.exception_handler(404)
    async def unknown(_: Request, __: Exception) -> Response:
        return HTMLResponse(served.pages.message("Not found", "There is no page at this address."), 404)

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        return FileResponse(EXPLORER_FILES[name]) if name in EXPLORER_FILES else Response(status_code=404)


def _query(request: Request) -> Query:
    return query_of(parse_qsl(request.url.query, max_num_fields=None))
