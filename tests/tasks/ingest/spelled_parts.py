"""Rows of messages whose parts are spelled as clients, servers and trainers spell them, drawn from a seed.

Every part holds a word of its own (`t3` a text, `p3` a picture, `o3` another part), so that they can be counted in the
raw row by whoever knows no format.
"""

import base64
import json
import random
import re
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
TEXTS: tuple[Callable[[str], Any], ...] = (
    lambda text: text,
    lambda text: {"type": "text", "text": text},
    lambda text: {"type": "input_text", "text": text},
    lambda text: {"type": "text", "text": text, "image": None, "image_url": None},
    lambda text: {"text": text},
    lambda text: {"type": "text", "text": {"value": text, "annotations": []}},
)
PICTURES: dict[str, Callable[[str], Any]] = {  # of a path or a data: address
    "openai": lambda where: {"type": "image_url", "image_url": {"url": where, "detail": "low"}},
    "openai-text": lambda where: {"type": "image_url", "image_url": where},
    "responses": lambda where: {"type": "input_image", "image_url": where},
    "anthropic-url": lambda where: {"type": "image", "source": {"type": "url", "url": where}},
    "qwen": lambda where: {"type": "image", "image": where},
    "qwen-bare": lambda where: {"image": where},
    "axolotl": lambda where: {"type": "image", "path": where},
    "langchain": lambda where: {"type": "image", "source_type": "url", "url": where, "mime_type": "image/png"},
    "file": lambda where: {"type": "file", "file": {"filename": "a.png", "file_data": where}},
    "arrow": lambda where: {"type": "image", "text": None, "image": where},
}
ENCODED: dict[str, Callable[[str], Any]] = {  # of base64 without a head
    "anthropic": lambda data: {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
    "vercel": lambda data: {"type": "file", "mediaType": "image/png", "data": data},
    "langchain-base64": lambda data: {"type": "image", "base64": data, "mime_type": "image/png"},
    "gemini": lambda data: {"inline_data": {"mime_type": "image/png", "data": data}},
    "input-file": lambda data: {"type": "input_file", "filename": "a.png", "file_data": data},
    "bare": lambda data: {"type": "image", "image": data},
    "struct": lambda data: {"type": "image", "image": {"bytes": data, "path": "a.png"}},
}
OTHERS: dict[str, Callable[[str], Any]] = {  # kind -> part
    "video": lambda word: {"type": "video", "video": [f"{word}.jpg", "more.jpg"]},
    "video_url": lambda word: {"type": "video_url", "video_url": {"url": word}},
    "input_audio": lambda word: {"type": "input_audio", "input_audio": {"data": word, "format": "wav"}},
    "file": lambda word: {
        "type": "file",
        "file": {"filename": f"{word}.doc", "file_data": "data:application/msword,x"},
    },
    "document": lambda word: {"type": "document", "source": {"media_type": "text/html", "data": word}},
    "hologram": lambda word: {"type": "hologram", "hologram": word},
    "audio": lambda word: {"audio": f"{word}.wav"},
    "unknown": lambda word: {"type": f"555-0100 {word}"},
}
PDFS: dict[str, Callable[[str], Any]] = {  # of base64
    "openai": lambda data: {
        "type": "file",
        "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{data}"},
    },
    "responses": lambda data: {
        "type": "input_file",
        "filename": "a.pdf",
        "file_data": f"data:application/pdf;base64,{data}",
    },
    "anthropic": lambda data: {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": data},
    },
    "gemini": lambda data: {"inline_data": {"mime_type": "application/pdf", "data": data}},
    "vercel": lambda data: {"type": "file", "mediaType": "application/pdf", "data": data},
    "langchain": lambda data: {"type": "file", "base64": data, "mime_type": "application/pdf"},
    "media": lambda data: {"type": "media", "mime_type": "application/pdf", "data": data},
    "bare": lambda data: {"type": "file", "file": {"filename": "a.PDF", "file_data": data}},
}
SPELLED_ADDRESSES: dict[str, Callable[[str], str]] = {  # of base64
    "plain": lambda data: f"data:image/png;base64,{data}",
    "upper": lambda data: f"DATA:IMAGE/PNG;BASE64,{data}",
    "blanks": lambda data: f" data: image/png ; base64 , {data} ",
    "wrapped": lambda data: "data:image/png;base64,\r\n" + "\r\n".join(re.findall(".{1,76}", data)),
    "unpadded": lambda data: f"data:image/png;base64,{data.rstrip('=')}",
    "url-safe": lambda data: f"data:image/png;base64,{data.replace('+', '-').replace('/', '_')}",
    "escaped": lambda data: "data:image/png;base64," + "".join(f"%{ord(c):02x}" if c in "+/=A" else c for c in data),
    "parameters": lambda data: f"data:image/png;name=a.png;charset=utf-8;base64,{data}",
    "no type": lambda data: f"data:;base64,{data}",
    "no flag": lambda data: f"data:image/png,{data}",
    "bytes": lambda data: "data:image/png," + "".join(f"%{byte:02X}" for byte in base64.b64decode(data)),
}


class Drawn:
    """One row, with the words of its parts in order."""

    def __init__(self, seed: int) -> None:
        self._rng, self._number = random.Random(seed), 0
        self.others: list[str] = []
        """Kinds of the parts that are named only."""
        self.row: Row = self._row()

    def _word(self, letter: str) -> str:
        self._number += 1
        return f"{letter}{self._number}"

    def _text(self) -> Any:
        return self._rng.choice(TEXTS)(f"{self._word('t')} is said")

    def _picture(self) -> Any:
        where = f"pics/{self._word('p')}.png"
        return PICTURES[self._rng.choice(list(PICTURES))](self._rng.choice((where, f"data:image/png,{where}")))

    def _other(self) -> Any:
        kind = self._rng.choice(list(OTHERS))
        self.others.append(kind)
        return OTHERS[kind](self._word("o"))

    def _question(self, standing: int) -> Row:
        """A user's message; `standing` parts stand for pictures of the row's column."""
        makers = [self._text, self._picture, self._other]
        parts = [self._rng.choice(makers)() for _ in range(self._rng.randint(0, 3))] + [self._text()]
        parts += [{"type": "image"} for _ in range(standing)]
        self._rng.shuffle(parts)
        return {"role": "user", "content": parts}

    def _answer(self) -> list[Row]:
        """An assistant's messages: a text, parts, a refusal, or what it says before and after it uses a tool."""
        said = f"{self._word('t')} is answered"
        form = self._rng.randrange(5)
        if form == 0:
            return [{"role": "assistant", "content": said}]
        if form == 1:
            return [{"role": "assistant", "content": [{"type": "thinking", "thinking": said}, self._text()]}]
        if form == 2:
            return [{"role": "assistant", "content": None, "refusal": said}]
        self.others += ["tool_call", "tool"] if form == 3 else ["tool_use", "tool_result"]
        call, result = self._word("o"), self._word("o")
        if form == 3:
            calls = [{"type": "function", "id": "1", "function": {"name": call, "arguments": "{}"}}]
            return [
                {"role": "assistant", "content": None, "tool_calls": calls},
                {"role": "tool", "tool_call_id": "1", "content": result},
                {"role": "assistant", "content": said},
            ]
        use = {"type": "tool_use", "id": "1", "name": call, "input": {}}
        return [
            {"role": "assistant", "content": [{"type": "text", "text": said}, use]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": result}]},
            {"role": "assistant", "content": [self._text()]},
        ]

    def _row(self) -> Row:
        rng, messages = self._rng, [{"role": "system", "content": "Be kind."}][: self._rng.randrange(2)]
        beside = rng.choice((0, 0, 1, 2))
        standing = rng.randint(0, beside)
        for turn in range(rng.randint(1, 3)):
            messages += [self._question(0 if turn else standing), *self._answer()]
        row: Row = {"messages": messages, "model": "x"}
        if beside:
            paths = [f"pics/{self._word('p')}.png" for _ in range(beside)]
            row["images"] = [rng.choice((path, {"bytes": None, "path": path})) for path in paths]
        if rng.random() < 0.3 and messages[-1]["role"] == "assistant":
            row["choices"] = [{"index": 0, "finish_reason": "stop", "message": messages.pop()}]
        return row

    def words(self, letter: str) -> list[str]:
        """The words of the parts of a kind, counted in the raw row."""
        return re.findall(rf"\b{letter}\d+\b", json.dumps(self.row))
