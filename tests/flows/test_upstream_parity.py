"""Policy `upstream` decides every line as upstream's own cleaning would, on a drawn log and on real text-only lines."""

import os
import random
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from schemas.settings import Settings
from tasks.decide import policy_file
from tasks.decide.steps import decide_items
from tasks.lookup.funnel import SUPERSEDED, line_fates
from tasks.measure import SCREENING_TEXT_SIGNALS, Texts
from tasks.measure.run import measure_items
from tasks.measure.steps import signal_versions, texts_of
from tasks.providers import Providers
from tasks.tables import Store
from tests.tasks.ingest.logs import DAY, chat, ingested, state, vote, write
from tests.upstream_cleaner import (
    CURSORS,
    ERRORS,
    IDENTITY,
    INVALID,
    KEPT,
    NAMED,
    VOTES,
    battle_outcome,
    chat_outcome,
    is_text_only,
)

BESIDE = Path(__file__).parents[3] / "shared" / "data"
REAL = Path(os.environ.get("CURATE_TEST_DATA", BESIDE)) / "arena-logs" / "logs"
EXCLUDED = ["gpt-4-0613", "koala-13b"]
PLAIN = ["What is the capital of Peru?", "Lima.", "And of Chad?", "N'Djamena.", "Write a poem", "Roses are red.", " \n"]
MODELS = ["gpt-4", "bard", "koala-13b", "llava-34b", "qwen-vl"]
Records = list[dict[str, Any]]
Outcomes = dict[tuple[str, int], str]


def _text(draw: random.Random) -> str | None:
    """Mostly plain text; a tenth each of a word, an error or a cursor of upstream's, some in the middle of words."""
    found = draw.choice([IDENTITY, ERRORS, CURSORS, ["", None], *[PLAIN] * 16])
    text = draw.choice(found)
    if text is None or text == "" or draw.random() < 0.5:
        return text
    return draw.choice([f"un{text}ed.", text.upper(), f"See:\n{text}", text.title()])


def _sides(number: int, draw: random.Random) -> list[dict[str, Any]]:
    turns = draw.choice([1, 1, 2, 3])
    texts = [[_text(draw) for _ in range(2 * turns)] for _ in "ab"]
    names = [f"{number}a", f"{number}b"]
    return [state(name, *said, model_name=draw.choice(MODELS)) for name, said in zip(names, texts, strict=True)]


def _drawn_log(seed: int, votes: int = 300) -> Records:
    """Votes of every kind under every spelling of names, some of them cast twice, and direct chats."""
    draw, records = random.Random(seed), []
    for number in range(votes):
        left, right = _sides(number, draw)
        real = [left["model_name"], right["model_name"]]
        shown = [
            ["", ""],
            ["Model A", "Model B"],
            [f"<h3>Model {s}: {m}</h3>\n" for s, m in zip("AB", real, strict=True)],
        ]
        models = draw.choice([*shown[:2] * 4, real, ["", real[1]], ["other", real[1]]])
        records.append(vote(left, right, draw.choice(sorted(VOTES)), at=10.0 * number, models=models))
        if number % 20 == 0:
            records.append(vote(left, right, "tievote", at=10.0 * number + 1, models=models))
        said = [_text(draw) for _ in range(2 * draw.choice([1, 2]))]
        records.append(chat(f"{number}c", *said, at=10.0 * number + 2))
    return records


def _words_alone(record: dict[str, Any]) -> dict[str, Any]:
    """The record as a text arena would have logged it: the words of every turn without its pictures."""
    for each in record.get("states") or [record.get("state")]:
        for message in each["messages"] if isinstance(each, dict) and isinstance(each.get("messages"), list) else []:
            if isinstance(message, list) and len(message) == 2 and isinstance(message[1], list) and message[1]:
                message[1] = message[1][0]
    return record


def _real_log(words_alone: bool) -> Records:
    """What upstream can read of the real logs, in order of file and line; nothing of what a server flagged."""
    records = []
    for file in sorted(path for path in REAL.glob("*-conv.json") if "csam" not in path.name):
        for raw in file.read_bytes().split(b"\n"):
            try:
                record = orjson.loads(raw)
            except ValueError:
                continue
            if isinstance(record, dict) and b'has_csam_image": true' not in raw:
                record = _words_alone(record) if words_alone else record
                record.pop("images", None)
                if record.get("type") in VOTES | {"chat"} and is_text_only(record):
                    records.append(record)
    return records


def _decided(records: Records, folder: Path) -> Store:
    """The store after ingest, the one signal, and the decisions of the policy with an operator's list."""
    write(folder / "logs", DAY, *records)
    store = ingested(folder / "logs", folder / "store")
    _, make = SCREENING_TEXT_SIGNALS["upstream_words"]
    texts = texts_of(store.read("conversations"))[Texts.MESSAGES]
    measure_items(
        store, make(Providers()), list(texts), lambda ids: [texts[i] for i in ids], workers=1, now=datetime.now(UTC)
    )
    shipped = Path(policy_file.__file__).parent / "policies" / "upstream.yaml"
    listed = yaml.safe_load(shipped.read_text(encoding="utf-8")) | {"excluded_models": EXCLUDED}
    (folder / "policy.yaml").write_text(yaml.safe_dump(listed), encoding="utf-8")
    settings = Settings(store=store.root, policy=str(folder / "policy.yaml"))
    decide_items.fn(settings, signal_versions(Providers()))
    return store


def _ours(store: Store) -> Outcomes:
    fates = line_fates(store).iter_rows(named=True)
    verdicts = {"kept": KEPT, "rejected": INVALID}
    return {(row["source"], row["line"]): verdicts.get(row["fate"], row["reason"]) for row in fates}


def _votes(records: Records, store: Store) -> Iterable[tuple[str, str]]:
    """(upstream's outcome, ours) of every vote that no later one replaced and whose conversations did not go on."""
    ours = _ours(store)
    final = {row["conversation_id"]: row["turns"] for row in store.read("conversations").iter_rows(named=True)}
    for number, record in enumerate(records, 1):
        outcome = ours[DAY, number]
        went_on = any(
            [text or "" for _, text in each["messages"][each["offset"] :]]
            != [turn["content"] for turn in final.get(each["conv_id"], [])]
            for each in record.get("states", [])
        )
        if record["type"] in VOTES and outcome != SUPERSEDED and (outcome == INVALID or not went_on):
            yield battle_outcome(_still_hidden(record), frozenset(EXCLUDED)), outcome


def _still_hidden(record: dict[str, Any]) -> dict[str, Any]:
    """Names revealed as a heading: upstream calls the battle named, although they were hidden until the vote."""
    revealed = all(name.startswith(("### Model ", "<h3>Model ")) for name in record["models"])
    return record | {"models": ["", ""]} if revealed else record


def _chats(records: Records, store: Store) -> tuple[set[str], set[str]]:
    """conv_ids whose last chat line upstream keeps, and those that we keep."""
    last = {record["state"]["conv_id"]: record for record in records if record["type"] == "chat"}
    kept = {name for name, record in last.items() if chat_outcome(record) == KEPT}
    decided = store.read("decisions").filter("keep", item_kind="conversation")["item_id"]
    return kept, set(decided) & last.keys()


@pytest.fixture(scope="module", params=[1, 2])
def drawn(request, tmp_path_factory):
    records = _drawn_log(request.param)
    return records, _decided(records, tmp_path_factory.mktemp("drawn"))


def test_every_drawn_vote_has_upstream_s_outcome(drawn):
    pairs = Counter(_votes(*drawn))
    assert {upstream for upstream, _ in pairs} == {
        *(KEPT, INVALID, NAMED, "empty_message", "leaked_identity", "service_error", "unfinished", "excluded_model")
    }
    assert all(upstream == ours for upstream, ours in pairs), pairs
    assert sum(pairs.values()) >= 300


def test_every_drawn_chat_has_upstream_s_outcome(drawn):
    theirs, ours = _chats(*drawn)
    assert ours == theirs and len(theirs) < 300
    said = {
        r["state"]["conv_id"]: [text for _, text in r["state"]["messages"]] for r in drawn[0] if r["type"] == "chat"
    }
    assert any("" in said[name] for name in ours) and any(None in texts for texts in said.values())


@pytest.mark.skipif(not REAL.is_dir(), reason="the arena logs are not on this machine")
@pytest.mark.parametrize("words_alone", [False, True], ids=["text-only lines", "the words of every line"])
def test_the_real_logs_have_upstream_s_counts(tmp_path, words_alone):
    records = _real_log(words_alone)
    store = _decided(records, tmp_path)
    pairs = Counter(_votes(records, store))
    assert all(upstream == ours for upstream, ours in pairs), pairs
    assert sum(pairs.values()) > (500 if words_alone else 50)
    theirs, ours = _chats(records, store)
    assert ours == theirs
