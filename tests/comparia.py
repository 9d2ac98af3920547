"""Rows as compar:IA's exporters write them, drawn by rule with a seed; all names and texts are invented.

`new_set(seed, comparisons)` is the set of a row a turn, as `comparison_to_turns` of utils/dataset/compute.py at 420cb1e
flattens a comparison; with `raw` it has the marks of the raw export. Each column that may be null is null once.
"""

import random
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

Row = dict[str, Any]

CHOICES = ("a_better", "b_better", "both_good", "both_bad", "idk", None)
MODELS = ("heron-2", "wren-1", "kite-9b")
KEPT_MARKS = {
    "cohorts": None,
    "error": None,
    "llm_analyzed": True,
    "contains_pii": False,
    "contains_spam": False,
    "archived": False,
    "archived_reason": None,
    "archived_at": None,
}
NULLABLE = ("time_to_vote", "categories", "languages", "short_summary", "custom_models_selection", "tokens_a")
"""Fields of `metadata` that may be null."""
_FOOD = ("worms", "fish", "seeds")
_BIRDS = ("avocet", "bittern", "curlew", "dunlin", "egret", "fulmar", "gannet", "hobby", "ibis", "jackdaw", "knot")


def new_set(seed: int = 7, comparisons: int = 12, raw: bool = False) -> list[Row]:
    """All turns of some comparisons, in order. Choices, numbers of turns, searches and nulls follow from the seed."""
    rng = random.Random(seed)
    rows: list[Row] = []
    for number in range(comparisons):
        rows += comparison(rng, number, turns=1 + number % 3, raw=raw)
    return rows


def comparison(rng: random.Random, number: int, turns: int, raw: bool = False, **changes: Any) -> list[Row]:
    """The rows of one comparison; `changes` are of all of them."""
    comparison_id = str(UUID(int=rng.getrandbits(128), version=4))
    models = rng.sample(MODELS, 2)
    has_instruction = number % 4 == 0
    system = [{"role": "system", "content": "Answer in one sentence."}] if has_instruction else []
    full: dict[str, list[Row]] = {"a": list(system), "b": list(system)}
    partial: list[Row] = []
    for turn in range(turns):
        bird = _BIRDS[rng.randrange(len(_BIRDS))]
        typed = f"Question {number}.{turn}: how does the {bird} find its food in a cold winter?"
        searched = number % 5 == 4
        content = f"{typed}\n\nWeb: a page about the {bird}" if searched else typed
        user = {"role": "user", "content": content, "user_content": typed}
        answers = {
            side: {
                "content": f"Answer {side} {number}.{turn}: the {bird} looks for {rng.choice(_FOOD)}.",
                "reasoning_content": f"Thought {side} {number}.{turn}." if number % 6 == 5 else None,
                "role": "assistant",
            }
            for side in "ab"
        }
        for side in "ab":
            full[side] += [user, answers[side]]
        choice = CHOICES[(number + turn) % len(CHOICES)]
        partial.append(
            {
                "response_id": str(UUID(int=rng.getrandbits(128), version=4)),
                "choice": choice,
                "response_a": [user, answers["a"]],
                "response_b": [user, answers["b"]],
                "turn": turn,
                "metadata": {
                    "tokens_a": 12,
                    "tokens_b": 14,
                    "conso_a": 0.001,
                    "conso_b": 0.002,
                    "duration_a": 1.5,
                    "duration_b": 1.25,
                    "latency_a": 0.5,
                    "latency_b": 0.25,
                    "time_to_vote": None if choice is None else round(rng.uniform(2, 60), 3),
                    "mode": "random",
                    "custom_models_selection": [],
                    "categories": ["Natural Science & Formal Science & Technology"],
                    "languages": ["en"],
                    "short_summary": "How a bird eats.",
                    "participation_terms_version": "legacy-pre-versioning",
                    "total_tokens_a": 12 * turns,
                    "total_tokens_b": 14 * turns,
                    "total_conso_a": 0.001 * turns,
                    "total_conso_b": 0.002 * turns,
                },
            }
        )
    if number < len(NULLABLE):
        partial[0]["metadata"][NULLABLE[number]] = None
    marks = {"excluded": False, "extra_metadata": dict(KEPT_MARKS)} if raw else {}
    shared = {
        "comparison_id": comparison_id,
        "model_a": models[0],
        "model_b": models[1],
        "timestamp": datetime(2026, 1, 5, 9, tzinfo=UTC) + timedelta(hours=number),
        "full_conversation_a": full["a"],
        "full_conversation_b": full["b"],
    }
    return [{**row, **shared, **marks, **changes} for row in partial]
