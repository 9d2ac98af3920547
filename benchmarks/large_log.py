"""A large raw log, drawn fast: battles and chats of one to four turns, 2 kB a line on average, without image files."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

_MODELS = [f"model-{number}" for number in range(40)]
_DAY_SECONDS, _START = 86_400, 1_718_841_600.0  # 2024-06-20
_VOTES = ("leftvote", "rightvote", "tievote", "bothbad_vote")
_VOCABULARY = """the of and a to in is that it for on with as this by are from at an be picture shows two one which left
right answer because colour chart table value large small between first then number line text image figure total part"""
_WORDS = _VOCABULARY.split()


def write_large_log(folder: Path, lines: int, lines_a_day: int, seed: int = 0) -> int:
    """Write day files below `folder`; returns their bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    records = _records(random.Random(seed))
    for day in range(-(-lines // lines_a_day)):
        path = folder / f"vision-tmp-2024-{6 + (19 + day) // 30:02d}-{(19 + day) % 30 + 1:02d}-conv.json"
        count = min(lines_a_day, lines - day * lines_a_day)
        with path.open("wb") as stream:
            stream.writelines(orjson.dumps(next(records)) + b"\n" for _ in range(count))
    return sum(path.stat().st_size for path in folder.iterdir())


def _records(random: random.Random) -> Iterator[dict[str, Any]]:
    now = _START
    while True:
        now += random.expovariate(1 / 6)
        ip = f"198.51.{random.randrange(256)}.{random.randrange(256)}"
        pair = random.sample(_MODELS, 2 if random.random() < 0.6 else 1)
        states = [_state(random, model) for model in pair]
        image = f"{random.getrandbits(128):032x}"
        turns = 1 if random.random() < 0.75 else random.randint(2, 4)
        for turn in range(turns):
            question = _text(random, 30)
            for state in states:
                asked: Any = [question, [image]] if turn == 0 else question
                state["messages"] += [["user", asked], ["assistant", _text(random, 180)]]
                yield _chat(state, now, ip)
        if len(states) == 2:
            kind = random.choice(_VOTES)
            yield {"tstamp": round(now + 20, 4), "type": kind, "models": ["", ""], "states": states, "ip": ip}


def _state(random: random.Random, model: str) -> dict[str, Any]:
    return {
        "template_name": "template",
        "system_message": "",
        "roles": ["user", "assistant"],
        "messages": [],
        "offset": 0,
        "conv_id": f"{random.getrandbits(128):032x}",
        "model_name": model,
        "has_csam_image": False,
    }


def _chat(state: dict[str, Any], now: float, ip: str) -> dict[str, Any]:
    parameters = {"temperature": 0.7, "top_p": 1.0, "max_new_tokens": 1024}
    return {
        "tstamp": round(now + 8, 4),
        "type": "chat",
        "model": state["model_name"],
        "gen_params": parameters,
        "start": round(now, 4),
        "finish": round(now + 8, 4),
        "state": state,
        "ip": ip,
    }


def _text(random: random.Random, words: int) -> str:
    return " ".join(random.choices(_WORDS, k=random.randint(words // 3, 2 * words)))
