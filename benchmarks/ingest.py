"""Reading a log into tables: ours against parsing alone, the same columns by Python objects, and FastChat's own.

The peer follows FastChat's published steps (`monitor/clean_battle_data.py`): read every line with `json`, keep the
votes, sort them, then for each: anonymity rule, language of the first prompt, all messages lower-cased and searched for
model names and error texts, tokens of every message. It is given list content, which upstream crashes on. It writes
nothing; ours writes tables that hold every conversation, not only the voted ones.

By Python objects is parsing, hashing addresses and opening texts, and writing the same columns, with no check of
anything and a table that is not sorted into conversations. Peers run in one process, ours in as many as by default.
Timed is the work alone, for peers as for ours: the start of our first process is not, that of its workers is. Compiled
code is compiled before.
"""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

import orjson

from benchmarks.large_log import write_large_log
from schemas.settings import Settings
from tasks.content_id import text_id
from tasks.ingest.assemble import assemble_store
from tasks.ingest.formats.detect import source_files
from tasks.ingest.log_line import Seen
from tasks.ingest.people import Pseudonyms
from tasks.ingest.read_step import read_new
from tasks.ingest.sighting_frame import sighting_table
from tasks.tables import Store

LINES, LINES_A_DAY, ROUNDS = 500_000, 50_000, 1
Times = tuple[float, float]
"""Wall seconds and CPU seconds, child processes included."""
_VOTES = ("leftvote", "rightvote", "tievote", "bothbad_vote")
_IDENTITY = """vicuna lmsys koala uc_berkeley open_assistant laion chatglm chatgpt gpt-4 openai anthropic claude bard
palm lamda google gemini llama qianwan qwen alibaba mistral zhipu keg_lab 01.ai ai2 tülu tulu deepseek hermes cohere
dbrx databricks"""
_IDENTITY_WORDS = [word.replace("_", " ") for word in _IDENTITY.split()]
_ERRORS = ("network error", "$moderation$ your input", "api request error", "▌")


def run() -> list[dict[str, Any]]:
    """Wall seconds and CPU seconds, our processes included, of a drawn log; in turn, medians."""
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder) / "logs"
        size = write_large_log(logs, LINES, LINES_A_DAY)
        workers = Settings(store="").workers
        work: dict[str, Callable[[], Times]] = {
            "read": lambda: _ours(folder, logs, tables=False),
            "read and assemble": lambda: _ours(folder, logs, tables=True),
            "orjson.loads alone": lambda: _timed(lambda: sum(len(orjson.loads(line)) for line in _lines(logs))),
            "parsing, hashing and writing by Python objects": lambda: _timed(lambda: _by_objects(folder, logs)),
            "FastChat's reading and cleaning": lambda: _timed(lambda: _fastchat(logs, annotate=True)),
            "FastChat's without language and tokens": lambda: _timed(lambda: _fastchat(logs, annotate=False)),
        }
        small = Path(folder) / "small"
        write_large_log(small, LINES // 100, LINES_A_DAY)
        _ours(folder, small, tables=True)
        taken: dict[str, list[Times]] = {name: [] for name in work}
        for _ in range(ROUNDS):
            for name, job in work.items():
                taken[name].append(job())
    medians = {
        name: tuple(statistics.median(column) for column in zip(*rows, strict=True)) for name, rows in taken.items()
    }
    ours = ("read", "read and assemble")
    return [_row(mine, peer, medians, size, workers) for mine in ours for peer in work if peer not in ours]


def _row(mine: str, peer: str, medians: dict[str, tuple[float, ...]], size: int, workers: int) -> dict[str, Any]:
    (wall, cpu), (peer_wall, peer_cpu) = medians[mine], medians[peer]
    row = {
        "bench": f"ingest: {mine}",
        "n": LINES,
        "ours_s": round(wall, 2),
        "peer": peer,
        "peer_s": round(peer_wall, 2),
        "ratio": round(peer_wall / wall, 2),
        "ours_cpu_s": round(cpu, 2),
        "peer_cpu_s": round(peer_cpu, 2),
        "megabytes": size // 1_000_000,
        "processes": workers,
    }
    print(json.dumps(row), flush=True)
    return row


def _timed(work: Callable[[], object]) -> Times:
    started, cpu = time.perf_counter(), _cpu_seconds()
    work()
    return time.perf_counter() - started, _cpu_seconds() - cpu


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _ours(folder: str, logs: Path, *, tables: bool) -> Times:
    """In a process of its own, because the workers import what their parent's main module imports."""
    with tempfile.TemporaryDirectory(dir=folder) as root:
        program = f"import benchmarks.ingest as b; b.ingest_once({root!r}, {str(logs)!r}, {tables})"
        done = subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True)
    wall, cpu = json.loads(done.stdout)
    return wall, cpu


def ingest_once(root: str, logs: str, tables: bool) -> None:
    """Read `logs` into a new store at `root`; with `tables`, assemble as well. Prints the times it took."""

    def ingest() -> None:
        store, workers = Store.open(root), Settings(store=root).workers
        read_new(store, source_files(Path(logs)), Path(logs), workers)
        if tables:
            assemble_store(store, workers)

    print(json.dumps(_timed(ingest)))


def _by_objects(folder: str, logs: Path) -> None:
    people, lines = Pseudonyms(b"the key of the benchmark"), _lines(logs)
    with tempfile.TemporaryDirectory(dir=folder) as root:
        while some := list(islice(lines, 12_000)):
            Store(root).write_part("sightings", sighting_table([*chain.from_iterable(_unchecked(some, people))]))


def _unchecked(lines: list[bytes], people: Pseudonyms) -> Iterator[list[Seen]]:
    for number, record in enumerate(map(orjson.loads, lines)):
        states = record["states"] if "states" in record else [record["state"]]
        kind, tstamp, user = record["type"], round(record["tstamp"] * 1e6), people.user_id(record["ip"])
        texts = [[_text(message[1]) for message in state["messages"]] for state in states]
        yield [
            Seen("log", number, side, kind, tstamp, state["conv_id"], text_id(said[0]), state["model_name"], said,
                 state["messages"][0][1][1], [], user, None, None)
            for side, (state, said) in enumerate(zip(states, texts, strict=True))
        ]  # fmt: skip


def _lines(logs: Path) -> Iterator[bytes]:
    for path in sorted(logs.iterdir()):
        with path.open("rb") as stream:
            yield from stream


def _fastchat(logs: Path, *, annotate: bool) -> int:
    votes = [record for record in map(json.loads, _lines(logs)) if record["type"] in _VOTES]
    votes.sort(key=lambda record: record["tstamp"])
    return sum(_cleaned(record, annotate) is not None for record in votes)


def _cleaned(record: dict[str, Any], annotate: bool) -> dict[str, Any] | None:
    language, encoding = _annotators()
    names = [state["model_name"] for state in record["states"]]
    anonymous = record["models"][0] in ("", "Model A")
    if not anonymous and any(name not in shown for name, shown in zip(names, record["models"], strict=True)):
        return None
    sides = [[_text(message[1]) for message in state["messages"][state["offset"] :]] for state in record["states"]]
    spoken = language.identify([sides[0][0]])[0].language if annotate else "unknown"
    everything = "".join(text for side in sides for text in side).lower()
    if any(word in everything for word in _IDENTITY_WORDS) or any(text in everything for text in _ERRORS):
        return None
    tokens = [len(encoding.encode(text)) for side in sides for text in side] if annotate else []
    return {"models": names, "language": spoken, "num_tokens": tokens, "judge": record["ip"], "anony": anonymous}


@cache
def _annotators() -> tuple[Any, Any]:
    """Language and tokens; both faster than upstream's own."""
    import bpe_openai

    from tasks.providers.embedded.language import FastText

    return FastText(), bpe_openai.get_encoding("cl100k_base")


def _text(content: Any) -> str:
    return content[0] if isinstance(content, list) else content
