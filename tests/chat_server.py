"""A server on 127.0.0.1 that speaks OpenAI's streamed chat completions, with good, slow, broken and hostile models.

Run as a program, it prints its port; the tests of the arena import it for its texts.
"""

import asyncio
import json
import sys

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse

HOSTILE = (
    "<script>window.ran = 1</script><img src=x onerror='window.ran = 1'> ![a](http://192.0.2.1/a.png) "
    "<iframe src='http://192.0.2.1/'></iframe><form action='http://192.0.2.1/'><input></form>"
    "<style>body {display: none}</style> [b](javascript:window.ran=1) I am hostile-model-7b, $$x^2$$ end"
)
THOUGHT = "write to jane.roe@example.com"
GOOD = "A **red** square, and `code`."
MODELS = ("good-model", "second-model", "slow-model", "broken-model", "half-model", "empty-model", "hostile-model-7b")


def chunk(text: str | list[dict[str, object]] | None, finish: str | None = None, key: str = "content") -> str:
    choice = {"index": 0, "delta": {key: text} if text else {}, "finish_reason": finish}
    body = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return f"data: {json.dumps(body)}\n\n"


async def pieces(model: str, counted: bool, system: str):
    if model == "slow-model":
        for number in range(400):
            yield chunk(f"word{number} ")
            await asyncio.sleep(0.05)
    elif model == "half-model":
        yield chunk("The first half of")
        return
    elif model == "thinking-model":
        for word in ("First ", "I think of "):
            yield chunk(word, key="reasoning_content")
        yield chunk([{"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]}])  # as Mistral sends it
        yield chunk([{"type": "text", "text": "An answer."}])
    elif model == "system-model":
        yield chunk(f"<think>{THOUGHT}</think>I am told: {system}")
    elif model != "empty-model":
        text = HOSTILE if model.startswith("hostile") else GOOD
        for place in range(0, len(text), 5):
            yield chunk(text[place : place + 5])
            await asyncio.sleep(0.005)
    yield chunk(None, "stop")
    if counted:
        used = {"prompt_tokens": 12, "completion_tokens": 34, "total_tokens": 46}
        yield f"data: {json.dumps({'id': '1', 'object': 'chat.completion.chunk', 'choices': [], 'usage': used})}\n\n"
    yield "data: [DONE]\n\n"


def application() -> FastAPI:
    app = FastAPI()
    app.state.asked = []

    @app.post("/v1/chat/completions")
    async def completions(request: Request):
        asked = await request.json()
        app.state.asked.append(asked)
        system = "".join(each["content"] for each in asked["messages"] if each["role"] == "system")
        counted = asked.get("stream_options") == {"include_usage": True}
        if asked["model"] == "broken-model":
            return JSONResponse({"error": {"message": "secret of the server"}}, 500)
        wanted = {"max_completion_tokens": 50, "reasoning_effort": "low"}
        if asked["model"] == "thinking-model" and (
            not wanted.items() <= asked.items() or "max_tokens" in asked or request.headers.get("x-team") != "vision"
        ):
            return JSONResponse({"error": {"message": "max_tokens is not supported"}}, 400)
        return StreamingResponse(pieces(asked["model"], counted, system), media_type="text/event-stream")

    return app


if __name__ == "__main__":
    uvicorn.run(application(), host="127.0.0.1", port=int(sys.argv[1]), log_level="critical")
