"""What visitors and annotators said outlives a kill of the arena."""

import json
import os
import re

import httpx
import pytest

from tests.arena_client import battle_until_killed
from tests.served_arena import ANN_KEY, Served, hidden, logged
from tests.tasks.ingest.logs import ingested
from tests.voted_store import voted

KILLS = int(os.environ.get("CURATE_KILLS", "2"))
CROWD = {"model_a": "left", "model_b": "right", "tie": "tie", "tie_bothbad": "both bad"}


def test_what_annotators_say_over_http_outlives_a_kill_and_gives_the_exact_agreement(place, tmp_path, curate):
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
        with httpx.Client(base_url=url, follow_redirects=True, timeout=None) as visitor:
            page = visitor.post("/tasks", data={"key": keys[who], "list": "sheet"}).text
            left = int(re.search(r"(\d+) left for you", page)[1])
            for _ in range(items):
                number = re.search(r"Prompt (\d)\?", page)[1]
                crowd = CROWD[winners[f"b{number}"]]
                said = differs[who].get(f"b{number}", crowd)
                if page.index("Right " + number) < page.index("=left " + number):  # the sides are exchanged
                    said = {"left": "right", "right": "left"}.get(said, said)
                page = visitor.post("/tasks/sheet", data=hidden(page) | {"verdict": said}).text
                assert "left for you" in page
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
    status, out, err = curate("review", "results", "battles", "--store", store.root, "--json")
    assert status == 0, err
    found = {(row["a"], row["b"]): row for row in map(json.loads, out.splitlines()) if "a" in row}
    assert {who: row["accuracy"] for who, row in found.items()} == pytest.approx(
        {("people", "Ann"): 5 / 6, ("people", "Bob"): 4 / 6, ("Ann", "Bob"): 3 / 6}
    )
    assert {who: row["kappa"] for who, row in found.items()} == pytest.approx(  # (36 agreed - chance) / (36 - chance)
        {("people", "Ann"): 20 / 26, ("people", "Bob"): 10 / 22, ("Ann", "Bob"): 7 / 25}
    )


def test_a_hundred_sessions_lose_no_vote_while_the_arena_is_killed_and_restarted(place):
    acknowledged: set[str] = set()
    for start in range(KILLS):
        fast = ("--set", "messages_per_minute=10000", "--set", "log_addresses=yes")
        killed = Served(place / "killed", place / "models.yaml", *fast)
        least = -(-100 // KILLS)
        found = battle_until_killed(killed.url, visitors=12, votes_least=least, kill=killed.kill, start=start)
        assert len(found) >= least
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
    assert halves <= KILLS, "at each kill at most the last line is half"
    assert acknowledged <= set(voted) and len(voted) == len(set(voted))
    store = ingested(killed.folder, place / "killed-store")
    assert store.read("rejects").height == halves and store.read("battles").height == len(voted)
