"""An OpenID provider on this machine: real keys, codes that hold once, PKCE; tests spoil its tokens."""

import secrets
import threading
import time
from base64 import b64decode
from urllib.parse import urlencode

import uvicorn
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from tests.waiting import free_port, listens

CLIENT, SECRET, SUBJECT = "the-arena", "of the arena", "ann@example.org"


class OpenIdServer:
    """The provider; `spoiled` replaces claims of its tokens, and `url` is its issuer."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://localhost:{self.port}"
        self.keys, self.spoiled, self.asked = KeySet([RSAKey.generate_key(2048)]), {}, dict[str, dict[str, str]]()
        self.signs = self.keys.keys[0]
        self._server = uvicorn.Server(uvicorn.Config(self._app(), port=self.port, log_level="critical"))
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        while not listens(self.port):
            time.sleep(0.01)

    def _app(self) -> FastAPI:
        app = FastAPI()

        @app.get("/.well-known/openid-configuration")
        def described() -> dict:
            addresses = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
            told = {name: f"{self.url}/{path}" for name, path in addresses.items()}
            return told | {"issuer": self.url, "id_token_signing_alg_values_supported": ["RS256", "none", "HS256"]}

        @app.get("/keys")
        def keys() -> dict:
            return self.keys.as_dict(private=False)

        @app.get("/authorize")
        def authorize(request: Request) -> HTMLResponse:
            asked, code = dict(request.query_params), secrets.token_hex(8)
            assert asked["client_id"] == CLIENT and asked["scope"] == "openid", asked
            assert asked["code_challenge_method"] == "S256", asked
            self.asked[code] = asked
            return HTMLResponse(f'<a href="/agreed?code={code}">It is me</a>')

        @app.get("/agreed")
        def agreed(code: str) -> RedirectResponse:
            asked = self.asked[code]
            return RedirectResponse(f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}")

        @app.post("/token")
        async def token(request: Request) -> JSONResponse:
            form = dict([part.split("=", 1) for part in (await request.body()).decode().split("&")])
            asked, login = self.asked.pop(form["code"], None), request.headers["authorization"].removeprefix("Basic ")
            challenge = create_s256_code_challenge(form["code_verifier"])
            if not asked or asked["code_challenge"] != challenge or b64decode(login).decode() != f"{CLIENT}:{SECRET}":
                return JSONResponse({"error": "invalid_grant"}, 400)
            claims = {"iss": self.url, "sub": SUBJECT, "aud": CLIENT, "nonce": asked["nonce"]}
            claims |= {"iat": int(time.time()), "exp": int(time.time()) + 300} | self.spoiled
            signed = jwt.encode({"alg": "RS256", "kid": self.signs.kid}, claims, self.signs)
            return JSONResponse({"access_token": "x", "token_type": "Bearer", "id_token": signed})

        return app

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join()
