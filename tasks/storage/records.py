"""Records of a store: of each run, and of who looked at masked content, exported, took down, published, accepted.

The record of a run, in `runs`, has settings, state, reports of the stages and the funnel. The funnel counts every input
line once as kept, dropped or rejected, with its first reason. A chat line that holds the final state of a conversation
has the outcome of the conversation, a vote line that of its battle. A line that a later line replaced (a conversation
grew, an answer was regenerated, a vote was cast again or on a later turn) is dropped as `superseded`; a share line
repeats the content of votes and is dropped as `share_record`, and so does a row of a comparison without a vote.

 Each entry of the audit log
is a file of its own, `audit/00000001.json`, that holds the hash of the one before it. It is created and never written
again, without the store's lock: people look while a run writes. The record of each run holds the number and the hash of
the last entry, so that entries that are cut off at the end are noticed, too.
"""

import getpass
import hashlib
import json
import pwd
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
from fsspec.implementations.local import LocalFileSystem
from pydantic import ValidationError

from schemas.errors import CurateError, StoreUnwell, why_unreadable
from schemas.items.reject import REJECT_TEXTS
from schemas.policy import Policy, Rule
from schemas.run import LATER_CAUSES, DropCounts, Funnel, StageReport
from schemas.settings import Settings
from schemas.upkeep import Audited, AuditEntry
from tasks.runtime.untrusted import read_yaml
from tasks.storage.keyed_ids import pseudonym
from tasks.storage.tables import Store

_FOLDER = "runs"
_PLACES = {
    "config",
    "environment",
    "store",
    "logs",
    "source",
    "images",
    "presets",
    "known_hashes",
    "known_benchmarks",
    "prices",
    "prompts",
    "task_runner_address",
}
_PLACES_TO_EVALUATE = {"models", "judge", "bench_release", "submission"}
"""Settings that are left out because they are paths or addresses."""
_LEFT_OUT: dict[str, Any] = {**dict.fromkeys(_PLACES, True), "evaluate": _PLACES_TO_EVALUATE}
RUNNING, COMPLETED, HELD, FAILED, KILLED = "running", "completed", "held", "failed", "killed"
"""States of a run; `killed` is written by the next run."""


class RunRecord:
    """The record of a running run: written again after every stage, so that a killed run leaves what it did.

    Its file is named by `started`, with `_2`, `_3` for runs of the same second. The funnel is recorded only when a
    release was made, because not every line has an outcome before.
    """

    def __init__(self, store: Store, settings: Settings, started: datetime, run: str = "") -> None:
        """`run` names the deployment, or else the flow."""
        self.store, self.settings, self.started, self.run = store, settings, started, run
        self.reports: list[StageReport] = []
        self._path = _free_path(store, started)
        self.write(RUNNING)

    def add(self, report: StageReport) -> None:
        """Add the report of a stage that ended."""
        self.reports.append(report)
        self.write(RUNNING)

    def write(self, state: str, error: str | None = None) -> None:
        """Write the record in this state."""
        released = state == COMPLETED and bool(self.reports and self.reports[-1].result.startswith("releases/"))
        record = {
            "run": self.run,
            "started_at": self.started.isoformat(timespec="seconds"),
            "finished_at": None if state == RUNNING else datetime.now(UTC).isoformat(timespec="seconds"),
            "state": state,
            "error": error,
            "settings": self.settings.model_dump(mode="json", exclude=_LEFT_OUT),
            "stages": [report.model_dump(mode="json") for report in self.reports],
            "funnel": funnel(self.store).model_dump(mode="json") if released else None,
            "audit": None if state == RUNNING else last_entry(self.store),
        }
        self.store.write_bytes(self._path, json.dumps(record, indent=2).encode())


def _free_path(store: Store, started: datetime) -> str:
    """Path of a record that is not there yet; paths of one second are in the order of their runs."""
    second = f"{_FOLDER}/{started:%Y%m%dT%H%M%S}Z"
    taken = sum(path.startswith(second) for path in record_paths(store))
    return f"{second}_{taken + 1}.json" if taken else f"{second}.json"


@contextmanager
def run_record(store: Store, settings: Settings, run: str = "") -> Iterator[RunRecord]:
    """The record of the run inside. It ends as completed, held or failed; an earlier one that never ended is killed."""
    _end_killed(store)
    make_audit_folder(store)
    record = RunRecord(store, settings, datetime.now(UTC), run)
    try:
        yield record
    except BaseException as error:
        with suppress(Exception):  # the store may be full or gone
            record.write(HELD if getattr(error, "exit_status", None) == 3 else FAILED, _without_places(error, settings))
        raise
    record.write(COMPLETED)


def _end_killed(store: Store) -> None:
    for path in record_paths(store)[-1:]:
        record = _read_record(store, path)
        if record["state"] == RUNNING:
            store.write_bytes(path, json.dumps(record | {"state": KILLED}, indent=2).encode())


def _without_places(error: BaseException, settings: Settings) -> str:
    """The error's line without paths and addresses; only its class when it is none of ours."""
    text = str(error) if isinstance(error, CurateError) else type(error).__name__
    places = {name: getattr(settings, name) for name in _PLACES}
    for name, value in (places | {name: getattr(settings.evaluate, name) for name in _PLACES_TO_EVALUATE}).items():
        for place in value if isinstance(value, list) else [value]:
            text = text.replace(place or "\0", name)
    return text


def run_records(store: Store) -> list[dict[str, Any]]:
    """Every record, oldest first; raises `StoreUnwell` for one that cannot be read."""
    return [_read_record(store, path) for path in record_paths(store)]


def _read_record(store: Store, path: str) -> dict[str, Any]:
    try:
        record = json.loads(store.read_bytes(path) or b"")
        return {**record, "stages": [*record["stages"]]}
    except (ValueError, KeyError, TypeError):
        raise StoreUnwell(f"store {store.root!r} is damaged: {path} is no record of a run; delete it") from None


def left_for_later(store: Store) -> bool:
    """Whether the last run that measured everything, before the present one, left items for the next run.

    Those that found no room in a budget, that wait in a batch, or whose service was paused.
    """
    for record in reversed(run_records(store)[:-1]):
        stages = {stage["stage"]: stage for stage in record["stages"] if stage["stage"] != "canaries"}
        if "measure_documents" in stages:
            causes = {failure.rpartition(": ")[2] for stage in stages.values() for failure in stage["failures"]}
            return not causes.isdisjoint(LATER_CAUSES)
    return False


def latest_run_record(store: Store) -> str:
    """Path of the newest record, relative to the store."""
    return record_paths(store)[-1]


def earlier_drops(store: Store) -> list[DropCounts]:
    """Drop counts of earlier runs, oldest first; stages without drop counts are skipped."""
    stages = [stage for record in run_records(store) for stage in record["stages"]]
    return [DropCounts(**stage["drops"]) for stage in stages if stage.get("drops")]


def record_paths(store: Store) -> list[str]:
    """Paths of all records, relative to the store, oldest first."""
    paths = store.fs.find(store.at(_FOLDER))
    return sorted(path.removeprefix(f"{store.path}/") for path in paths if path.endswith(".json"))  # no half one


AUDIT = "audit"
"""Folder of a store."""
_FIRST = "0" * 8


def make_audit_folder(store: Store) -> None:
    """The folder of a store on a disk, also before its first entry: the explorer of a deployment writes here alone."""
    if isinstance(store.fs, LocalFileSystem):
        Path(store.at(AUDIT)).mkdir(parents=True, exist_ok=True)


def add_audit_entry(store: Store, what: Audited, counts: Mapping[str, int], about: str = "", by: str = "") -> None:
    """Add an entry. `by` is a reviewer's name, else the user of this machine. Call it before anything is shown or sent.

    Raises StoreUnwell when it cannot be written: what leaves no trace does not happen.
    """
    try:
        who = pseudonym(store, by or _user())
        while True:
            number, before = last_entry(store)
            at, nonzero_counts = datetime.now(UTC), {name: count for name, count in counts.items() if count}
            entry = AuditEntry(
                number=number + 1, at=at, who=who, what=what, counts=nonzero_counts, about=about, before=before
            )
            with suppress(FileExistsError):  # another process was faster
                store.create_bytes(f"{AUDIT}/{entry.number:08}.json", entry.model_dump_json().encode())
                return
    except OSError as error:
        raise StoreUnwell(
            f"store {store.root!r} cannot be written to ({why_unreadable(error)}), and its audit log says who "
            "saw, sent or removed what; mend that, and do it again"
        ) from None


def last_entry(store: Store) -> tuple[int, str]:
    """Number of entries, and the SHA-256 of the last; (0, "") for an empty log."""
    name = max(store.json_files(AUDIT), default=_FIRST).removesuffix(".json")
    content = store.read_bytes(f"{AUDIT}/{name}.json")
    return int(name), hashlib.sha256(content).hexdigest() if content is not None else ""


def audit_entries(store: Store) -> Iterator[AuditEntry]:
    """The entries, oldest first. Raises StoreUnwell at the first that was changed, or that follows a removed one."""
    before = ""
    for number, file in enumerate(store.json_files(AUDIT), 1):
        content, name = store.read_bytes(f"{AUDIT}/{file}") or b"", file.removesuffix(".json")
        try:
            entry = AuditEntry.model_validate_json(content)
        except ValidationError:
            entry = None
        if entry is None or int(name) != number or (entry.number, entry.before) != (number, before):
            raise StoreUnwell(
                f"the audit log of store {store.root!r} was changed: entry {number} is missing or is not what the next "
                "one says; look into the last backup for it"
            )
        before = hashlib.sha256(content).hexdigest()
        yield entry


def cut_off(store: Store, entries: int, sha256: str) -> str:
    """One line when the log has not, at this place, the entry that a run or a backup saw last; otherwise empty."""
    content = store.read_bytes(f"{AUDIT}/{entries:08}.json") if entries else b""
    if not entries or (content and hashlib.sha256(content).hexdigest() == sha256):
        return ""
    return f"the audit log of store {store.root!r} was cut: a run saw {entries:,} entries, and the last is not there"


def known_people(store: Store) -> dict[str, str]:
    """Keyed hash -> name, of the users of this machine and of the reviewers in the store; names are in no entry."""
    names = {user.pw_name for user in pwd.getpwall()} | {*store.read("reviews", ["reviewer"])["reviewer"].drop_nulls()}
    return {pseudonym(store, name): name for name in sorted(names - {""})}


def _user() -> str:
    with suppress(KeyError, OSError):  # in a container the user may have no name
        return getpass.getuser()
    return ""


SUPERSEDED, SHARE = "superseded", "share_record"
REPEATS = {
    SUPERSEDED: "a later line of the same conversation or vote replaced it",
    SHARE: "a shared link, or a comparison without a vote; it repeats conversations that other lines hold",
}
"""Reasons of dropped lines that repeat other lines -> what they mean."""
_LINE_OUTCOMES = """
    -- a row is one input line
    SELECT source, line, outcome, reason FROM line_outcomes ORDER BY source, line
"""
_LINES_OF_OUTCOMES = """
    -- a row is one outcome with one reason: the number of lines that have it, how many of these wait only for a review,
    -- and how many have a second outcome, which would be an error
    SELECT
        outcome,
        reason,
        count(*) AS number,
        count(*) FILTER (held) AS held,
        count(*) FILTER (outcomes > 1) AS with_two
    FROM (
        SELECT first(outcome) AS outcome, first(reason) AS reason, bool_or(held) AS held, count(*) AS outcomes
        FROM line_outcomes
        GROUP BY source, line
    )
    GROUP BY outcome, reason
    ORDER BY number DESC, reason
"""
_HELD_CONVERSATIONS = """
    -- the number of conversations that wait only for a review
    SELECT count(*) FROM decisions WHERE held AND item_kind = 'conversation'
"""
_UNREAD_PARTS = """
    -- a row is one kind of parts that were not read, and the number of such parts
    SELECT kind, count(*) AS number
    FROM (SELECT unnest(unread_parts) AS kind FROM conversations)
    WHERE kind IS NOT NULL
    GROUP BY kind
    ORDER BY number DESC, kind
"""
_SAID: dict[str, dict[str, str]] = read_yaml(Path(__file__).with_name("rule_words.yaml"))


def line_outcomes(store: Store) -> pl.DataFrame:
    """source, line, outcome (kept, dropped, rejected) and reason (null when kept) of every line, once each."""
    return pl.concat(store.batches(_LINE_OUTCOMES))


def funnel(store: Store) -> Funnel:
    """Counts of `line_outcomes`, and the number of lines that wait only for a review.

    Raises AssertionError when the counts do not add up; nothing may be released then.
    """
    counts = store.ask(_LINES_OF_OUTCOMES)
    assert counts["with_two"].sum() == 0, "a line has two outcomes"
    held_conversations = store.ask(_HELD_CONVERSATIONS).item()
    totals = {
        outcome: int(counts.filter(outcome=outcome)["number"].sum()) for outcome in ("kept", "dropped", "rejected")
    }
    by_reason = {
        f"{outcome}_by": dict(counts.filter(outcome=outcome).select("reason", "number").iter_rows())
        for outcome in ("dropped", "rejected")
    }
    lines, held_lines = counts["number"].sum(), counts["held"].sum()
    return Funnel(lines=lines, **totals, **by_reason, held=held_lines, held_conversations=held_conversations)


def unread_parts(store: Store) -> dict[str, int]:
    """Kind -> number of parts of conversations that were not read, the most first."""
    return dict(store.ask(_UNREAD_PARTS).iter_rows())


def reason_texts(policy: Policy) -> dict[str, str]:
    """Reason -> what it means, for the rules of a policy and for rejected lines."""
    texts: dict[str, str] = {}
    for policy_rule in policy.rules:
        rule_words = (
            f"{rule_text(policy_rule)}, with {policy_rule.models} models alone"
            if policy_rule.models
            else rule_text(policy_rule)
        )
        texts[policy_rule.reason] = "; or ".join(filter(None, (texts.get(policy_rule.reason), rule_words)))
    texts |= {
        f"unmeasured_{rule.signal.partition('.')[0]}": "no measurement, which counts against it"
        for rule in policy.rules
    }
    texts |= {rule.reason: rule.in_words() for rule in policy.rules_over_set}
    return texts | REPEATS | REJECT_TEXTS


def comparison(rule: Rule) -> str:
    """The comparison of a rule in words, such as `0.5 or more`."""
    if rule.at_least is not None:
        return f"{rule.at_least} or more"
    if rule.at_most is not None:
        return f"{rule.at_most} or less"
    if rule.contains_any is not None:
        return f"holds {'any of ' + ', '.join(rule.contains_any) if rule.contains_any else 'anything'}"
    if rule.other_than is not None:
        return f"is none of {', '.join(rule.other_than)}"
    return f"is {str(rule.equals).lower()}"


def rule_text(rule: Rule) -> str:
    """The rule in words: `a face with confidence 0.5 or more in an image`."""
    where = f" {_SAID['where'][rule.over]}" if rule.over in _SAID["where"] else ""
    if rule.equals is not None and (words := _SAID["words"].get(f"{rule.signal} {str(rule.equals).lower()}")):
        return words
    words = _SAID["words"].get(rule.signal, "")
    if rule.contains_any is not None and words:
        return words.format(f" ({', '.join(rule.contains_any)})" if rule.contains_any else "") + where
    if rule.other_than is not None and words:
        return words.format(f" (none of {', '.join(rule.other_than)})") + where
    if rule.equals is None and words:
        return words.format(comparison(rule)) + where
    return f"{rule.signal} of the {rule.over.replace('_', ' ')}: {comparison(rule)}"
