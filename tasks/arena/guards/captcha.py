"""A captcha before the first message: any provider with a script, a site key, and an address that checks answers.

Only its own page loads the provider's script, and only that page's policy lets it. Who solved it has a signed cookie of
a day, which holds for that browser alone. When the provider does not answer, nobody gets in.
"""

import os
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx2
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from schemas.errors import BadInput, MissingProvider
from tasks.arena.guards.requests import Signed, form_of
from tasks.arena.page import ArenaPages
from tasks.arena.settings import ArenaSettings
from tasks.arena.words import page_words
from tasks.look import POLICY

CAPTCHA_COOKIE, CAPTCHA_PAGE = "arena_captcha", "/human"
CAPTCHA_SECRET_VARIABLE = "ARENA_CAPTCHA_SECRET"  # noqa: S105 - the name of it
SOLVED_SECONDS = 86_400
_CHECK_SECONDS = 10.0
_FIELDS = ("-response", "-token")
"""Ends of the names of the form's field with the answer: cf-turnstile-response, h-captcha-response."""


class Captcha:
    """One provider."""

    def __init__(self, script: str, site_key: str, verify: str, secret: str, key: bytes) -> None:
        """`key` signs the cookies of those who solved it."""
        self.script, self.site_key, self._verify, self._secret = script, site_key, verify, secret
        self._signed = Signed(key, "captcha")

    @property
    def policy(self) -> str:
        """Content security policy of the page: the provider's host, and others of its domain, as its frames need."""
        parts = urlsplit(self.script)
        from_there = f"{parts.scheme}://{parts.netloc}"
        if not any(label.isdigit() for label in (parts.hostname or "").split(".")[-1:]):
            from_there += f" {parts.scheme}://*.{'.'.join((parts.hostname or '').split('.')[-2:])}"
        kinds = "".join(f"; {kind} {from_there}" for kind in ("frame-src", "connect-src 'self'"))
        styles = POLICY.replace("style-src 'self'", f"style-src 'self' 'unsafe-inline' {from_there}")
        return styles.replace("script-src 'self'", f"script-src 'self' {from_there}") + kinds

    def proof(self, owner: str) -> str:
        """The cookie of a browser that solved it now."""
        return self._signed.seal(owner, SOLVED_SECONDS)

    def holds(self, proof: str, owner: str) -> bool:
        """Whether a cookie says that this browser solved it, at most a day ago."""
        return bool(owner) and self._signed.value(proof) == owner

    async def solved(self, answer: str) -> bool | None:
        """Whether the provider takes an answer; None when it could not be asked. No address of a visitor is sent."""
        try:
            async with httpx2.AsyncClient(timeout=_CHECK_SECONDS) as client:
                response = await client.post(self._verify, data={"secret": self._secret, "response": answer})
                return response.raise_for_status().json().get("success") is True
        except (httpx2.HTTPError, ValueError, AttributeError):
            return None


def chosen_captcha(settings: ArenaSettings, key: bytes) -> Captcha | None:
    """The captcha of the settings. Raises BadInput for half of one, and MissingProvider without its secret."""
    script, site_key, verify = settings.captcha_script, settings.captcha_site_key, settings.captcha_verify
    captcha_settings = {"captcha_script": script, "captcha_site_key": site_key, "captcha_verify": verify}
    if not any(captcha_settings.values()):
        return None
    if not (script and site_key and verify):
        missing = next(name for name, value in captcha_settings.items() if not value)
        raise BadInput(f"a captcha needs {', '.join(captcha_settings)}; {missing} is not set: add --set {missing}=…")
    secret = os.environ.get(CAPTCHA_SECRET_VARIABLE, "")
    if not secret:
        raise MissingProvider(f"the captcha needs its secret; export it in {CAPTCHA_SECRET_VARIABLE}")
    return Captcha(script, site_key, verify, secret, key)


def captcha_routes(app: FastAPI, pages: ArenaPages, captcha: Captcha, owner_of: Callable[[Request], str]) -> None:
    """The page of the captcha. `owner_of`: fingerprint of who asks."""

    def shown(notice: str = "", status: int = 200) -> Response:
        html = pages.page("captcha.html", "", script=captcha.script, site_key=captcha.site_key, told=notice)
        return HTMLResponse(html, status, {"content-security-policy": captcha.policy})

    @app.get(CAPTCHA_PAGE)
    def page() -> Response:
        return shown()

    @app.post(CAPTCHA_PAGE)
    async def solve(request: Request) -> Response:
        owner, form = owner_of(request), await form_of(request)
        answers = [values[0] for name, values in form.items() if name.endswith(_FIELDS)]
        if not owner:
            return shown(page_words()["cookies"], 403)
        solved = await captcha.solved(answers[0]) if answers else False
        if not solved:
            return shown(page_words()["unavailable" if solved is None else "captcha_wrong"], 403)
        response = RedirectResponse("/", 303)
        response.set_cookie(CAPTCHA_COOKIE, captcha.proof(owner), SOLVED_SECONDS, httponly=True, samesite="lax")
        return response
