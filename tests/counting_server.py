"""A server with chat completions and moderations that counts what it is sent, as a vendor would bill it."""

import base64
import io
import json

import PIL.Image

from tasks.providers import token_count
from tasks.runtime.budget import load_prices
from tests.http_server import HttpServer, Reply
from tests.moderation_answers import answer, result

MODEL = "gpt-5.4-mini-2026-03-17"


class CountingServer(HttpServer):
    """Answers every question with a value that fits its schema, and flags no text."""

    def __init__(self):
        super().__init__()
        self.answer(Reply(self._answered))

    def counted(self) -> dict[str, int]:
        """Calls, tokens in and out of questions; calls and pieces of moderation."""
        chats = [request for request in self.requests if "messages" in request]
        texts = [request["input"] for request in self.requests if "messages" not in request]
        return {
            "calls": len(chats),
            "input_tokens": sum(map(_tokens_of, chats)),
            "output_tokens": sum(token_count(_content(chat)) for chat in chats),
            "moderation_calls": len(texts),
            "moderation_units": sum(map(len, texts)),
        }

    def _answered(self, request):
        if "messages" not in request:
            return answer(*[result() for _ in request["input"]])
        content = _content(request)
        usage = {"prompt_tokens": _tokens_of(request), "completion_tokens": token_count(content), "total_tokens": 0}
        said = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": usage}
        message = {"role": "assistant", "content": content}
        return said | {"choices": [{"index": 0, "finish_reason": "stop", "message": message}]}


def _content(request) -> str:
    fields = request["response_format"]["json_schema"]["schema"]["properties"]
    return json.dumps({name: _value(kind) for name, kind in fields.items()})


def _value(kind):
    kinds = kind.get("anyOf", [kind])
    among = [each for one in kinds for each in one.get("enum", ())]
    return among[0] if among else "Table Questions" if any(one["type"] == "string" for one in kinds) else False


def _tokens_of(request) -> int:
    price = load_prices().tokens(f"openai-{MODEL}")
    total = token_count(json.dumps(request["response_format"]["json_schema"]["schema"]))
    for message in request["messages"]:
        parts = message["content"]
        for part in [{"type": "text", "text": parts}] if isinstance(parts, str) else parts:
            if part["type"] == "text":
                total += token_count(part["text"])
            else:
                encoded = base64.b64decode(part["image_url"]["url"].partition(",")[2])
                total += price.image_tokens(*PIL.Image.open(io.BytesIO(encoded)).size)
    return total
