"""Visitors of a running arena who speak to it as its page does, without a browser."""

import json
import threading

import httpx

VOTES = ("leftvote", "rightvote", "tievote", "bothbad_vote")


class Visitor:
    """One browser: sends prompts in battles, and votes."""

    def __init__(self, url: str, accepted: bool = True):
        self.client = httpx.Client(base_url=url, timeout=None, headers={"connection": "close"})
        self.client.get("/")
        if accepted:
            self.client.post("/terms").raise_for_status()
        self.number, self.answers = "", (0, 0)
        """The talk, and the answers that this browser shows last."""

    def say(self, text: str, **more) -> list[dict]:
        """Everything that the page is told until the answers have ended, or the refusal."""
        said = {"mode": "battle", "text": text, "number": self.number, "answers": self.answers} | more
        told = self.client.post("/say", json=said).json()
        if "refused" in told:
            return [told]
        self.number, self.answers = told["number"], told["answers"]
        return [told, *self.listen()]

    def listen(self) -> list[dict]:
        """The events of the answers that are coming; the last one shows the whole conversation."""
        with self.client.stream("GET", f"/c/{self.number}/events") as stream:
            lines = [line.removeprefix("data: ") for line in stream.iter_lines() if line.startswith("data: ")]
        return [json.loads(line) for line in lines]

    def act(self, what: str, **values) -> dict:
        """What the page is told of an action on the conversation."""
        told = self.client.post(f"/c/{self.number}/{what}", json={"answers": self.answers} | values).json()
        self.answers = told.get("answers", self.answers)
        return told

    def vote(self, which: int = 0, words: str = "") -> str:
        """What the page says of a vote once it has been cast, with its reason."""
        told = self.act("vote", kind=VOTES[which])
        if words:
            self.act("reason", words=words)
        return told.get("refused") or told["notice"]


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
                told = visitor.say(prompt)
                if "messages" in told[-1] and visitor.vote(turn % 4).startswith("You voted"):
                    acknowledged.add(prompt)
                if len(acknowledged) >= votes_least:
                    enough.set()
        except (httpx.HTTPError, OSError):
            pass
        finally:
            enough.set()

    threads = [threading.Thread(target=visit, args=(number,)) for number in range(visitors)]
    for thread in threads:
        thread.start()
    enough.wait()
    kill()
    for thread in threads:
        thread.join()
    return acknowledged
