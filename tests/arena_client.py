"""Visitors of a running arena who speak to it as its page does, without a browser."""

import json
import secrets
import threading

import httpx


class Visitor:
    """One tab: sends prompts in the tab "Battle", and votes."""

    def __init__(self, url: str):
        self.client = httpx.Client(base_url=url, timeout=30)
        self.client.get("/")
        config = self.client.get("/config").json()
        events = config["dependencies"]
        self._say = next(event["id"] for event in events if event["targets"][0][1] == "submit")
        self._vote = self._say + 2  # after "regenerate": left, right, tie, both bad
        places = {each["id"]: each["props"].get("elem_id") for each in config["components"]}
        self._pressed = {places.get(event["targets"][0][0]): event["id"] for event in events if event["targets"]}
        self._session = secrets.token_hex(5)
        self.told: list[dict] = []

    def say(self, text: str, accepted: bool = True, session: str | None = None) -> list[dict]:
        """Everything that the page is told until the answers have ended."""
        return self._send(self._say, [{"text": text, "files": []}, None, accepted], session)

    def told_first(self, text: str) -> tuple[str, int, int]:
        """What a page is told at once of its message: kind, place in the queue (0 is next), how many wait."""
        data = [{"text": text, "files": []}, None, True]
        body = {"data": data, "fn_index": self._say, "session_hash": self._session, "trigger_id": None}
        self.client.post("/gradio_api/queue/join", json=body).raise_for_status()
        with self.client.stream("GET", "/gradio_api/queue/data", params={"session_hash": self._session}) as stream:
            line = next(line for line in stream.iter_lines() if line.startswith("data:"))
        told = json.loads(line.removeprefix("data:"))
        return told["msg"], told.get("rank"), told.get("queue_size")

    def vote(self, which: int = 0, words: str = "", session: str | None = None) -> str:
        """What the page says of a vote once it has been cast."""
        self.told = self._send(self._vote + which, [None, [], words], session)
        return notice(self.told)

    def press(self, button: str, *values) -> list[dict]:
        """Everything that the page is told after a button with this id; the first value, a state, is the server's."""
        return self._send(self._pressed[button], [None, *values], None)

    def _send(self, event: int, data: list, session: str | None) -> list[dict]:
        session = session or self._session
        body = {"data": data, "fn_index": event, "session_hash": session, "event_data": None, "trigger_id": None}
        self.client.post("/gradio_api/queue/join", json=body).raise_for_status()
        told = []
        with self.client.stream("GET", "/gradio_api/queue/data", params={"session_hash": session}) as stream:
            for line in stream.iter_lines():
                if line.startswith("data:"):
                    told.append(json.loads(line.removeprefix("data:")))
                    if told[-1]["msg"] in ("process_completed", "close_stream"):
                        return told
        raise httpx.RemoteProtocolError("the stream ended early")


def notice(told: list[dict]) -> str:
    """The last line below the windows that the page was told; empty when there is none."""
    found = ""
    for message in told:
        for each in message.get("output", {}).get("data") or []:
            value = each.get("value") if isinstance(each, dict) else each
            if isinstance(value, str) and value and not value.startswith("<"):
                found = value
    return found


def battle_until_killed(url: str, visitors: int, votes_least: int, kill, start: int = 0) -> set[str]:
    """Battles of several visitors at once; `kill` is called once so many votes were acknowledged.

    Returns the prompts of all acknowledged votes, which no other `start` has.
    """
    acknowledged: set[str] = set()
    enough = threading.Event()

    def visit(number: int) -> None:
        try:
            for turn in range(100):
                visitor, prompt = Visitor(url), f"prompt {start} {number} {turn}"
                visitor.say(prompt)
                if visitor.vote(turn % 4).startswith("You voted"):
                    acknowledged.add(prompt)
                if len(acknowledged) >= votes_least:
                    enough.set()
        except (httpx.HTTPError, OSError):
            enough.set()

    threads = [threading.Thread(target=visit, args=(number,)) for number in range(visitors)]
    for thread in threads:
        thread.start()
    enough.wait(60)
    kill()
    for thread in threads:
        thread.join()
    return acknowledged
