"""Compares upstream's cleaning with policy `upstream`, line by line, on the text-only lines of a log.

python -m benchmarks.upstream_parity LOGS

The peer is `upstream_cleaner.py`, a reimplementation that shares no code with ours.
"""

import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import yaml

from benchmarks.upstream_cleaner import INVALID, KEPT, VOTES, battle_outcome, chat_outcome, is_text_only
from flows.products import item_findings
from schemas.settings import Settings
from schemas.signals import MeasuredOn
from tasks.ingest.assemble import assemble_store
from tasks.ingest.log_files import log_files, source_files
from tasks.ingest.read_new import read_new
from tasks.policy import policy_file
from tasks.policy.steps import decide_items
from tasks.providers import Providers
from tasks.signals.registry import signal_of
from tasks.signals.run import measure_items
from tasks.signals.steps import signal_versions
from tasks.storage.queries.texts import ConversationForm, Texts, all_texts
from tasks.storage.records import SUPERSEDED, line_outcomes
from tasks.storage.tables import Store

DAY = "2024-06-20-conv.json"
Records = list[dict[str, Any]]
Outcomes = Iterable[tuple[str, str]]
"""(upstream's, ours) of each vote or chat."""


def text_only_records(logs: Path, words_alone: bool = False) -> Records:
    """The records of a log folder that upstream can read, by file and line, without flagged ones.

    With `words_alone`, turns with an image are included with their text alone, as a text arena would have logged them.
    """
    records = []
    for file in (file for file in log_files(logs) if not file.csam):
        for raw in file.path.read_bytes().split(b"\n"):
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


def _words_alone(record: dict[str, Any]) -> dict[str, Any]:
    for each in record.get("states") or [record.get("state")]:
        for message in each["messages"] if isinstance(each, dict) and isinstance(each.get("messages"), list) else []:
            if isinstance(message, list) and len(message) == 2 and isinstance(message[1], list) and message[1]:
                message[1] = message[1][0]
    return record


def decided(records: Records, folder: Path, excluded: Sequence[str] = ()) -> Store:
    """The store after ingest, the one signal, and the decisions of the policy with an operator's list."""
    logs = folder / "logs"
    logs.mkdir(parents=True)
    (logs / DAY).write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    store = Store.open(str(folder / "store"))
    read_new(store, source_files(logs), logs, workers=1)
    assemble_store(store, workers=1)
    signal = signal_of("upstream_words", Providers())
    texts = all_texts(store, Texts(ConversationForm.LOGGED, MeasuredOn.MESSAGES), {})
    measure_items(store, signal, list(texts), lambda ids: [texts[i] for i in ids], workers=1, now=datetime.now(UTC))
    shipped = Path(policy_file.__file__).parent / "policies" / "upstream.yaml"
    listed = yaml.safe_load(shipped.read_text(encoding="utf-8")) | {"excluded_models": list(excluded)}
    (folder / "policy.yaml").write_text(yaml.safe_dump(listed), encoding="utf-8")
    settings = Settings(store=store.root, policy=str(folder / "policy.yaml"))
    decide_items.fn(settings, signal_versions(Providers()), item_findings)
    return store


def vote_outcomes(records: Records, store: Store, excluded: Sequence[str] = ()) -> Outcomes:
    """Of every vote that no later one replaced and whose conversations did not go on."""
    ours = {row["line"]: (row["outcome"], row["reason"]) for row in line_outcomes(store).iter_rows(named=True)}
    final = {row["conversation_id"]: row["turns"] for row in store.read("conversations").iter_rows(named=True)}
    verdicts = {"kept": KEPT, "rejected": INVALID}
    for number, record in enumerate(records, 1):
        outcome = verdicts.get(ours[number][0], ours[number][1])
        went_on = any(
            [text or "" for _, text in each["messages"][each["offset"] :]]
            != [turn["content"] for turn in final.get(each["conv_id"], [])]
            for each in record.get("states", [])
        )
        if record["type"] in VOTES and outcome != SUPERSEDED and (outcome == INVALID or not went_on):
            # names revealed as a heading: upstream calls the battle named, although they were hidden until the vote
            revealed = all(name.startswith(("### Model ", "<h3>Model ")) for name in record["models"])
            hidden = record | {"models": ["", ""]} if revealed else record
            yield battle_outcome(hidden, frozenset(excluded)), outcome


def chat_outcomes(records: Records, store: Store) -> Outcomes:
    """Of the last chat line of every conv_id: kept or dropped."""
    last = {record["state"]["conv_id"]: record for record in records if record["type"] == "chat"}
    kept = set(store.read("decisions").filter("keep", item_kind="conversation")["item_id"])
    for name, record in last.items():
        yield KEPT if chat_outcome(record) == KEPT else "dropped", KEPT if name in kept else "dropped"


def parity_rows(votes: Outcomes, chats: Outcomes) -> list[tuple[str, str, int, int, int]]:
    """(vote or chat, outcome, how many upstream gives it, how many we do, how many both)."""
    rows = []
    for kind, pairs in (("vote", list(votes)), ("chat", list(chats))):
        theirs, ours = (Counter(pair[place] for pair in pairs) for place in (0, 1))
        both = Counter(mine for theirs_of_it, mine in pairs if mine == theirs_of_it)
        rows += [(kind, each, theirs[each], ours[each], both[each]) for each in sorted({*theirs, *ours})]
    return rows


def main(logs: Path) -> None:
    """Print the table, for the text-only lines of a log and for the words of all its lines."""
    for words_alone in (False, True):
        records = text_only_records(logs, words_alone)
        with tempfile.TemporaryDirectory() as folder:
            store = decided(records, Path(folder))
            rows = parity_rows(vote_outcomes(records, store), chat_outcomes(records, store))
        print(f"{'the words of all lines' if words_alone else 'text-only lines'}: {len(records):,} records")
        print("| | outcome | upstream | policy upstream | both |\n|---|---|---|---|---|")
        print("".join(f"| {kind} | {outcome} | {t} | {o} | {both} |\n" for kind, outcome, t, o, both in rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
