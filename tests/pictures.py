"""Pictures of the docs, made from a demo: `python -m tests.pictures DEMO [NAME …]` writes docs/pictures/NAME.webp.

Each is taken in light at two sizes: NAME.webp, and NAME-narrow.webp as on a telephone. Needs playwright and chromium.
"""

import io
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from tests.places import ROOT

FOLDER = ROOT / "docs" / "pictures"
SIZES = {"": (1280, 800), "-narrow": (390, 780)}
BYTES_MAX = 120_000
CURATE = [sys.executable, "-c", "from flows.commands import main; main()"]
Take = Callable[[Page, str], None]


@contextmanager
def _served(*arguments: object) -> Iterator[str]:
    """The link that a command prints while it serves."""
    command = [*CURATE, *map(str, arguments), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as started:
        printed = (re.search(r"http://\S+", line) for line in started.stdout or ())
        try:
            yield next(link for link in printed if link)[0]
        finally:
            started.terminate()


def _opens(path: str, first: str = "") -> Take:
    """Goes to a page of the explorer, and from there to the first link that `first` selects."""

    def take(page: Page, link: str) -> None:
        page.goto(link)
        page.goto(link.partition("?")[0] + path)
        if first:
            page.goto(page.locator(first).first.evaluate("link => link.href"))

    return take


def _asked(page: Page, link: str) -> None:
    """Asks the drawn models of the demo's arena, accepts its terms, and waits for the answers."""
    page.goto(link)
    box = page.locator("textarea").first
    box.fill("Which is larger, the red circle or the blue square? Say why.")
    box.press("Enter")
    page.get_by_role("button", name="Accept and send").click()
    page.wait_for_timeout(30_000)


def _report(page: Page, link: str) -> None:
    page.goto(link)


EXPLORER: dict[str, Take] = {
    "explorer": _opens(""),
    "battle": _opens("?kind=battle&reason=face", "main a[href*='items/']"),
    "topics": _opens("topics"),
    "review": _opens("review", "main a[href*='review/']"),
}


def _pictures(demo: Path, names: Sequence[str], folder: Path) -> Iterator[tuple[str, str, Take]]:
    """(name, address, what to do) of each wanted picture, while its page is served."""
    if wanted := {name: take for name, take in EXPLORER.items() if name in names}:
        with _served("review", "serve", "alarms", "failures", "--store", demo, "--reviewer", "ann") as link:
            yield from ((name, link, take) for name, take in wanted.items())
    if "report" in names:
        newest = max((demo / "releases").iterdir(), key=lambda release: release.stat().st_mtime)
        yield "report", (newest / "report" / "index.html").absolute().as_uri(), _report
    if "arena" in names:
        with _served("arena", "--demo", "--logs", folder / "logs", "--seed", "1") as link:
            yield "arena", link, _asked


def _keep(browser: Browser, name: str, link: str, take: Take) -> None:
    """Take a picture at each size, as WebP of at most `BYTES_MAX` bytes."""
    for suffix, (width, height) in SIZES.items():
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme="light")
        page = context.new_page()
        take(page, link)
        page.wait_for_timeout(2500)
        shot = Image.open(io.BytesIO(page.screenshot()))
        context.close()
        for quality in (85, 70, 50, 30):
            shot.save(file := FOLDER / f"{name}{suffix}.webp", quality=quality, method=6)
            if file.stat().st_size <= BYTES_MAX:
                break


def main(demo: Path, names: Sequence[str]) -> None:
    """Take the pictures."""
    FOLDER.mkdir(exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    arguments = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        for name, link, take in _pictures(demo, names, Path(folder)):
            _keep(browser, name, link, take)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or [*EXPLORER, "report", "arena"])
