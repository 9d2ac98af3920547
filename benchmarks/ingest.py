"""Reading a log into tables against FastChat's own reading and cleaning, and how memory grows with the log.

The peer follows FastChat's published steps (`monitor/clean_battle_data.py`): read every line with `json`, keep the
votes, sort them, then for each: anonymity rule, language of the first prompt, all messages lower-cased and searched for
model names and error texts, tokens of every message. It accepts list content, on which upstream crashes, and writes
nothing. Ours writes tables with every conversation, not only those with votes. The peer runs in one process, ours in
the default number of processes. Seconds are CPU seconds of whole processes, with imports.

A second row reads chats as WildChat-1M has them, from Parquet; its peer is our own reading of the same chats as lines
of a log.
"""

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pycld2

from benchmarks.timing import write
from benchmarks.upstream_cleaner import IDENTITY, VOTES
from schemas.settings import Settings
from tasks.ingest.assemble import assemble_store
from tasks.ingest.log_files import source_files
from tasks.ingest.read_new import read_new
from tasks.storage.tables import Store

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
            question = _drawn_text(random, 30)
            for state in states:
                asked: Any = [question, [image]] if turn == 0 else question
                state["messages"] += [["user", asked], ["assistant", _drawn_text(random, 180)]]
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


def _drawn_text(random: random.Random, words: int) -> str:
    return " ".join(random.choices(_WORDS, k=random.randint(words // 3, 2 * words)))


def write_chats(folder: Path, chats: int, seed: int = 0) -> None:
    """Write the same drawn chats below `folder`: `logs` as a log's lines, `wildchat` as Parquet like WildChat-1M."""
    logs, table = folder / "logs", folder / "wildchat"
    for path in (logs, table):
        path.mkdir(parents=True, exist_ok=True)
    drawn = random.Random(seed)
    writer = None
    with (logs / "2024-06-20-conv.json").open("wb") as stream:
        for first in range(0, chats, 10_000):
            rows = []
            for number in range(first, min(first + 10_000, chats)):
                state, now = _state(drawn, drawn.choice(_MODELS)), _START + number * 0.4
                for _ in range(drawn.choice((1, 1, 1, 2, 3, 4))):
                    question, answer = _drawn_text(drawn, 30), _drawn_text(drawn, 180)
                    state["messages"] += [["user", question], ["assistant", answer]]
                ip = f"198.51.{drawn.randrange(256)}.{drawn.randrange(256)}"
                stream.write(orjson.dumps(_chat(state, now, ip)) + b"\n")
                rows.append(_wildchat_row(state, now, ip, number))
            batch = pa.Table.from_pylist(rows)
            writer = writer or pq.ParquetWriter(table / "train.parquet", batch.schema)
            writer.write_table(batch)
    if writer is not None:
        writer.close()


_CATEGORIES = ("harassment", "hate", "self-harm", "sexual", "sexual/minors", "violence")


def _wildchat_row(state: dict[str, Any], now: float, ip: str, number: int) -> dict[str, Any]:
    """A chat with the columns of WildChat-1M (its card on the Hub); moderation has fewer categories."""
    time = datetime.fromtimestamp(now, UTC)
    header = {"accept-language": "en-US", "user-agent": "Mozilla/5.0 (X11; Linux x86_64)"}
    place = {"country": "France", "state": "Brittany", "hashed_ip": f"{hash(ip) & (2**64 - 1):064x}", "header": header}
    flags = {"language": "English", "redacted": False, "toxic": False}
    messages = [
        {"role": role, "content": content, "timestamp": time, "turn_identifier": number, **flags, **place}
        for role, content in state["messages"]
    ]
    scores = {"categories": dict.fromkeys(_CATEGORIES, False), "category_scores": dict.fromkeys(_CATEGORIES, 0.01)}
    detoxify = dict.fromkeys(("insult", "obscene", "threat", "toxicity"), 0.01)
    return {
        "conversation_hash": state["conv_id"], "model": state["model_name"], "timestamp": time,
        "conversation": messages, "turn": len(messages) // 2, "openai_moderation": [{**scores, "flagged": False}] * 2,
        "detoxify_moderation": [detoxify] * len(messages), **flags, **place,
    }  # fmt: skip


LINES, LINES_A_DAY = 100_000, 10_000
CHATS = 1_000_000
_ERRORS = ("network error", "$moderation$ your input", "api request error", "▌")


class Taken(NamedTuple):
    """Time and memory of some work, child processes included."""

    wall_s: float
    cpu_s: float
    memory_mb: float
    """Peak of this process plus that of the largest child for each further worker."""


def run() -> list[dict[str, Any]]:
    """Measure a drawn log of LINES lines and one of a quarter of them, each in a new process."""
    ours = {}
    with tempfile.TemporaryDirectory() as folder:
        for lines in (LINES // 4, LINES):
            logs = Path(folder) / f"logs-{lines}"
            megabytes = write_large_log(logs, lines, LINES_A_DAY) // 1_000_000
            ours[lines] = _in_new_process(f"b.ingest_once({str(logs)!r})")
        theirs = _in_new_process(f"b.fastchat_once({str(logs)!r})")
    growth = (ours[LINES].memory_mb - ours[LINES // 4].memory_mb) / (LINES * 0.75) * 1_000_000
    row = {
        "bench": "ingest: read and assemble",
        "n": LINES,
        "ours_s": round(ours[LINES].cpu_s, 2),
        "peer": "FastChat's reading and cleaning",
        "peer_s": round(theirs.cpu_s, 2),
        "ratio": round(theirs.cpu_s / ours[LINES].cpu_s, 2),
        "wall_ratio": round(theirs.wall_s / ours[LINES].wall_s, 2),
        "megabytes": megabytes,
        "processes": Settings(store="").workers,
        "memory_mb": round(ours[LINES].memory_mb),
        "memory_mb_per_million_lines": round(growth),
    }
    print(json.dumps(row), flush=True)
    return [row, _chats_row()]


def _chats_row() -> dict[str, Any]:
    """Measure reading drawn chats from WildChat-like Parquet, and from a log, each in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        write_chats(Path(folder), CHATS)
        taken = {name: _in_new_process(f"b.ingest_once({str(Path(folder, name))!r})") for name in ("logs", "wildchat")}
    row = {
        "bench": "ingest: chats of WildChat",
        "n": CHATS,
        "ours_s": round(taken["wildchat"].cpu_s, 2),
        "peer": "our reading of the same chats from logs",
        "peer_s": round(taken["logs"].cpu_s, 2),
        "ratio": round(taken["logs"].cpu_s / taken["wildchat"].cpu_s, 2),
        "wall_ratio": round(taken["logs"].wall_s / taken["wildchat"].wall_s, 2),
        "memory_mb": round(taken["wildchat"].memory_mb),
    }
    print(json.dumps(row), flush=True)
    return row


def _in_new_process(call: str) -> Taken:
    """Run `call` in a new process with a small main module, because worker processes import it too."""
    program = f"import benchmarks.ingest as b; {call}"
    done = subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True)
    return Taken(*json.loads(done.stdout))


def ingest_once(logs: str) -> None:
    """Read `logs` into a new store and assemble it. Prints time and memory."""

    def ingest() -> None:
        store = Store.open(root)
        read_new(store, source_files(Path(logs)), Path(logs), workers)
        assemble_store(store, workers)

    with tempfile.TemporaryDirectory(dir=Path(logs).parent) as root:
        workers = Settings(store=root).workers
        _print_taken(ingest, workers - 1)


def fastchat_once(logs: str) -> None:
    """FastChat's reading and cleaning of `logs`. Prints time and memory."""
    _print_taken(lambda: _fastchat(Path(logs)), 0)


def _print_taken(work: Callable[[], object], others: int) -> None:
    started = time.perf_counter()
    work()
    wall = time.perf_counter() - started
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cpu = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    print(json.dumps(Taken(wall, cpu, (own.ru_maxrss + others * children.ru_maxrss) / 1024)))


def _fastchat(logs: Path) -> int:
    votes = [record for record in map(json.loads, _lines(logs)) if record["type"] in VOTES]
    votes.sort(key=lambda record: record["tstamp"])
    return sum(_cleaned(record) is not None for record in votes)


def _lines(logs: Path) -> Iterator[bytes]:
    for path in sorted(logs.iterdir()):
        with path.open("rb") as stream:
            yield from stream


def _cleaned(record: dict[str, Any]) -> dict[str, Any] | None:
    encoding = _encoding()
    names = [state["model_name"] for state in record["states"]]
    anonymous = record["models"][0] in ("", "Model A")
    if not anonymous and any(name not in shown for name, shown in zip(names, record["models"], strict=True)):
        return None
    sides = [[_text(message[1]) for message in state["messages"][state["offset"] :]] for state in record["states"]]
    spoken = _language(sides[0][0])
    everything = "".join(text for side in sides for text in side).lower()
    if any(word in everything for word in IDENTITY) or any(text in everything for text in _ERRORS):
        return None
    tokens = [len(encoding.encode(text)) for side in sides for text in side]
    return {"models": names, "language": spoken, "num_tokens": tokens, "judge": record["ip"], "anony": anonymous}


def _language(text: str) -> str:
    """By CLD2, which upstream calls through polyglot."""
    try:
        return str(pycld2.detect(text)[2][0][1])
    except pycld2.error:
        return "unknown"


@cache
def _encoding() -> Any:
    """The tokenizer; faster than upstream's tiktoken."""
    import bpe_openai

    return bpe_openai.get_encoding("cl100k_base")


def _text(content: Any) -> str:
    return content[0] if isinstance(content, list) else content


if __name__ == "__main__":
    write(run())
