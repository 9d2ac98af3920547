"""CPU of a battle in `curate arena` and in FastChat's battle tab, on the same scripted models over HTTP.

FastChat 0.2.36, its last release, needs old packages, so it has its own environment, whose Python is the argument:

    python3.11 -m venv FC
    FC/bin/pip install "fschat[webui]==0.2.36" "gradio==4.39.0" "huggingface_hub<0.26" "transformers<4.46" torch \
        accelerate plotly psutil openai "httpx<0.28" "pydantic<2.9" "fastapi<0.113" "starlette<0.39" "numpy<2"
    python -m benchmarks.arena_fastchat FC/bin/python

Both servers keep their logs, and neither moderates: FastChat does so for some vendors' models only, and the embedded
moderator of the arena runs on every message.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from benchmarks.arena import FEW, FIRST_SECONDS, WORDS, WORDS_A_SECOND, _cpu_seconds, battle

Battle = Callable[[str, list[float]], None]
MODELS = ("model-one", "model-two")


def serve_models(port: int) -> None:
    """OpenAI-compatible chat completions with fixed words, streamed."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.responses import StreamingResponse
    from starlette.routing import Route

    async def words() -> AsyncIterator[str]:
        began = time.monotonic() + FIRST_SECONDS
        for number in range(WORDS):
            await asyncio.sleep(max(0.0, began + number / WORDS_A_SECOND - time.monotonic()))
            yield _piece({"content": f"word{number} "}, None)
        yield _piece({}, "stop") + "data: [DONE]\n\n"

    async def complete(_: Any) -> StreamingResponse:
        return StreamingResponse(words(), media_type="text/event-stream")

    app = Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])
    uvicorn.run(app, port=port, log_level="critical")


def _piece(delta: dict[str, str], reason: str | None) -> str:
    choice = {"index": 0, "delta": {"role": "assistant"} | delta, "finish_reason": reason}
    said = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return f"data: {json.dumps(said)}\n\n"


def fastchat_battle(url: str, took: list[float]) -> None:
    """One battle in FastChat's battle tab over HTTP; appends the seconds until its first word."""
    with httpx.Client(base_url=url, timeout=300) as client:
        client.get("/")
        config = client.get("/config").json()
        session, began = os.urandom(6).hex(), time.monotonic()
        events = {name: _event(config, name) for name in ("load_demo", "add_text", "bot_response_multi")}
        sent = {"load_demo": [{}], "add_text": [None, None, "", "", "Hello"]}
        for name, event in events.items():
            data = sent.get(name, [None, None, 0.7, 1.0, 1024])
            body = {"data": data, "fn_index": event, "session_hash": session, "trigger_id": None}
            client.post("/queue/join", json=body)
            found = False
            with client.stream("GET", "/queue/data", params={"session_hash": session}) as stream:
                for line in stream.iter_lines():
                    if not found and "word0" in line:
                        took.append(time.monotonic() - began)
                        found = True
                    if '"process_completed"' in line:
                        break


def _event(config: dict[str, Any], name: str) -> int:
    """The first event of this name: of the battle tab, which is the first one."""
    return int(next(event["id"] for event in config["dependencies"] if event["api_name"] == name))


@contextmanager
def running(command: Sequence[str], folder: Path, url: str) -> Iterator[int]:
    """A server, once it answers; gives its process id."""
    environment = os.environ | {"GRADIO_ANALYTICS_ENABLED": "False", "NO_PROXY": "127.0.0.1", "LOGDIR": str(folder)}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            for _ in range(1200):
                try:
                    httpx.get(url)
                    break
                except httpx.TransportError:
                    time.sleep(0.1)
            yield server.pid
        finally:
            server.kill()


def measured(process: int, url: str, work: Battle) -> tuple[float, float]:
    """(CPU seconds of the server for each of FEW battles at once, median seconds to the first word)."""
    work(url, [])
    before, took = _cpu_seconds(process), list[float]()
    threads = [threading.Thread(target=work, args=(url, took)) for _ in range(FEW)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(took) == FEW, "every battle had an answer"
    return (_cpu_seconds(process) - before) / FEW, sorted(took)[FEW // 2]


def run(fastchat: str) -> dict[str, Any]:
    """One row."""
    models, ours, theirs = (_free_port() for _ in range(3))
    base = f"http://127.0.0.1:{models}/v1"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        entries = [{"name": each, "base_url": base, "vision": False} for each in MODELS]
        (folder / "models.yaml").write_text(json.dumps({"models": entries}))
        about = {"api_base": base, "api_type": "openai", "api_key": "none", "anony_only": False}
        (folder / "endpoints.json").write_text(json.dumps({each: about | {"model_name": each} for each in MODELS}))
        arena = [
            sys.executable,
            "-c",
            "from flows.commands import main; main()",
            "arena",
            "--models",
            str(folder / "models.yaml"),
        ]
        arena += ["--logs", str(folder / "logs"), "--port", str(ours), "--no-browser", "--messages-per-minute", "1000"]
        peer = [fastchat, "-m", "fastchat.serve.gradio_web_server_multi", "--controller-url", "", "--host", "127.0.0.1"]
        peer += ["--port", str(theirs), "--register-api-endpoint-file", str(folder / "endpoints.json")]
        serving = [sys.executable, "-m", "benchmarks.arena_fastchat", "serve", str(models)]
        with subprocess.Popen(serving) as scripted:
            try:
                with running(arena, folder, f"http://127.0.0.1:{ours}") as process:
                    our_cpu, our_first = measured(process, f"http://127.0.0.1:{ours}", battle)
                with running(peer, folder, f"http://127.0.0.1:{theirs}") as process:
                    their_cpu, their_first = measured(process, f"http://127.0.0.1:{theirs}", fastchat_battle)
            finally:
                scripted.kill()
    row = {"bench": "arena: a battle against FastChat's", "n": FEW, "ours_s": round(our_cpu, 3)}
    row |= {"peer": "FastChat 0.2.36, gradio 4.39", "peer_s": round(their_cpu, 3)}
    row |= {"ratio": round(their_cpu / our_cpu, 2), "ours_first_s": round(our_first, 3)}
    row |= {"peer_first_s": round(their_first, 3)}
    print(json.dumps(row), flush=True)
    return row


def _free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve_models(int(sys.argv[2]))
    else:
        run(sys.argv[1])
