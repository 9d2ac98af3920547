"""Policy `upstream` decides every line as upstream's own cleaning would, on a drawn log and on real text-only lines."""

import random
from collections import Counter
from typing import Any

import pytest

from benchmarks.upstream_cleaner import CURSORS, ERRORS, IDENTITY, INVALID, KEPT, NAMED, VOTES
from benchmarks.upstream_parity import chat_outcomes, decided, parity_rows, text_only_records, vote_outcomes
from tests.places import DATA, needs_data
from tests.tasks.ingest.logs import chat, state, vote

REAL = DATA / "arena-logs" / "logs"
EXCLUDED = ["gpt-4-0613", "koala-13b"]
PLAIN = ["What is the capital of Peru?", "Lima.", "And of Chad?", "N'Djamena.", "Write a poem", "Roses are red.", " \n"]
MODELS = ["gpt-4", "bard", "koala-13b", "llava-34b", "qwen-vl"]
Records = list[dict[str, Any]]


def _text(draw: random.Random) -> str | None:
    """Mostly plain text; sometimes an identity word, error text or cursor of upstream, also inside other words."""
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
    """Votes of every kind with every spelling of names, some cast twice, and direct chats."""
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


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    records = _drawn_log(1)
    return records, decided(records, tmp_path_factory.mktemp("drawn"), EXCLUDED)


def test_every_drawn_vote_and_chat_has_upstreams_outcome(drawn):
    pairs = Counter(vote_outcomes(*drawn, EXCLUDED))
    assert {upstream for upstream, _ in pairs} == {
        *(KEPT, INVALID, NAMED, "empty_message", "leaked_identity", "service_error", "unfinished", "excluded_model")
    }
    assert all(upstream == ours for upstream, ours in pairs), pairs
    assert sum(pairs.values()) >= 300
    pairs = Counter(chat_outcomes(*drawn))
    assert set(pairs) == {(KEPT, KEPT), ("dropped", "dropped")}, pairs
    said = [[text for _, text in r["state"]["messages"]] for r in drawn[0] if r["type"] == "chat"]
    assert any("" in texts and None not in texts for texts in said) and any(None in texts for texts in said)


@needs_data
@pytest.mark.parametrize("words_alone", [False, True], ids=["text-only lines", "the words of every line"])
def test_the_real_logs_have_upstream_s_counts(tmp_path, words_alone):
    records = text_only_records(REAL, words_alone)
    store = decided(records, tmp_path, EXCLUDED)
    rows = parity_rows(vote_outcomes(records, store, EXCLUDED), chat_outcomes(records, store))
    assert all(theirs == ours == both for *_, theirs, ours, both in rows), rows
    assert sum(theirs for kind, _, theirs, *_ in rows if kind == "vote") > (500 if words_alone else 50)
