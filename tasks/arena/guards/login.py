"""A login before anything else, by OpenID Connect: authorization code with PKCE, which Authlib asks for and checks.

A visitor is the hash of issuer and subject, in a signed cookie of half a day; the provider's words are kept
nowhere. When the provider does not answer, nobody gets in.
"""

import os
from typing import Any
from urllib.parse import urlsplit

import httpx2
import orjson
from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response

from schemas.asked_model import is_here
from schemas.errors import BadInput, MissingProvider
from tasks.arena.entrance import Refused, cookie_hash
from tasks.arena.guards.requests import Signed
from tasks.arena.settings import ArenaSettings

LOGIN_COOKIE, BEGIN, DONE, LOGOUT = "arena_login", "/login/begin", "/login/done", "/logout"
LOGIN_SECRET_VARIABLE = "ARENA_LOGIN_SECRET"  # noqa: S105 - the name of it
LOGGED_IN_SECONDS, _BEGUN_SECONDS = 43_200, 600
_ANSWER_SECONDS, _LEEWAY_SECONDS = 10.0, 30
_ADDRESSES = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_ALGORITHMS = "id_token_signing_alg_values_supported"


class Login:
    """One provider of logins."""

    def __init__(self, issuer: str, client_id: str, secret: str, key: bytes) -> None:
        """`key` signs the cookies."""
        from authlib.integrations.starlette_client import OAuth  # only the extra `arena` brings it

        self._issuer, self._client_id, self._signed = issuer, client_id, Signed(key, "login")
        self._provider = OAuth().register(
            "arena",
            client_id=client_id,
            client_secret=secret,
            server_metadata_url=f"{issuer.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs={"scope": "openid", "code_challenge_method": "S256", "timeout": _ANSWER_SECONDS},
        )

    def owner(self, request: Request) -> str:
        """Fingerprint of the login. Raises Refused without one."""
        if owner := self._kept(request).get("owner"):
            return str(owner)
        raise Refused("login_first")

    async def begin(self, request: Request, back: str) -> Response:
        """Send a browser to the provider, which sends it `back`. Raises Refused when the provider does not answer."""
        request.scope["session"] = {}
        try:
            await self._load()
            response: Response = await self._provider.authorize_redirect(request, back)
        except Exception:  # it does not answer, or with something else than a provider's words
            raise Refused("login_down") from None
        return self._keep(response, {"begun": request.session}, _BEGUN_SECONDS, back)

    async def finish(self, request: Request, back: str) -> Response:
        """Let in whom the provider sent back with a valid token for this browser. Raises Refused otherwise."""
        request.scope["session"] = self._kept(request).get("begun", {})
        try:
            claims = {"iss": (await self._load())["issuer"], "aud": self._client_id}
            claims_options = {name: {"essential": True, "value": value} for name, value in claims.items()}
            token = await self._provider.authorize_access_token(
                request, claims_options=claims_options, leeway=_LEEWAY_SECONDS
            )
            subject = str(token["userinfo"]["sub"])
        except httpx2.HTTPError:
            raise Refused("login_down") from None
        except Exception:  # whatever a token may be; without a valid one nobody gets in
            raise Refused("login_failed") from None
        owner = cookie_hash(f"login {self._issuer} {subject}")
        return self._keep(RedirectResponse("/", 303), {"owner": owner}, LOGGED_IN_SECONDS, back)

    async def _load(self) -> dict[str, Any]:
        """Load what the provider says of itself. Raises ValueError for another issuer or an unsafe address."""
        metadata: dict[str, Any] = await self._provider.load_server_metadata()
        metadata[_ALGORITHMS] = [
            algorithm for algorithm in metadata.get(_ALGORITHMS, ["RS256"]) if algorithm[:2] in ("RS", "PS", "ES", "Ed")
        ]
        same = str(metadata.get("issuer")).rstrip("/") == self._issuer.rstrip("/")
        if not (same and all(_is_safe(str(metadata.get(name, ""))) for name in _ADDRESSES)):
            metadata.clear()
            raise ValueError("another provider")
        return metadata

    def _kept(self, request: Request) -> dict[str, Any]:
        """Content of the cookie: a login that was begun, or who has logged in."""
        content: dict[str, Any] = orjson.loads(self._signed.value(request.cookies.get(LOGIN_COOKIE, "")) or b"{}")
        return content

    def _keep(self, response: Response, value: dict[str, Any], seconds: int, back: str) -> Response:
        response.set_cookie(
            LOGIN_COOKIE, self._signed.seal(orjson.dumps(value).decode(), seconds), seconds,
            httponly=True, samesite="lax", secure=back.startswith("https:"),
        )  # fmt: skip
        return response


def _is_safe(address: str) -> bool:
    """Whether nobody on the way reads what is sent to an address."""
    return urlsplit(address).scheme == "https" or is_here(address)


def chosen_login(settings: ArenaSettings, key: bytes) -> Login | None:
    """The login of the settings. Raises BadInput for half of one, and MissingProvider without its secret."""
    issuer, client_id = settings.login_issuer, settings.login_client_id
    if not (issuer or client_id):
        return None
    if not (issuer and client_id):
        missing = "login_client_id" if issuer else "login_issuer"
        raise BadInput(f"a login needs login_issuer and login_client_id; {missing} is not set: add --set {missing}=…")
    if not _is_safe(issuer):
        raise BadInput(
            f"login_issuer {issuer!r} is neither https nor on this machine, so that others could read logins; "
            "give its https address"
        )
    if settings.login_header:
        raise BadInput("login_header and login_issuer are two logins; give one of them")
    secret = os.environ.get(LOGIN_SECRET_VARIABLE, "")
    if not secret:
        raise MissingProvider(f"the login needs its secret; export it in {LOGIN_SECRET_VARIABLE}")
    return Login(issuer, client_id, secret, key)


def login_routes(app: FastAPI, login: Login, proxied: bool) -> None:
    """The way to the provider and back, and the way out."""

    def back(request: Request) -> str:
        """The address that the provider sends browsers to; a proxy in front says which scheme they came with."""
        scheme = request.headers.get("x-forwarded-proto", "https") if proxied else request.url.scheme
        return f"{'http' if scheme == 'http' else 'https'}://{request.headers['host']}{DONE}"

    @app.get(BEGIN)
    async def begin(request: Request) -> Response:
        return await login.begin(request, back(request))

    @app.get(DONE)
    async def done(request: Request) -> Response:
        return await login.finish(request, back(request))

    @app.post(LOGOUT)
    def logout() -> Response:
        response = RedirectResponse("/", 303)
        response.delete_cookie(LOGIN_COOKIE)
        return response
