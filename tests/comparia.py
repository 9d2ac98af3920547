"""Rows as compar:IA's exporters write them, drawn by rule with a seed; all names and texts are invented.

`new_set(seed, comparisons)` is the set of a row a turn, as `comparison_to_turns` of utils/dataset/compute.py at 420cb1e
flattens a comparison; with `raw` it has the marks of the raw export. `older_sets(seed, pairs)` are the three sets
before it, as utils/dataset/queries.py at 8646c99 chooses their columns and `record_vote` and `record_reaction` fill
them. Each column that may be null is null once.
"""

import random
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
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


REASONS = (
    "useful",
    "complete",
    "creative",
    "clear_formatting",
    "incorrect",
    "superficial",
    "instructions_not_followed",
)
OLDER_MARKS = {
    "archived": False,
    "pii_analyzed": True,
    "contains_pii": False,
    "postprocess_failed": False,
    "cohorts": "",
}


class OlderSets(NamedTuple):
    """Rows of the three sets about the same pairs of talks."""

    conversations: list[Row]
    votes: list[Row]
    reactions: list[Row]


def older_sets(seed: int = 7, pairs: int = 12) -> OlderSets:
    """Pairs of one to three turns, most of which have a vote, and a reaction to an answer of each."""
    rng = random.Random(seed)
    sets = OlderSets([], [], [])
    for number in range(pairs):
        turns = 1 + number % 3
        ids = [f"{rng.getrandbits(128):032x}" for _ in "ab"]
        models = rng.sample(MODELS, 2)
        talks = [_older_talk(number, side, turns, number % 4 == 0) for side in "ab"]
        shared = {
            "conversation_pair_id": "-".join(ids),
            "model_pair_name": models,
            "model_a_name": models[0],
            "model_b_name": models[1],
            "opening_msg": talks[0][-2 * turns]["content"],
            "conv_turns": turns,
            "session_hash": f"{rng.getrandbits(128):032x}",
            "visitor_id": None if number == 0 else f"{rng.getrandbits(128):032x}",
        }
        at = datetime(2025, 5, 5, 9, tzinfo=UTC) + timedelta(hours=number)
        whole = {"conversation_a": talks[0], "conversation_b": talks[1]}
        sets.conversations.append(
            {
                "id": number,
                "timestamp": at,
                **shared,
                **whole,
                "conv_a_id": ids[0],
                "conv_b_id": ids[1],
                "system_prompt_a": None,
                "mode": "random",
                "categories": None if number == 1 else ["Arts"],
                "languages": None if number == 2 else ["fr"],
            }
        )
        kind = ("a", "b", "equal", None)[number % 4]
        if kind is not None:
            chosen = None if kind == "equal" else models["ab".index(kind)]
            about = {f"conv_{name}_{side}": rng.random() < 0.3 for name in REASONS for side in "ab"}
            comments = {"conv_comments_a": None if number == 1 else f"Comment {number}.", "conv_comments_b": ""}
            vote = {"chosen_model_name": chosen, "both_equal": kind == "equal", "archived": False}
            later = at + timedelta(minutes=30)
            sets.votes.append({"id": number, "timestamp": later, **shared, **whole, **about, **comments, **vote})
        side = rng.choice("ab")
        turn = rng.randrange(turns)
        offset = 1 if number % 4 == 0 else 0
        so_far = {name: talk[: offset + 2 * turn + 2] for name, talk in whole.items()}
        like = (True, False, None)[number % 3]
        sets.reactions.append(
            {
                "id": number,
                "timestamp": at + timedelta(minutes=5 + turn),
                **shared,
                **so_far,
                "conv_a_id": ids[0],
                "conv_b_id": ids[1],
                "model_pos": None if number == 3 else side,
                "refers_to_model": models["ab".index(side)],
                "refers_to_conv_id": ids["ab".index(side)],
                "msg_index": offset + 2 * turn + 1,
                "msg_rank": turn,
                "question_content": None if number == 4 else "asked",
                "response_content": None if number == 5 else "answered",
                "liked": like is True,
                "disliked": like is False,
                "comment": None if number == 6 else f"Said {number}.",
                **{name: rng.random() < 0.3 for name in REASONS},
            }
        )
    return sets


def _older_talk(number: int, side: str, turns: int, has_instruction: bool) -> list[Row]:
    """The messages of one side; `metadata` and `reasoning_content` are on some answers only."""
    talk: list[Row] = [{"role": "system", "content": "Be brief."}] if has_instruction else []
    for turn in range(turns):
        bird = _BIRDS[(3 * number + turn) % len(_BIRDS)]
        talk.append({"role": "user", "content": f"Question {number}.{turn}: where does the {bird} sleep in summer?"})
        answer: Row = {"role": "assistant", "content": f"Answer {side} {number}.{turn}: the {bird} sleeps in reeds."}
        if number % 2:
            answer["metadata"] = {"generation_id": f"g{number}", "output_tokens": 9, "duration": 1.5}
        if number % 5 == 0:
            answer["reasoning_content"] = f"Thought {side} {number}.{turn}."
        talk.append(answer)
    return talk
