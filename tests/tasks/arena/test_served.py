"""The arena as a process in front of an OpenAI-compatible server: over HTTP, in Chromium, killed, and curated.

What needs a browser is skipped where no Chromium is on the PATH.
"""

import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import httpx
import PIL.Image
import pytest

from tasks.arena.answers import Counts
from tasks.storage.tables import Store
from tests.arena_client import Visitor, battle_until_killed, notice
from tests.built_arena import image_file
from tests.chat_server import HOSTILE
from tests.voted_store import voted

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ANN_KEY = "the key of an annotator"
CROWD = {"model_a": "left", "model_b": "right", "tie": "tie", "tie_bothbad": "both bad"}
NAMES = ("good-model", "hostile-model-7b")
ROOT = Path(__file__).parents[3]


def models_file(file: Path, port: int, names: tuple[str, ...]) -> Path:
    rows = [{"name": name, "base_url": f"http://127.0.0.1:{port}/v1", "vision": True} for name in names]
    file.write_text(json.dumps({"models": rows}))  # JSON is YAML
    return file


def free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return opened.getsockname()[1]


def curate(*arguments: str, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", "from flows.commands import main; main()", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, **options)


class Served:
    """The arena's process."""

    def __init__(self, folder: Path, models: Path, *more: str, **keys: str):
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        options = ["--models", models, "--logs", folder, "--presets", folder.parent / "presets", "--no-browser"]
        command = ["-c", "from flows.commands import main; main()", "arena", *options, "--board", "live", *more]
        self.temporary = folder.parent / f"{folder.name}-temporary"
        self.temporary.mkdir(exist_ok=True)  # the arena is started again
        self.process = subprocess.Popen(
            [sys.executable, *map(str, command), "--port", str(self.port)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": str(self.temporary), "ANN_KEY": ANN_KEY} | keys,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == f"{self.url}/"
        for _ in range(300):
            try:
                if httpx.get(f"{self.url}/health", timeout=5).status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.1)
        raise AssertionError("the arena does not answer")

    def kill(self, how: int = signal.SIGKILL):
        self.process.send_signal(how)
        self.process.wait()
        self.process.stdout.close()

    def end(self):
        """As a service manager ends it; what was uploaded and not sent is gone then."""
        if self.process.poll() is None:
            self.kill(signal.SIGTERM)
            assert not list(self.temporary.rglob("arena-*"))


@pytest.fixture(scope="module")
def chat_port():
    """A server of models."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "tests.chat_server", str(port)], cwd=ROOT)
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            time.sleep(0.1)
    yield port
    process.kill()
    process.wait()


@pytest.fixture(scope="module")
def place(tmp_path_factory, chat_port) -> Path:
    """A folder with a models file and one example image."""
    folder = tmp_path_factory.mktemp("arena")
    models_file(folder / "models.yaml", chat_port, NAMES)
    (folder / "presets").mkdir()
    (folder / "presets" / "chart_0.png").write_bytes(image_file(seed=9))
    (folder / "presets" / "presets.json").write_text(json.dumps([{"dataset": "Charts", "path": "chart_0.png"}]))
    return folder


@pytest.fixture(scope="module")
def served(place):
    """The running arena."""
    store = voted(place / "tasks")
    tasks = {"store": store.root, "lists": ["sheet"], "overlap": 1, "annotators": {"Ann": "ANN_KEY"}}
    (place / "tasks.yaml").write_text(json.dumps(tasks))
    running = Served(place / "logs", place / "models.yaml", "--tasks", place / "tasks.yaml")
    yield running
    running.end()


def test_each_model_is_asked_once_and_those_that_fail_are_named(chat_port, tmp_path):
    broken = models_file(tmp_path / "broken.yaml", chat_port, ("broken-model", "half-model", *NAMES))
    refused = curate("arena", "--models", str(broken), "--check")
    assert refused.returncode == 2 and refused.stdout.count("first word after") == 2, refused.stderr
    assert refused.stderr == "curate: 2 of 4 models do not answer: broken-model, half-model\n"
    assert "secret" not in refused.stdout + refused.stderr


def test_only_what_the_page_uses_is_served_and_files_are_their_owners(served):
    with httpx.Client(base_url=served.url) as visitor:
        page = visitor.get("/")
        policy = page.headers["content-security-policy"]
        assert "unsafe-eval" not in policy and "script-src 'self' 'nonce-" in policy and "img-src 'self';" in policy
        assert "HttpOnly" in page.headers["set-cookie"] and "unsafe-inline" not in policy.partition("style-src")[0]
        assert not any(event["api_visibility"] != "private" for event in visitor.get("/config").json()["dependencies"])
        exif = PIL.Image.Exif()
        exif[0x010F] = "maker"
        photo = image_file("JPEG", exif=exif)
        (path,) = visitor.post("/gradio_api/upload", files={"files": ("my holiday.jpg", photo)}).json()
        kept = visitor.get(f"/gradio_api/file={path}").content
        with PIL.Image.open(io.BytesIO(kept)) as image:
            assert image.format == "PNG" and b"maker" not in kept and "holiday" not in path
        assert len(visitor.post("/gradio_api/upload", files={"files": ("x.svg", b"<svg/>")}).json()) == 1
        files = [("files", (f"{number}.png", b"x")) for number in range(9)]
        assert visitor.post("/gradio_api/upload", files=files).status_code in (400, 413)
        logged = next(iter(served.folder.glob("*")), served.folder)
        for hidden in ("/gradio_api/call/vote", "/docs", "/gradio_api/proxy=http://192.0.2.1/", "/monitoring"):
            assert visitor.get(hidden).status_code == 404, hidden
        for place in (logged.resolve(), "/etc/passwd", "http://192.0.2.1/a.png"):
            assert visitor.get(f"/gradio_api/file={place}").status_code == 404, place
        visitor.cookies.clear()
        assert visitor.get(f"/gradio_api/file={path}").status_code == 404, "of another browser's upload"
        assert visitor.post("/gradio_api/upload", files={"files": ("a.jpg", photo)}).status_code == 403


FORGED = [
    {"host": "evil.test"},
    {"host": "evil.test:80", "origin": "http://evil.test:80"},
    {"origin": "https://evil.test"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
    {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
]


@pytest.mark.parametrize("forged", FORGED, ids=str)
def test_no_route_answers_a_page_of_another_site_or_another_host_name(served, forged):
    with httpx.Client(base_url=served.url, headers=forged) as client:
        for path in ("/", "/config", "/health", "/gradio_api/queue/data?session_hash=x", "/gradio_api/file=x"):
            assert client.get(path).status_code == 403, path
        for path in ("/gradio_api/queue/join", "/gradio_api/upload", "/gradio_api/reset"):
            assert client.post(path, json={}).status_code == 403, path
    own = {"origin": served.url, "sec-fetch-site": "same-origin"}
    assert httpx.get(f"{served.url}/health", headers=own).status_code == 200
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert httpx.get(served.url, headers=link).status_code == 200, "a link may be followed"


def test_a_file_or_an_event_that_is_too_large_is_refused_before_it_is_kept(served):
    with httpx.Client(base_url=served.url, timeout=60) as visitor:
        visitor.get("/")
        large = {"files": ("a.png", b"x" * (20 * 1024 * 1024 + 1))}
        assert visitor.post("/gradio_api/upload", files=large).status_code == 413
        assert visitor.post("/gradio_api/queue/join", content=b"x" * (1024 * 1024 + 1)).status_code == 413
        pieces = (b"x" * 65536 for _ in range(20))
        assert visitor.post("/gradio_api/queue/join", content=pieces).status_code == 400, "of unsaid length"


def test_a_session_belongs_to_its_browser_and_names_are_nowhere_before_the_vote(served):
    mine, other = Visitor(served.url), Visitor(served.url)
    assert "accept the terms" in notice(mine.say("Hello", accepted=False))
    told = json.dumps(mine.say("Hello"))
    assert not any(name in told for name in NAMES) and "(name hidden)" in told
    forged = other.vote(session=mine._session)
    assert "another browser" in forged and "Hello" not in json.dumps(other.told)
    said = mine.vote(words="x" * 600)
    assert said.startswith("You voted: A is better.") and all(name in said for name in NAMES)
    again = mine.vote(1)
    assert again.startswith("You voted: A is better."), "the first vote stands"
    tab = Visitor(served.url)
    tab.client.cookies = mine.client.cookies
    assert tab.vote() == "", "a second tab, or the page after a reload, has no conversation to vote on"
    assert tab.vote(2, session=mine._session).startswith("You voted: A is better."), "nor does a replay count"
    health = httpx.get(f"{served.url}/health").json()
    assert set(health) == {"status", "logs_writable", "models", "answers_coming", *vars(Counts())}
    assert (health["votes"], health["messages"], health["models"]) == (1, 1, {"answering": 2, "down": 0})
    assert all(isinstance(each, str | int) for each in health.values() if each is not health["models"])


def test_who_waits_for_others_is_told_the_place_in_the_queue(place, chat_port):
    models = models_file(place / "slow.yaml", chat_port, ("slow-model", "good-model"))
    running = Served(place / "slow", models, "--set", "answers_at_once=1")
    try:
        first, second = Visitor(running.url), Visitor(running.url)

        def until_killed():
            with suppress(httpx.HTTPError):
                first.say("Hello")

        busy = threading.Thread(target=until_killed)
        busy.start()
        until = time.monotonic() + 20
        while httpx.get(f"{running.url}/health").json()["answers_coming"] == 0 and time.monotonic() < until:
            time.sleep(0.05)
        assert second.told_first("And me?") == ("estimation", 0, 1), "the next of one who waits"
    finally:
        running.kill()
        busy.join()


def test_an_annotator_needs_a_key_and_gets_images_and_texts_without_models(served):
    annotator = Visitor(served.url)
    nobody = json.dumps(annotator.press("task-begin", "a wrong key", "sheet"))
    assert "No annotator has this key" in nobody and "Prompt" not in nobody
    told = json.dumps(annotator.press("task-begin", ANN_KEY, "sheet"))
    assert "6 left for you" in told and "Which answer is better?" in told and "=left" in told
    assert not re.search(r"\b(ant|bee|cat)\b", told)
    image = annotator.client.get("/" + re.search(r"pictures/[\w-]{24}\.png", told)[0])
    assert image.status_code == 200 and PIL.Image.open(io.BytesIO(image.content)).format == "PNG"
    assert "5 left for you" in json.dumps(annotator.press("task-save", "tie", []))


def test_what_annotators_say_over_http_outlives_a_kill_and_gives_the_exact_agreement(place, tmp_path):
    store = voted(tmp_path / "store")
    keys = {"Ann": ANN_KEY, "Bob": "the key of another annotator"}
    tasks = {"store": store.root, "lists": ["sheet"], "annotators": {"Ann": "ANN_KEY", "Bob": "BOB_KEY"}}
    (tmp_path / "tasks.yaml").write_text(json.dumps(tasks))
    winners = {row["battle_id"]: row["winner"] for row in store.read("battles").to_dicts()}
    differs = {"Ann": {"b0": "right"}, "Bob": {"b2": "left", "b3": "tie"}}  # from the crowd; sides as visitors saw them

    def serve(name: str) -> Served:
        return Served(place / name, place / "models.yaml", "--tasks", tmp_path / "tasks.yaml", BOB_KEY=keys["Bob"])

    def annotate(url: str, who: str, items: int) -> int:
        """Say what is planted of so many items; how many were left before."""
        visitor = Visitor(url)
        told = json.dumps(visitor.press("task-begin", keys[who], "sheet"))
        left = int(re.search(r"(\d+) left for you", told)[1])
        for _ in range(items):
            number = re.search(r"Prompt (\d)\?", told)[1]
            crowd = CROWD[winners[f"b{number}"]]
            said = differs[who].get(f"b{number}", crowd)
            if told.index("Right " + number) < told.index("=left " + number):  # the sides are exchanged
                said = {"left": "right", "right": "left"}.get(said, said)
            told = json.dumps(visitor.press("task-save", said, []))
            assert "left for you" in told
        return left

    first = serve("tasks-first")
    try:
        assert (annotate(first.url, "Ann", 6), annotate(first.url, "Bob", 2)) == (6, 6)
    finally:
        first.kill()
    again = serve("tasks-again")
    try:
        assert annotate(again.url, "Bob", 4) == 4, "what was acknowledged is not asked again"
    finally:
        again.end()
    done = curate("review", "results", "battles", "--store", str(store.root), "--json")
    assert done.returncode == 0, done.stderr
    found = {(row["a"], row["b"]): row for row in map(json.loads, done.stdout.splitlines()) if "a" in row}
    assert {who: row["accuracy"] for who, row in found.items()} == pytest.approx(
        {("people", "Ann"): 5 / 6, ("people", "Bob"): 4 / 6, ("Ann", "Bob"): 3 / 6}
    )
    assert {who: row["kappa"] for who, row in found.items()} == pytest.approx(  # (36 agreed - chance) / (36 - chance)
        {("people", "Ann"): 20 / 26, ("people", "Bob"): 10 / 22, ("Ann", "Bob"): 7 / 25}
    )


def test_a_hundred_sessions_lose_no_vote_while_the_arena_is_killed_and_restarted_twice(place):
    acknowledged: set[str] = set()
    for start in range(3):
        fast = ("--set", "messages_per_minute=10000", "--set", "log_addresses=yes")
        killed = Served(place / "killed", place / "models.yaml", *fast)
        found = battle_until_killed(killed.url, visitors=12, votes_least=34, kill=killed.kill, start=start)
        assert len(found) >= 34
        acknowledged |= found
    assert len(acknowledged) >= 100
    whole, halves = [], 0
    for line in logged(killed.folder).splitlines():
        try:
            whole.append(json.loads(line))
        except ValueError:
            halves += 1
    voted = [record["states"][0]["messages"][0][1] for record in whole if "states" in record]
    assert {record["ip"] for record in whole} == {"127.0.0.1"}, "as log_addresses wants it"
    assert halves <= 3, "at each kill at most the last line is half"
    assert acknowledged <= set(voted) and len(voted) == len(set(voted))
    store = place / "killed-store"
    done = curate("ingest", "--logs", str(killed.folder), "--store", str(store))
    assert done.returncode == 0, done.stderr
    opened = Store.existing(str(store))
    assert opened.read("rejects").height == halves and opened.read("battles").height == len(voted)


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the PATH: the page was not opened in a browser")
def test_battles_in_a_browser_are_logged_and_curated_without_a_reject(served, place):
    api = pytest.importorskip("playwright.sync_api")
    api.expect.set_options(timeout=30_000)
    wrong: list[str] = []
    refused = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", refused])
        page = browser.new_context(viewport={"width": 1280, "height": 1300}).new_page()
        page.on("request", lambda asked: asked.url.startswith(served.url) or wrong.append(asked.url))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(served.url)
        page.check("#accepted input")
        page.get_by_role("button", name="Random image").first.click()
        page.locator(".waiting img").first.wait_for()
        say(page, "What is this? ``` <div style='position:fixed'></div> <script>window.ran = 1</script>")
        page.get_by_text("x2", exact=False).first.wait_for()  # the formula of the last words, rendered
        api.expect(page.get_by_role("button", name="Regenerate").first).to_be_enabled()
        button = page.get_by_role("button", name="Both are bad")
        api.expect(button).to_be_enabled()
        assert not any(name in page.locator("body").inner_text() for name in NAMES)
        page.get_by_text("Why? (optional").first.click()
        page.get_by_label("Made something up").first.check()
        button.click()
        page.get_by_text("You voted: both are bad.").wait_for()
        body = page.locator("body").inner_text()
        assert all(name in body for name in NAMES)
        keep(page, "arena")
        page.set_input_files("input[type=file] >> nth=0", {"name": "a.png", "mimeType": "", "buffer": image_file()})
        page.get_by_role("button", name="New round").first.click()
        say(page, "And this?")
        api.expect(page.get_by_role("button", name="Regenerate").first).to_be_enabled()  # both answers have ended
        page.get_by_role("button", name="A is better").click()
        page.get_by_text("You voted: A is better.").wait_for()
        page.get_by_role("tab", name="Leaderboard").click()
        page.get_by_text("good-model").last.wait_for()
        votes = httpx.get(f"{served.url}/health").json()["votes"]
        api.expect(page.locator("#board-votes")).to_have_text(f"{votes} votes on 2 models")
        keep(page, "arena-board")
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") == 390, "a phone need not scroll sideways"
        assert (
            page.evaluate("window.ran") is None
            and page.locator(".message iframe, .message form, .message div[style*=fixed]").count() == 0
        )
        weight = page.evaluate("performance.getEntriesByType('resource').reduce((sum, r) => sum + r.transferSize, 0)")
        browser.close()
    assert wrong == [] and weight < 1_000_000
    served.end()
    check_logged(served.folder)
    store = place / "store"
    done = curate("ingest", "--logs", str(served.folder), "--presets", str(place / "presets"), "--store", str(store))
    assert done.returncode == 0, done.stderr
    tables = {
        name: Store.existing(str(store)).read(name) for name in ("conversations", "battles", "rejects", "presets")
    }
    assert tables["rejects"].is_empty() and tables["conversations"].height == 6
    assert "Made something up" in tables["battles"]["vote_reason"].to_list()
    assert tables["battles"]["vote_reason"].str.len_chars().max() == 500
    assert tables["battles"]["winner"].sort().to_list() == ["model_a", "model_a", "tie_bothbad"]
    preset = tables["presets"]["image_id"].item()
    assert sum(preset in images for images in tables["conversations"]["image_ids"]) == 2


def say(page, text: str) -> None:
    box = page.locator("textarea[data-testid=textbox]").locator("visible=true").last
    box.fill(text)
    box.press("Enter")


def keep(page, name: str) -> None:
    """Keep an image of a page in the folder that CURATE_TEST_SCREENSHOTS names."""
    if folder := os.environ.get("CURATE_TEST_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png")


def logged(folder: Path) -> bytes:
    """All lines: of one day, and of a second one where midnight UTC came in between."""
    return b"".join(file.read_bytes() for file in sorted(folder.glob("vision-tmp-*-conv.json")))


def check_logged(folder: Path) -> None:
    """Every line is whole, and what the hostile model said is there word for word, flagged for its name."""
    records = [json.loads(line) for line in logged(folder).splitlines()]
    said = [each for each in records if each.get("model") == "hostile-model-7b"]
    assert said and all(each["state"]["messages"][-1][1] == HOSTILE and each["arena"]["names_itself"] for each in said)
    assert b"127.0.0.1" not in logged(folder)
