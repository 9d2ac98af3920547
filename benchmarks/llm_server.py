"""A server of chat completions and images with a rate limit, where some requests fail."""

import asyncio
import base64
import json
import sys
import time

from schemas.tags import TAGS

LATENCY_SECONDS = 0.05
FAILURES = ("429", "500", "drop")
ANSWER = json.dumps(dict.fromkeys(TAGS, False))


IMAGE = base64.b64encode(b"\x89PNG\r\n" + bytes(50_000)).decode()
"""As many bytes as a small image; whether they are one is decided later."""
VERDICT = json.dumps({"reasons": "The first one fits the caption.", "better": "A"})


class Server:
    """Accepts `rate` requests per second (token bucket of one second); one in `fail_every` fails."""

    def __init__(self, rate: float, fail_every: int, headers: bool) -> None:
        self.rate, self.fail_every, self.headers = rate, fail_every, headers
        self.level, self.at = rate, time.monotonic()
        self.taken = self.refused = self.failed = 0
        self.answered: dict[str, int] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                sizes = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                body = await reader.readexactly(int(sizes[0].split(b":")[1])) if sizes else b""
                if head.startswith(b"GET"):
                    self._write(writer, 200, json.dumps(self._counts()).encode())
                elif not await self._answer(writer, body):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, body: bytes) -> bool:
        now = time.monotonic()
        self.level, self.at = min(self.rate, self.level + (now - self.at) * self.rate), now
        if self.level < 1:
            self.refused += 1
            self._write(writer, 429, b"{}", {"retry-after": f"{(1 - self.level) / self.rate:.3f}"})
            return True
        self.level -= 1
        self.taken += 1
        fails = self.taken % self.fail_every == 0
        limits = {
            "x-ratelimit-limit-requests": f"{self.rate:g}",
            "x-ratelimit-remaining-requests": str(int(self.level)),
            "x-ratelimit-reset-requests": f"{1000 * (self.rate - self.level) / self.rate:.0f}ms",
        }
        await asyncio.sleep(LATENCY_SECONDS)
        if fails:
            self.failed += 1
            return self._fail(writer, FAILURES[self.failed % len(FAILURES)])
        sent = json.loads(body)
        if "prompt" in sent:
            self.answered[sent["prompt"]] = self.answered.get(sent["prompt"], 0) + 1
            self._write(writer, 200, json.dumps({"created": 1, "data": [{"b64_json": IMAGE}]}).encode(), limits)
            return True
        content = sent["messages"][-1]["content"]
        asked = (content if isinstance(content, str) else content[0]["text"]).split("\n", 2)[:2][-1]
        self.answered[asked] = self.answered.get(asked, 0) + 1
        said = VERDICT if b'"verdict"' in body else ANSWER
        self._write(writer, 200, completion(said), limits if self.headers else {})
        return True

    def _fail(self, writer: asyncio.StreamWriter, how: str) -> bool:
        if how == "drop":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{")
            return False
        self._write(writer, int(how), b'{"error": {"message": "busy"}}')
        return True

    def _counts(self) -> dict[str, int]:
        repeated = sum(times - 1 for times in self.answered.values())
        return {
            "distinct": len(self.answered),
            "repeated": repeated,
            "taken": self.taken,
            "refused": self.refused,
            "failed": self.failed,
        }

    def _write(
        self, writer: asyncio.StreamWriter, status: int, body: bytes, headers: dict[str, str] | None = None
    ) -> None:
        lines = [f"HTTP/1.1 {status} x", "content-type: application/json", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def completion(content: str) -> bytes:
    """A reply with this content."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
    usage = {"prompt_tokens": 900, "completion_tokens": 60, "total_tokens": 960}
    said = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    return json.dumps(said).encode()


async def main(rate: float, fail_every: int, headers: bool) -> None:
    """Serve until killed; prints the port first."""
    server = await asyncio.start_server(Server(rate, fail_every, headers).serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "headers"))
