"""The admin page: its own application, on an address of its own, behind a token of the environment."""

import hmac
import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
import yaml
from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from schemas.asked_model import ArenaModel
from schemas.errors import BadInput, CurateError, StoreUnwell
from schemas.run import TokenRate
from schemas.upkeep import TermsVersion
from tasks.arena.app import PageGuard
from tasks.arena.conversations import Mode
from tasks.arena.entrance import cookie_hash
from tasks.arena.guards.requests import form_of, is_own
from tasks.arena.live import digest_of_terms, require_new
from tasks.arena.models_file import check_arena_keys, require_two_drawn
from tasks.arena.page import ARENA_FILES
from tasks.arena.rounds import Arena
from tasks.arena.settings import ArenaSettings
from tasks.arena.words import LANGUAGES, page_words
from tasks.runtime.serving import AsgiMessage, Bounded, Receive, Send
from tasks.runtime.untrusted import checked_entry, json_text, one_line, parse_yaml, why_no_yaml, yaml_text

ADMIN_TOKEN_VARIABLE = "ARENA_ADMIN_TOKEN"  # noqa: S105 - the name of it
TOKEN_CHARACTERS_MIN = 16
_COOKIE = "arena_admin"
_FORM_BYTES_MAX = 1024 * 1024
"""Terms in every language."""
CHANGES = 20
"""Changes that are shown, of the audit log."""
_HERE = Path(__file__).parent


def admin_token() -> str:
    """The token of the environment; empty for no admin page. Raises BadInput for one that can be guessed."""
    token = os.environ.get(ADMIN_TOKEN_VARIABLE, "").strip()
    if token and len(token) < TOKEN_CHARACTERS_MIN:
        raise BadInput(
            f"{ADMIN_TOKEN_VARIABLE} has {len(token)} characters; give at least {TOKEN_CHARACTERS_MIN}, such as "
            "`openssl rand -hex 16` prints, or unset it to have no admin page"
        )
    return token


def operator_tokens(settings: ArenaSettings) -> dict[str, str]:
    """Token -> name of the operator that it tells; `ARENA_ADMIN_TOKEN` tells none. Raises BadInput for a bad token."""
    tokens = {token: ""} if (token := admin_token()) else {}
    for name, variable in settings.operators.items():
        token = os.environ.get(variable, "").strip()
        if len(token) < TOKEN_CHARACTERS_MIN:
            raise BadInput(
                f"operator {name!r}: the variable that holds the token is not set, or has fewer than "
                f"{TOKEN_CHARACTERS_MIN} characters"
            )
        if token in tokens:
            raise BadInput(f"operator {name!r} has a token that somebody else has, too; give each a token of their own")
        tokens[token] = name
    return tokens


class Admin:
    """Everything that the page shows and does."""

    def __init__(self, arena: Arena, tokens: Mapping[str, str]) -> None:
        """`tokens`: token -> name of the operator."""
        self.arena, self._tokens = arena, {cookie_hash(token): name for token, name in tokens.items()}
        loader = jinja2.FileSystemLoader(_HERE)
        self._page = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
        self._page.filters |= {"line": one_line, "told": _told}

    def who(self, request: Request) -> str | None:
        """The name that goes with the token of the browser, or of a program by `Authorization: Bearer`; None without.

        Every token is compared, in the same time.
        """
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        digests = [request.cookies.get(_COOKIE, ""), cookie_hash(bearer)]
        names = [name for digest in digests for name in self._names_of(digest)]
        return names[0] if names else None

    def _names_of(self, digest: str) -> list[str]:
        """The name that goes with the hash of a token, alone in a list; none for no token of the page."""
        sent_digest = digest.encode("utf-8", "replace")
        return [name for digest, name in self._tokens.items() if hmac.compare_digest(sent_digest, digest.encode())]

    def enter(self, token: str) -> Response:
        """Take a token."""
        digest = cookie_hash(token.strip())
        if not self._names_of(digest):
            return Response(status_code=403)
        response = RedirectResponse("/", 303)
        response.set_cookie(_COOKIE, digest, httponly=True, samesite="strict")
        return response

    def figures(self) -> dict[str, Any]:
        """All that the page shows, as JSON takes it."""
        arena, state = self.arena, self.arena.steering.now()
        hours = arena.figures.hours()
        names = {arena.steering.who(name): name for name in self._tokens.values() if name}
        try:
            changes, broken = arena.steering.audited()[-CHANGES:], ""
        except StoreUnwell as error:
            changes, broken = [], str(error)
        return {
            "health": arena.health(),
            "waiting": arena.waiting(),
            "refusals": dict(arena.refusals.most_common()),
            "usd_today": round(arena.figures.usd_today(), 6),
            "usd_a_day_max": state.usd_a_day_max,
            "sampling": arena.pool.sampling_in_words(),
            "pictures": {mode.value: arena.images_most(mode) for mode in Mode},
            "models": [self._model(model.name, model.weight) for model in arena.pool.models],
            # hour since 1970 -> model -> what it did in that hour
            "hours": {
                hour: {name: vars(counts) for name, counts in by_model.items()} for hour, by_model in hours.items()
            },
            # one row a change, newest first: when, what, and by whom
            "changes": [
                (f"{entry.at:%Y-%m-%d %H:%M}", entry.about, names.get(entry.who, entry.who))
                for entry in reversed(changes)
            ],
            "texts": self._texts(),
            "seen": self._seen(),
            "audit_log_broken": broken,
            "appeals": [appeal.model_dump(mode="json") for appeal in reversed(state.appeals)],
        }

    def _texts(self) -> dict[str, Any]:
        """The content that the forms of reasons, starter prompts, languages and terms begin with."""
        state, texts = self.arena.steering.now(), self.arena.texts
        return {
            "reasons": yaml_text(texts.reasons().file) if state.reasons is None else state.reasons,
            "starters": yaml_text(texts.starters().file.model_dump(exclude_none=True))
            if state.starters is None
            else state.starters,
            "languages": {language: language in texts.languages() for language in LANGUAGES},
            "terms": {language: texts.terms(language) for language in LANGUAGES},
            "versions": [
                {"name": terms.name, "at": f"{terms.at:%Y-%m-%d %H:%M}", "digests": _digests(terms)}
                for terms in reversed(state.terms)
            ],
            "added": [model.name for model in state.models],
        }

    def _model(self, name: str, weight: float) -> dict[str, Any]:
        """One model; its counts are of the hours that are shown."""
        state, pool, figures = self.arena.steering.now(), self.arena.pool, self.arena.figures
        # what the model did in each hour; None where it did nothing
        by_hour = [counts.get(name) for counts in figures.hours().values()]
        busy_hours = [counts for counts in by_hour if counts]
        drawn, expected = figures.exposure().get(name, (0, 0.0))
        price = figures.price(name)
        return {
            "name": name, "weight": state.weights.get(name, weight), "paused": name in state.paused,
            "down_seconds": round(pool.down_seconds(name)), "failures": pool.failures[name],
            "answers": sum(counts.answers for counts in busy_hours),
            "votes": sum(counts.votes for counts in busy_hours),
            "votes_by_hour": [counts.votes if counts else 0 for counts in reversed(by_hour)],
            "usd": round(sum(counts.usd for counts in busy_hours), 6) if figures.priced(name) else None, "drawn": drawn,
            "expected": round(expected, 1), "price": price.model_dump() if price else None,
        }  # fmt: skip

    def shown(self, done: str = "") -> Response:
        """The page, with a line about what was done."""
        return self._rendered(done, "", {}, 200)

    def refused(self, why: str, what: str, form: Mapping[str, Sequence[str]]) -> Response:
        """The page with the line of an error. The form that was refused is open and has what was typed."""
        return self._rendered(why, what, {name: values[0] for name, values in form.items()}, 422)

    def _rendered(self, line: str, what: str, typed: Mapping[str, str], status: int) -> Response:
        page = self._page.get_template("admin.html").render(self.figures(), done=line, what=what, typed=typed)
        return HTMLResponse(page, status)

    def do(self, what: str, form: Mapping[str, Sequence[str]], by: str = "") -> str:
        """Apply a form of an operator; returns a line that says so. Raises BadInput; then nothing changed.

        Of two operators at once the second one is checked against what the first one changed.
        """
        with self.arena.steering.alone():
            self._change(what, form, by)
        return "Done. It holds from the next message on, and is in the audit log."

    def _change(self, what: str, form: Mapping[str, Sequence[str]], by: str) -> None:
        model, value = (form.get(name, [""])[0].strip() for name in ("model", "value"))
        steering = self.arena.steering
        names_model = what in ("pause", "resume", "weight", "price", "drop")
        if names_model and all(served.name != model for served in self.arena.pool.models):
            raise BadInput(f"no model {one_line(model, 60)!r} is served here")
        if "seen" in form and form["seen"][0] != self._seen().get(what):
            raise BadInput(
                f"{what} were changed since this page was opened, as Changes says; send the form again to put yours in "
                "their place, or reload the page for theirs"
            )
        match what:
            case "pause" | "resume":
                steering.pause(model, what == "pause", by)
            case "weight":
                steering.weigh(model, _number(value), by)
            case "budget":
                steering.limit(_number(value), by)
            case "appeal" if value.isdecimal():
                steering.close_appeal(int(value[:12]), by)
            case "price":
                steering.price(model, _rate(form), by)
            case "serve":
                steering.serve(self._new_model(value), by)
            case "drop":
                self._require_battles(self._without(model))
                steering.drop(model, by)
            case "reasons" | "starters":
                self._read(what, value)
                steering.take_text(what, value or None, by)
            case "languages":
                steering.speak(_languages(form), by)
            case "terms":
                steering.publish_terms(self._new_terms(form), by)
            case _:
                raise BadInput("this form is not known; reload the page")

    def _seen(self) -> dict[str, str]:
        """Form of whole texts -> a digest of what it begins with, by which it tells what its operator saw."""
        texts = self._texts()
        of_terms = [texts["terms"], [version["name"] for version in texts["versions"]]]
        begun = {name: texts[name] for name in ("reasons", "starters", "languages")} | {"terms": of_terms}
        return {what: digest_of_terms(json_text(content)) for what, content in begun.items()}

    def _read(self, what: str, text: str) -> None:
        """Raises BadInput for a text that is no such YAML; an empty one stands for that of the start."""
        texts = self.arena.texts
        if text:
            texts.changed_reasons(text) if what == "reasons" else texts.changed_starters(text)

    def _new_model(self, text: str) -> ArenaModel:
        """The model of an entry in YAML. Raises BadInput for one that cannot be served, or MissingProvider."""
        try:
            entry = parse_yaml(text)
        except yaml.YAMLError as error:
            raise BadInput(f"the model is not YAML ({why_no_yaml(error)}); docs/models.md has an example") from None
        entry = entry[0] if isinstance(entry, list) and len(entry) == 1 else entry
        model = checked_entry(entry, ArenaModel, "the model", {})
        if not model.name.isprintable():
            raise BadInput("the model: name: only printable characters; logs with others are rejected")
        check_arena_keys([model])
        others = [served for served in self.arena.pool.models if served.name != model.name]
        self._require_battles([*others, model])
        return model

    def _without(self, name: str) -> list[ArenaModel]:
        """The models of now when the operator's model of this name goes. Raises BadInput where it is none of those."""
        if all(model.name != name for model in self.arena.steering.now().models):
            raise BadInput(f"model {one_line(name, 60)!r} is of the models file; pause it")
        return self.arena.pool.models_without(name)

    def _require_battles(self, models: Sequence[ArenaModel]) -> None:
        weights = self.arena.steering.now().weights
        weighted = [model.model_copy(update={"weight": weights.get(model.name, model.weight)}) for model in models]
        require_two_drawn(weighted, "the models")

    def _new_terms(self, form: Mapping[str, Sequence[str]]) -> TermsVersion:
        """The terms of a form. Raises BadInput for some without a version or an English text, or that are not new."""
        name, *_ = form.get("version", [""])
        texts = {language: form.get(f"text_{language}", [""])[0].strip() for language in LANGUAGES}
        # language -> its Markdown; empty fields are left out, and lines end as in files
        written = {language: text.replace("\r\n", "\n") for language, text in texts.items() if text}
        require_new(self.arena.steering.now().terms, name.strip(), written)
        entry = {"name": name.strip(), "at": datetime.now(UTC), "texts": written}
        return checked_entry(entry, TermsVersion, "the terms", {})


def _digests(terms: TermsVersion) -> dict[str, str]:
    """Language -> the version as the log of conversations has it."""
    return {language: digest_of_terms(text) for language, text in terms.texts.items()}


def _rate(form: Mapping[str, Sequence[str]]) -> TokenRate | None:
    """The price of a form; None for empty fields. Raises BadInput for half of a price."""
    dollars, answered = (_number(form.get(name, [""])[0].strip()) for name in ("input", "output"))
    if dollars is None and answered is None:
        return None
    if dollars is None or answered is None:
        raise BadInput("half of a price is missing; give one for input and one for output, or leave both empty")
    return TokenRate(input_usd_per_million=dollars, output_usd_per_million=answered)


def _languages(form: Mapping[str, Sequence[str]]) -> list[str]:
    """The languages of a form. Raises BadInput for none, and for one without a file of words."""
    chosen = list(form.get("language", []))
    if unknown := next((language for language in chosen if language not in LANGUAGES), None):
        raise BadInput(f"there are no words in {one_line(unknown, 20)!r}; the arena speaks {', '.join(LANGUAGES)}")
    if not chosen:
        raise BadInput("no language is left; choose one or more")
    return [language for language in LANGUAGES if language in chosen]


def _told(key: str) -> str:
    """The words that a visitor was told, without values."""
    return re.sub(r"\{\w+\}", "…", str(page_words().get(key, key)))


def _number(text: str) -> float | None:
    """A number of a form; None for an empty field."""
    if text and not re.fullmatch(r"\d{1,9}(\.\d{1,6})?", text, re.ASCII):
        raise BadInput(f"{one_line(text, 40)!r} is no number from 0, such as 0.5 or 20")
    return float(text) if text else None


def admin_app(arena: Arena, tokens: Mapping[str, str], settings: ArenaSettings) -> FastAPI:
    """The application of the admin page. Without a token every address but the form is 403, with nothing said.

    `tokens`: token -> name of the operator.
    """
    admin = Admin(arena, tokens)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/")
    async def page(request: Request) -> Response:
        if admin.who(request) is not None:
            return await run_in_threadpool(admin.shown)
        return HTMLResponse((_HERE / "token.html").read_text("utf-8"), 403)

    @app.get("/figures.json")
    async def figures(request: Request) -> Response:
        if admin.who(request) is None:
            return Response(status_code=403)
        return JSONResponse(await run_in_threadpool(admin.figures))

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        return (
            FileResponse(ARENA_FILES[name])
            if name.endswith(".css") and name in ARENA_FILES
            else Response(status_code=403)
        )

    @app.post("/")
    async def enter(request: Request) -> Response:
        return admin.enter((await form_of(request)).get("token", [""])[0])

    @app.post("/{what}")
    async def do(what: str, request: Request) -> Response:
        by = admin.who(request)
        if by is None:
            return Response(status_code=403)
        form = await form_of(request)
        try:
            done = await run_in_threadpool(admin.do, what, form, by)
        except CurateError as error:
            return await run_in_threadpool(admin.refused, str(error), what, form)
        return await run_in_threadpool(admin.shown, done)

    app.add_exception_handler(HTTPException, lambda *_: Response(status_code=403))
    app.add_middleware(PageGuard, known=partial(is_own, settings.admin_host, settings), proxied=False, cookie=False)
    app.add_middleware(Bounded, bytes_max=lambda path: _FORM_BYTES_MAX)
    return app


class Beside:
    """ASGI: requests that come in on the port of the admin page go to it, all others to the arena."""

    def __init__(self, app: FastAPI, admin: FastAPI, port: int) -> None:
        self._app, self._admin, self._port = app, admin, port

    async def __call__(self, scope: AsgiMessage, receive: Receive, send: Send) -> None:
        """One request."""
        of_admin = scope["type"] == "http" and (scope.get("server") or ("", None))[1] == self._port
        await (self._admin if of_admin else self._app)(scope, receive, send)
