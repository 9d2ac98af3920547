"""Conversations and battles in the form in which they are released: redacted and with models renamed by the policy.

All stages after `decide` use this form. Also which conversations the decisions keep, which of these are unsafe, and
whether the decisions are up to date.
"""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import date
from typing import Any, NamedTuple

import polars as pl
from pydantic import ValidationError

from schemas.errors import BadInput
from schemas.items.conversation import UNDATED_BEFORE, UNDATED_FROM
from schemas.policy import Policy, Rename
from schemas.release import Unmeasured
from schemas.signals import MeasuredOn
from schemas.tables import SIGNAL_ENTRIES
from tasks.runtime.times import IS_DATED
from tasks.storage.queries.signals import Versions, lacking_ids, versions_in_use
from tasks.storage.tables import Store

_MODELS = ("model", "model_a", "model_b")


_MISSING_REDACTIONS = """
    -- a row is one redaction that a decision names and that is not stored
    SELECT conversation_id FROM named_redactions ANTI JOIN redacted_conversations USING (conversation_id, policy_hash)
"""
_RELEASED = """
    -- a row is one conversation as it would be released, also if it is dropped; without fields of lists as columns
    SELECT COLUMNS('^[a-z_]+$') FROM released
"""
_KEPT = """
    -- a row is one conversation that the decisions keep, as it is released
    SELECT COLUMNS('^[a-z_]+$') FROM kept
"""


def conversations_as_released(store: Store) -> pl.DataFrame:
    """The table `conversations` with redacted conversations in place of their originals, also those that are dropped.

    Raises as `released_rows`.
    """
    return released_rows(store, _RELEASED)


def kept_conversations(store: Store) -> pl.DataFrame:
    """Conversations that the policy keeps, in released form, with `preset_dataset`; raises as `released_rows`."""
    return released_rows(store, _KEPT)


def released_rows(store: Store, query: str, **values: Any) -> pl.DataFrame:
    """All rows of a query over the views `released` or `kept`, earliest first, with models renamed.

    The query gives `tstamp` and `conversation_id`, too. Raises BadInput when a redaction that a decision names is
    missing.
    """
    require_redactions(store)
    rows = pl.concat(store.batches(query, **values))
    return released_names(store, rows.sort("tstamp", "conversation_id"))


def require_redactions(store: Store) -> None:
    """Raises BadInput when a redaction that a decision names is missing.

    That is so after a run that was killed between redacting and deciding; nothing may be released then.
    """
    if store.ask(_MISSING_REDACTIONS).height:
        raise BadInput(f"store {store.root!r} lacks redactions that its decisions name; run `curate decide` again")


def battles_as_released(store: Store) -> pl.DataFrame:
    """The table `battles` with the models' released names."""
    return released_names(store, store.read("battles"))


_DAYS = """
    -- a row is a day with conversations, and whether one of them has a time
    SELECT day, bool_or(tstamp < $undated_from OR tstamp >= $undated_before) AS has_times
    FROM conversations
    GROUP BY day
    ORDER BY day
"""


def days(store: Store) -> list[date]:
    """The days of the conversations, sorted. Conversations without a time count only when none has one."""
    days_of_all = store.ask(_DAYS, undated_from=UNDATED_FROM, undated_before=UNDATED_BEFORE)
    days_with_times = days_of_all.filter("has_times")
    counted_days = days_with_times if days_with_times.height else days_of_all
    return counted_days["day"].to_list()


def release_version(store: Store, named: str | None) -> str:
    """The version that a release of the store gets: the one that is named, or the last day of its logs."""
    return named or f"{days(store)[-1]:%Y.%m.%d}"


_DAY_VERSION = re.compile(
    r"(?P<day>\d{4}(?P<sign>[.-])\d{2}(?P=sign)\d{2})(?:-attempt(?P<attempt>\d+)|\.(?P<again>\d+))?"
)
"""A version that is named by a day; `again` is how earlier versions counted attempts, from `.1` for the second."""


class DayVersion(NamedTuple):
    """A version that is named by a day, as it spells it."""

    day: str
    attempt: int
    sign: str
    """Between year, month and day."""


def by_day(version: str) -> DayVersion | None:
    """The day and attempt that a version names; None for one that names no day."""
    named = _DAY_VERSION.fullmatch(version)
    if named is None:
        return None
    attempt = int(named["attempt"]) if named["attempt"] else int(named["again"] or 0) + 1
    return DayVersion(named["day"], attempt, named["sign"])


def day_of_version(version: str) -> date | None:
    """The day that a version names, if there is such a day."""
    named = by_day(version)
    with suppress(ValueError):
        return date.fromisoformat(named.day.replace(".", "-")) if named else None
    return None


def attempt_of_day(version: str, attempt: int) -> str:
    """The version of a further release under the name of a day, or of another version."""
    return version if attempt == 1 else f"{version}-attempt{attempt}"


def decided_hash(store: Store) -> str | None:
    """Hash of the policy that made the decisions, all of which have it; None when there are no decisions."""
    hashes = store.ask("SELECT policy_hash FROM decisions LIMIT 1")["policy_hash"]
    return hashes[0] if len(hashes) else None


def decided_policy(store: Store) -> Policy | None:
    """The policy that made the decisions; None when there are no decisions.

    Raises BadInput for one of another version, which is None in a store that may have any layout.
    """
    decided = decided_hash(store)
    stored = None if decided is None else store.read_bytes(f"policies/{decided}.json")
    try:
        return None if stored is None else Policy.model_validate(json.loads(stored))
    except ValidationError as error:
        if store.any_layout:
            return None
        named = ".".join(map(str, error.errors()[0]["loc"]))
        raise BadInput(
            f"store {store.root!r} was decided by a policy of another version ({named}); run `curate decide` again"
        ) from None


def require_decided_policy(store: Store) -> Policy:
    """The policy that made the decisions. Raises BadInput without it: models would have the names of the logs."""
    policy = decided_policy(store)
    if policy is None:
        raise BadInput(f"store {store.root!r} lacks the policy that made its decisions; run `curate decide` again")
    return policy


def released_names(store: Store, items: pl.DataFrame) -> pl.DataFrame:
    """Rows of `conversations` or `battles` with models renamed by the policy that made the decisions."""
    policy = decided_policy(store)
    return items if policy is None else renamed(items, policy.renames)


def renamed(items: pl.DataFrame, renames: Iterable[Rename]) -> pl.DataFrame:
    """The rows with models renamed by the renames that apply at the row's `tstamp`; a name is changed at most once.

    Renames with `since` or `until` do not apply to rows without a time.
    """
    renames = list(renames)
    columns = [name for name in _MODELS if name in items.columns]
    return items.with_columns(_name(column, renames) for column in columns) if renames else items


def _name(column: str, renames: list[Rename]) -> pl.Expr:
    name = pl.col(column)
    for rename in renames:
        applies = pl.col(column) == rename.model
        if rename.since or rename.until:
            applies &= IS_DATED
        if rename.since is not None:
            applies &= pl.col("tstamp") >= rename.since
        if rename.until is not None:
            applies &= pl.col("tstamp") < rename.until
        name = pl.when(applies).then(pl.lit(rename.to)).otherwise(name)
    return name.alias(column)


_MARK = "policies/decided_about.json"
_UNSAFE = ["moderation", "image_moderation", "nsfw_image"]
"""Reasons of rules that policies for internal use tag and others drop."""


def logged_on(rows: pl.DataFrame, since: date | None, until: date | None) -> pl.DataFrame:
    """Rows whose `day` lies from `since` to `until`, both included; all rows without a window."""
    return (
        rows
        if (since, until) == (None, None)
        else rows.filter(pl.col("day").is_between(since or date.min, until or date.max))
    )


_UNSAFE_DOCUMENTS = """
    -- a row is one of the wanted documents, of which a kept conversation has a message that moderation flags or did not
    -- measure, or is dropped by none of the rules about safety because they only tag it
    SELECT document_id
    FROM (SELECT document_id, unnest("turns.text_id") AS content_id FROM kept SEMI JOIN wanted USING (document_id))
    LEFT JOIN moderations USING (content_id)
    WHERE flagged_categories IS NULL OR len(flagged_categories) > 0
    UNION
    SELECT document_id
    FROM kept SEMI JOIN wanted USING (document_id)
    JOIN decisions ON item_kind = 'conversation' AND item_id = conversation_id
    WHERE list_has_any(tags, $unsafe_reasons)
"""
_KEPT_IDS = {
    MeasuredOn.DOCUMENTS: "SELECT document_id AS content_id FROM kept",
    MeasuredOn.PROMPT: "SELECT prompt_id AS content_id FROM kept",
}
"""Kind of item -> query for the ids of those that are kept. Their missing values become nulls in a release; other
missing values drop the conversation."""
_NUMBERS_OF_ITEMS = """
    -- a row is a kind of item, and how many are kept
    SELECT 'documents' AS kind, count(DISTINCT document_id) AS items FROM kept
    UNION ALL
    SELECT 'prompt', count(DISTINCT prompt_id) FROM kept
"""


def unsafe_documents(store: Store, documents: pl.Series, versions: Versions) -> pl.Series:
    """Documents among the given ones on which a kept conversation is unsafe.

    Moderation flags a message or did not measure one, or a rule about safety fired and only tagged the conversation.
    """
    document_ids = pl.DataFrame({"document_id": documents.unique()}, schema={"document_id": pl.String})
    values = {"versions": versions_in_use(versions), "wanted": document_ids, "unsafe_reasons": _UNSAFE}
    return store.ask(_UNSAFE_DOCUMENTS, **values)["document_id"]


def unmeasured(store: Store, versions: Versions, providers: Mapping[str, str]) -> dict[str, Unmeasured]:
    """Signal -> how many kept prompts or documents lack a value of a chosen provider, where some do."""
    lacking = dict[str, Unmeasured]()
    for name, provider in providers.items():
        entry = SIGNAL_ENTRIES.get(name)
        if entry is None or entry.on not in _KEPT_IDS:
            continue
        frames = lacking_ids(store, {name: versions[name]}, _KEPT_IDS[entry.on], {})
        ids_lacking = sum(rows.height for rows in frames)
        if ids_lacking:
            items = store.ask(_NUMBERS_OF_ITEMS).filter(kind=entry.on.value)["items"][0]
            lacking[name] = Unmeasured(provider=provider, items=items, unmeasured=ids_lacking)
    return lacking


def mark_decided(store: Store) -> None:
    """Record that the decisions are about the present conversations and battles."""
    store.write_bytes(_MARK, json.dumps(_parts(store)).encode())


def is_decided(store: Store) -> bool:
    """Whether no conversation or battle has come, changed or gone since `mark_decided`.

    False where nothing was ever decided, and for decisions of 0.1, which say not what they are about.
    """
    mark = store.read_bytes(_MARK)
    return mark is not None and json.loads(mark) == _parts(store)


def _parts(store: Store) -> dict[str, list[str]]:
    return {table: store.parts(table) for table in ("conversations", "battles")}
