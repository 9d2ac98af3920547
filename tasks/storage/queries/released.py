"""Conversations and battles in the form in which they are released: redacted and with models renamed by the policy.

All stages after `decide` use this form. Also which conversations the decisions keep, which of these are unsafe, and
whether the decisions are up to date.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import chain

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import ValidationError

from schemas.errors import BadInput
from schemas.items.conversation import UNDATED_BEFORE, Conversation
from schemas.policy import Policy, Rename
from schemas.release import Unmeasured
from schemas.signals import MeasuredOn
from schemas.tables import SIGNAL_ENTRIES
from tasks.storage.content_id import Distinct
from tasks.storage.parquet import compact
from tasks.storage.queries.signals import Versions, signal_values
from tasks.storage.tables import Store, frame_schema

_MODELS = ("model", "model_a", "model_b")


def conversations_as_released(store: Store, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """The table `conversations` with redacted conversations in place of their originals, also those that are dropped.

    Raises BadInput when a redaction that a decision names is missing, as after a run that was killed between redacting
    and deciding; nothing may be released then.
    """
    names = frame_schema(Conversation).names() if columns is None else columns
    read = list(dict.fromkeys([*names, "conversation_id", "tstamp", "model"]))  # what order and released names need
    released = pl.concat([store.empty("conversations", read), *released_slices(store, read)])
    return released_names(store, released.sort("tstamp", "conversation_id")).select(names)


def released_slices(store: Store, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Rows of `conversations_as_released` with models as logged, some at a time, redacted ones last; raises as it."""
    decided = store.read_slices("decisions", ["item_kind", "item_id", "redactions", "policy_hash"])
    wanted = pl.DataFrame(schema={"policy_hash": pl.String, "conversation_id": pl.String})
    for rows in decided:
        redacted = rows.filter(pl.col("redactions").list.len() > 0, item_kind="conversation")
        wanted = wanted.vstack(redacted.select("policy_hash", conversation_id="item_id"))
    for rows in store.read_slices("conversations", columns):
        yield rows.join(wanted, on="conversation_id", how="anti", maintain_order="left")
    made = 0
    for rows in store.read_slices("redacted_conversations", [*columns, "policy_hash"]):
        some = rows.join(wanted, on=["conversation_id", "policy_hash"], how="semi", maintain_order="left")
        made += some.height
        yield some.drop("policy_hash")
    if made < wanted.height:
        raise BadInput(f"store {store.root!r} lacks redactions that its decisions name; run `curate decide` again")


def battles_as_released(store: Store) -> pl.DataFrame:
    """The table `battles` with the models' released names."""
    return released_names(store, store.read("battles"))


_DAYS = """
    -- a row is a day with conversations, and whether one of them has a time
    SELECT day, bool_or(tstamp >= $undated_before) AS has_times
    FROM conversations
    GROUP BY day
    ORDER BY day
"""


def days(store: Store) -> list[date]:
    """The days of the conversations, sorted. Conversations without a time count only when none has one."""
    days_of_all = store.ask(_DAYS, undated_before=UNDATED_BEFORE)
    days_with_times = days_of_all.filter("has_times")
    counted_days = days_with_times if days_with_times.height else days_of_all
    return counted_days["day"].to_list()


def release_version(store: Store, named: str | None) -> str:
    """The version that a release of the store gets: the one that is named, or the last day of its logs."""
    return named or f"{days(store)[-1]:%Y.%m.%d}"


def decided_hash(store: Store) -> str | None:
    """Hash of the policy that made the decisions; None when there are no decisions."""
    hashes = (rows["policy_hash"] for rows in store.read_slices("decisions", ["policy_hash"], 1))
    return next((str(of_rows[0]) for of_rows in hashes if len(of_rows)), None)


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
            applies &= pl.col("tstamp") >= UNDATED_BEFORE
        if rename.since is not None:
            applies &= pl.col("tstamp") >= rename.since
        if rename.until is not None:
            applies &= pl.col("tstamp") < rename.until
        name = pl.when(applies).then(pl.lit(rename.to)).otherwise(name)
    return name.alias(column)


_MARK = "policies/decided_about.json"
_IDS = {MeasuredOn.DOCUMENTS: "document_id", MeasuredOn.PROMPT: "prompt_id"}
"""Items whose missing values become nulls in a release; other missing values drop the conversation."""
_UNSAFE = ["moderation", "image_moderation", "nsfw_image"]
"""Reasons of rules that policies for internal use tag and others drop."""


def kept_conversations(store: Store, by: str = "keep", columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Conversations that the policy keeps, in released form, earliest first, with their preset dataset.

    `by` is the column of decisions that says so: `keep`, or `kept_by_screening` for those that its first pass keeps.
    With `columns`, among them conversation_id, only these; without texts it takes a tenth of the memory.
    """
    kept = _kept(store, by)
    return conversations_as_released(store, columns).join(kept, on="conversation_id", maintain_order="left")


def kept_slices(store: Store, columns: Sequence[str], by: str = "keep") -> Iterator[pl.DataFrame]:
    """The same some at a time, in the order of the store, with models as logged; `columns` has conversation_id."""
    kept = Distinct()
    for some in _each_kept(store, "conversation", by):
        kept.add(some["item_id"])
    for rows in released_slices(store, columns):
        yield rows.filter(kept.hold(pl.col("conversation_id")))


def kept_rows(store: Store, places: npt.NDArray[np.uint32], columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """The rows of `kept_slices` with these numbers, which are sorted, some at a time."""
    start = 0
    for rows in kept_slices(store, columns):
        yield rows[places[slice(*np.searchsorted(places, [start, start + rows.height]))] - np.uint32(start)]
        start += rows.height


def with_released_turns(store: Store, kept: pl.DataFrame) -> pl.DataFrame:
    """Kept conversations with their `turns` in released form, which are read some at a time."""
    columns, wanted = ["conversation_id", "turns"], kept["conversation_id"].implode()
    read = (rows.filter(pl.col("conversation_id").is_in(wanted)) for rows in released_slices(store, columns))
    turns = pl.concat([store.empty("conversations", columns), *map(compact, read)])
    return kept.join(turns, on="conversation_id", how="left", maintain_order="left")


def _kept(store: Store, by: str) -> pl.DataFrame:
    """preset_dataset and conversation_id of what is kept."""
    return kept_of(store, "conversation", by).rename({"item_id": "conversation_id"})


def kept_of(store: Store, kind: str, by: str = "keep") -> pl.DataFrame:
    """preset_dataset and item_id of what is kept, of one kind."""
    return pl.concat(_each_kept(store, kind, by))


def _each_kept(store: Store, kind: str, by: str) -> Iterator[pl.DataFrame]:
    """The same some at a time."""
    names = ["item_kind", "item_id", by, "preset_dataset"]
    read = chain([store.empty("decisions", names)], store.read_slices("decisions", names))
    return (rows.filter(by, item_kind=kind).select("preset_dataset", "item_id") for rows in read)


def shown_presets(store: Store) -> pl.DataFrame:
    """conversation_id and preset_dataset of kept conversations that show one."""
    presets = (rows.drop_nulls("preset_dataset") for rows in _each_kept(store, "conversation", "keep"))
    return pl.concat(presets).rename({"item_id": "conversation_id"})


def logged_on(rows: pl.DataFrame, since: date | None, until: date | None) -> pl.DataFrame:
    """Rows whose `day` lies from `since` to `until`, both included; all rows without a window."""
    return (
        rows
        if (since, until) == (None, None)
        else rows.filter(pl.col("day").is_between(since or date.min, until or date.max))
    )


def unsafe_documents(store: Store, conversations: pl.DataFrame, versions: Versions) -> pl.Series:
    """document_ids of the conversations that are unsafe.

    Moderation flags a message or did not measure one, or a rule about safety fired and only tagged the conversation.
    """
    said = conversations.select("document_id", "turns").explode("turns")
    said = said.select("document_id", content_id=pl.col("turns").struct.field("text_id"))
    flagged = signal_values(store, "moderation", versions["moderation"], ["flagged_categories"], said["content_id"])
    harmful = pl.col("flagged_categories").is_null() | (pl.col("flagged_categories").list.len() > 0)
    by_signal = said.join(flagged, on="content_id", how="left").filter(harmful)["document_id"]
    tagged = store.read("decisions", ["item_kind", "item_id", "tags"]).filter(item_kind="conversation")
    tagged = tagged.filter(pl.col("tags").list.eval(pl.element().is_in(_UNSAFE)).list.any())
    by_rule = conversations.join(tagged, left_on="conversation_id", right_on="item_id", how="semi")["document_id"]
    return pl.concat([by_signal, by_rule]).unique()


def unmeasured(store: Store, versions: Versions, providers: Mapping[str, str]) -> dict[str, Unmeasured]:
    """Signal -> how many kept prompts or documents lack a value of a chosen provider, where some do."""
    signals = {name: _IDS[entry.on] for name, entry in SIGNAL_ENTRIES.items() if name in providers and entry.on in _IDS}
    if not signals:
        return {}
    kept = store.read("decisions", ["item_kind", "item_id", "keep"]).filter("keep", item_kind="conversation")["item_id"]
    released = conversations_as_released(store).filter(pl.col("conversation_id").is_in(kept.implode()))
    found = {}
    for name, column in signals.items():
        ids = released[column].unique()
        lacking = ids.len() - int(
            ids.is_in(signal_values(store, name, versions[name], [])["content_id"].implode()).sum()
        )
        if lacking:
            found[name] = Unmeasured(provider=providers[name], items=ids.len(), unmeasured=lacking)
    return found


def mark_decided(store: Store) -> None:
    """Record that the decisions are about the present conversations and battles."""
    store.write_bytes(_MARK, json.dumps(_parts(store)).encode())


def is_decided(store: Store) -> bool:
    """Whether no conversation or battle has come, changed or gone since `mark_decided`; true before the first."""
    mark = store.read_bytes(_MARK)
    return mark is None or json.loads(mark) == _parts(store)


def _parts(store: Store) -> dict[str, list[str]]:
    return {table: store.parts(table) for table in ("conversations", "battles")}
