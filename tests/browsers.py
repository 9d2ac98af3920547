"""Browsers of this machine: Chromium, and Debian's Firefox, which playwright speaks WebDriver BiDi with.

Playwright asks for one command that this Firefox lacks, so it runs this module in place of the browser: a process that
starts Firefox, and passes on every message but that one.
"""

import asyncio
import re
import shlex
import shutil
import sys
from pathlib import Path

import orjson
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from tests.served_arena import ROOT

ENGINES = {
    "chromium": shutil.which("chromium") or shutil.which("chromium-browser"),
    "firefox": shutil.which("firefox-esr") or shutil.which("firefox"),
}
_ARGUMENTS = [
    "--no-sandbox",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost",
]
_SCHEME = "layout.css.prefers-color-scheme.content-override"
"""Firefox's setting of the colour scheme of pages; 0 is dark."""
_LACKS = "emulation.setMediaFeaturesOverride"


def launched(playwright, engine: str, folder: Path, dark: bool = False):
    """A browser that reaches this machine alone; `folder` gets the command that starts Firefox.

    `dark`: for Firefox, which takes no colour scheme later; pages of Chromium say it for themselves.
    """
    if engine == "chromium":
        return playwright.chromium.launch(executable_path=ENGINES[engine], args=_ARGUMENTS)
    command = folder / "firefox"
    here = shlex.join(["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "tests.browsers"])
    command.write_text(f'#!/bin/sh\nexec {here} "$@"\n')
    command.chmod(0o700)
    looks = {_SCHEME: 0} if dark else {}
    return playwright.firefox.launch(channel="moz-firefox", executable_path=command, firefox_user_prefs=looks)


async def _between(client: ServerConnection, browser: str) -> None:
    """Messages of one session in both directions."""
    async with connect(f"{browser}{client.request.path}", max_size=None) as far:

        async def back() -> None:
            async for message in far:
                await client.send(message)

        answering = asyncio.create_task(back())
        async for message in client:
            asked = orjson.loads(message)
            if asked["method"] == _LACKS:
                await client.send(orjson.dumps({"type": "success", "id": asked["id"], "result": {}}).decode())
            else:
                await far.send(message)
        answering.cancel()


async def _main() -> None:
    process = await asyncio.create_subprocess_exec(
        ENGINES["firefox"] or "", *sys.argv[1:], stderr=asyncio.subprocess.PIPE
    )
    async for line in process.stderr:
        if found := re.search(rb"WebDriver BiDi listening on (ws://\S+)", line):
            break
    async with serve(lambda client: _between(client, found[1].decode()), "127.0.0.1", 0, max_size=None) as server:
        port = server.sockets[0].getsockname()[1]
        sys.stderr.write(f"WebDriver BiDi listening on ws://127.0.0.1:{port}\n")  # what playwright waits for
        sys.stderr.flush()
        async for _ in process.stderr:
            pass
        await process.wait()


if __name__ == "__main__":
    asyncio.run(_main())
