"""OpenAI's moderation API on this machine: it flags nothing and records every text."""

from tests.http_server import HttpServer, Reply
from tests.moderation_answers import answer, result


class ModerationServer(HttpServer):
    """A service that bills every text."""

    def __init__(self):
        super().__init__()
        self.answer(Reply(lambda request: answer(*[result() for _ in request["input"]])))

    @property
    def asked(self) -> list[str]:
        return [text for request in self.requests for text in request["input"]]
