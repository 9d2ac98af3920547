"""Speaks OpenAI's moderation on this machine, flags nothing, and remembers every text it was asked about."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from openai.types.moderation import CategoryScores

_NAMES = [field.alias or name for name, field in CategoryScores.model_fields.items()]
_RESULT = {
    "flagged": False,
    "categories": dict.fromkeys(_NAMES, False),
    "category_scores": dict.fromkeys(_NAMES, 0.01),
}


class ModerationServer:
    """A service that bills every text."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                texts = json.loads(self.rfile.read(int(self.headers["content-length"])))["input"]
                outer.asked += texts
                answer = {"id": "modr-1", "model": "omni-moderation", "results": [_RESULT] * len(texts)}
                content = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}).start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
