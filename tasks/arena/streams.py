"""The page's streams of events, and those that end while the page sends its next event.

Gradio's server ends a tab's stream with the last event that is pending. Its page opens the next stream when an event is
sent while it knows of none. An event that the server takes after the end of a stream, and whose answer the page reads
before that end, would stay without one: its message would be answered, and nobody would see it until another button is
pressed. So the answer to such an event waits until the page has surely read the end.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import MutableMapping
from typing import Any

END_READ_SECONDS = 0.2
"""After this time a page has read the end of its stream; on two busy cores it took up to 0.03 s."""
_EVENT, _STREAM = "/gradio_api/queue/join", "/gradio_api/queue/data"
_END = b'"msg":"close_stream"'
"""Quotes within a message's own text are escaped, so no visitor and no model can say this."""
_BROWSERS_MAX = 10_000


class Streams:
    """When the streams of each browser ended last."""

    def __init__(self) -> None:
        self._ended: OrderedDict[str, float] = OrderedDict()

    async def before(self, path: str, browser: str, message: MutableMapping[str, Any]) -> None:
        """To be awaited before a part of a response is sent; `browser` is the fingerprint of its cookie."""
        if path == _STREAM and _END in message.get("body", b""):
            self._ended[browser] = time.monotonic()
            self._ended.move_to_end(browser)
            while len(self._ended) > _BROWSERS_MAX:
                self._ended.popitem(last=False)
        elif path == _EVENT and message["type"] == "http.response.start" and browser in self._ended:
            await asyncio.sleep(max(0.0, self._ended[browser] + END_READ_SECONDS - time.monotonic()))
