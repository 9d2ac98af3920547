"""Finds what goes in a takedown: ids that were taken down, and ids that nothing which stays holds any more.

In: the tables and the tombstones of a store, and nothing else, so what a killed sweep left goes with the next one. Out:
`Going`, and for a table the condition on the rows that go (`unwanted_rows`). A further place that keeps ids from going
is a SELECT in `_STAYING`; a further table says in `schemas.tables` which of its columns hold or mention a kind of id. A
further kind is a value of `schemas.row.Held` with an entry in `_STAYING`, and in `_TAKEN_DOWN` if it is taken down
itself.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from schemas.items.reject import TakenDownKind
from schemas.row import BY_NAME, Held
from schemas.tables import TABLES
from tasks.ingest.quarantine import PRESET, quarantine_key, taken_down_in
from tasks.storage.keyed_ids import Tombstones
from tasks.storage.layout import unknown_tables
from tasks.storage.parts import names_any
from tasks.storage.tables import Store, frame_schema

_NAMED_IDS = """
    -- a row is one id of a kind that a table names
    SELECT DISTINCT id FROM ({named_ids}) WHERE id IS NOT NULL
"""
_UNHELD_IDS = """
    -- a row is one id of a kind that a table holds, and nothing that stays; the names of presets stay, although no line
    -- holds them
    SELECT DISTINCT id FROM ({named_ids}) AS held ANTI JOIN ({staying}) AS staying ON {logged_id} = stays
    WHERE NOT starts_with(id, $preset)
"""
LOGGED_NAME = r"regexp_replace(id, '\.[a-z]+$', '')"
"""The name that lines have for an image, of the name of its file."""
_FURTHER_IDS = {
    Held.CONVERSATION: "SELECT duplicate_of AS id FROM decisions",
    Held.IMAGE: 'SELECT content_id AS id FROM "signals/image_text"',
    # rejects without a line are of images, or of parts of messages in a log file
    Held.IMAGE_NAME: "SELECT source AS id FROM rejects ANTI JOIN log_files USING (source) WHERE line IS NULL",
}
"""Kind -> query for ids beside those of the columns in which tables hold the kind."""
_FORM = """
    SELECT conversation_id, "turns.text_id" AS text_ids, prompt_id, document_id, image_ids,
        "served.thinking_id" AS thinking_ids
    FROM {table} ANTI JOIN gone_conversations ON conversation_id = gone_conversations.id
"""
_FORMS = f"({_FORM.format(table='conversations')} UNION ALL {_FORM.format(table='redacted_conversations')})"
_VOTES = """(
    SELECT judge, vote_reason_id FROM battles
    ANTI JOIN gone_conversations AS gone_a ON conversation_a = gone_a.id
    ANTI JOIN gone_conversations AS gone_b ON conversation_b = gone_b.id
)"""
_STAYING = {
    Held.CONVERSATION: "SELECT conversation_id AS stays FROM conversations",
    Held.IMAGE_NAME: """
        SELECT unnest(images) AS stays FROM sightings ANTI JOIN gone_lines ON conv_id = gone_lines.id
        UNION ALL -- no line names what a model drew; an item may be of no stored conversation, so it goes only if taken
        SELECT name FROM generated_images ANTI JOIN (
            SELECT description_id FROM generated_items SEMI JOIN taken_conversations ON item_id = taken_conversations.id
        ) AS gone_items USING (description_id)
    """,
    Held.IMAGE: """
        SELECT unnest([shown.image_id, redacted_images.image_id]) AS stays
        FROM (
            SELECT unnest(image_ids) AS image_id FROM {forms}
            UNION ALL
            SELECT image_id FROM image_files ANTI JOIN gone_names ON name = gone_names.id
        ) AS shown
        ANTI JOIN taken_images ON shown.image_id = taken_images.id
        LEFT JOIN redacted_images ON source_image_id = shown.image_id
    """,
    Held.CONTENT: """
        SELECT unnest(list_concat(text_ids, [prompt_id, document_id], thinking_ids)) AS stays FROM {forms}
        UNION ALL
        SELECT image_id
        FROM (
            SELECT unnest(image_ids) AS image_id FROM {forms}
            UNION ALL
            SELECT image_id FROM image_files
            UNION ALL
            SELECT image_id FROM redacted_images
        ) ANTI JOIN gone_images ON image_id = gone_images.id
        UNION ALL
        SELECT text_id(text)
        FROM "signals/image_text" ANTI JOIN gone_images ON content_id = gone_images.id
        WHERE text <> ''
        UNION ALL
        SELECT text_id(text) -- a question may be of no stored conversation, so its texts go only if it is taken
        FROM (
            SELECT question_id, text FROM answers
            UNION ALL
            SELECT question_id, text FROM verdicts
            UNION ALL
            SELECT question_id, text FROM screened_texts
        ) ANTI JOIN taken_conversations ON question_id = taken_conversations.id
        UNION ALL
        SELECT vote_reason_id FROM {votes}
    """,
    Held.USER: "SELECT judge AS stays FROM {votes}",
}
"""Kind -> query for the ids that stay, also where they were taken down. Lines keep names of images, names keep images,
conversations, votes and images keep texts, so a kind comes after those that keep it."""

_FRAMES = {
    Held.LINE: "gone_lines",
    Held.CONVERSATION: "gone_conversations",
    Held.IMAGE_NAME: "gone_names",
    Held.IMAGE: "gone_images",
}
"""Kind -> the name under which later queries have the ids that go."""
_TAKEN_DOWN: dict[Held, Callable[[Tombstones, Iterable[str]], set[str]]] = {
    Held.CONVERSATION: Tombstones.conversations,
    Held.IMAGE: lambda tombstones, ids: tombstones.holds(TakenDownKind.IMAGE, ids),
    Held.IMAGE_NAME: lambda tombstones, names: {
        name for name in names if tombstones.holds(TakenDownKind.IMAGE, [quarantine_key(name)])
    },
    Held.USER: lambda tombstones, ids: tombstones.holds(TakenDownKind.USER, ids),
    Held.WITHHELD: lambda tombstones, keys: tombstones.holds(TakenDownKind.CONVERSATION, keys),
}
"""Kind -> a function that returns those of some ids that were taken down."""
KIND_BY_NAME = {**BY_NAME, "conv_id": Held.CONVERSATION, "judge": Held.USER}
"""Name of a column of a table that this version does not know -> what it names; `judge` is a voter, so a user."""


class Going(NamedTuple):
    """Ids by which rows go, by kind; each is one that some table names."""

    taken: Mapping[Held, pl.Series]
    """Ids that were taken down. A row that names one goes from every table."""
    gone: Mapping[Held, pl.Series]
    """Ids in `taken`, and ids that nothing which stays holds. A row goes from a table that holds one."""


def going(store: Store, tombstones: Tombstones) -> Going:
    """Ids by which rows go; they depend only on the tables and the tombstones."""
    taken = {kind: _taken(store, kind, tombstones) for kind in _TAKEN_DOWN}
    gone = {Held.LINE: _ids(taken_down_in(store, store.parts("sightings"), tombstones))}
    for kind in _STAYING:
        # Each frame has the ids of an earlier kind that go, by which this kind's query leaves out what goes.
        frames = {name: gone[kept_by].to_frame("id") for kept_by, name in _FRAMES.items() if kept_by in gone}
        frames["taken_conversations"] = taken[Held.CONVERSATION].to_frame("id")
        frames["taken_images"] = taken[Held.IMAGE].to_frame("id")
        unheld = _unheld(store, kind, frames)
        gone[kind] = pl.concat([unheld, taken[kind]]).unique() if kind in taken else unheld
    return Going(taken, gone)


def _taken(store: Store, kind: Held, tombstones: Tombstones) -> pl.Series:
    """Ids of a kind that a table names and that were taken down."""
    taken_ids = set[str]()
    if tombstones:
        query = _NAMED_IDS.format(named_ids=named_ids(kind, mentioned=True))
        for rows in store.batches(query, elsewhere=ids_elsewhere(store, kind)):
            taken_ids |= _TAKEN_DOWN[kind](tombstones, rows["id"])
    return _ids(taken_ids)


def _unheld(store: Store, kind: Held, frames: Mapping[str, pl.DataFrame]) -> pl.Series:
    """Ids of a kind that a table holds, and nothing that stays."""
    query = _UNHELD_IDS.format(
        named_ids=named_ids(kind, mentioned=False),
        staying=_STAYING[kind].format(forms=_FORMS, votes=_VOTES),
        logged_id=LOGGED_NAME if kind is Held.IMAGE_NAME else "id",
    )
    values: dict[str, Any] = {"elsewhere": ids_elsewhere(store, kind), "preset": PRESET, **frames}
    return pl.concat(store.batches(query, **values))["id"]


def _ids(ids: Iterable[str]) -> pl.Series:
    return pl.Series("id", sorted(ids), dtype=pl.String)


def named_ids(kind: Held, mentioned: bool) -> str:
    """A query for the ids of a kind that tables hold or, with `mentioned`, mention as well; some are there often."""
    # A SELECT gives the ids of one column of a table.
    selects = ["SELECT id FROM elsewhere", *([_FURTHER_IDS[kind]] if kind in _FURTHER_IDS else [])]
    for table, declared in TABLES.items():
        for column in declared.named(kind):
            if column in declared.holds or mentioned:
                is_list = isinstance(frame_schema(declared.row)[column], pl.List)
                ids = f"unnest({column})" if is_list else column
                selects.append(f'SELECT {ids} AS id FROM "{table}"')  # noqa: S608 - names of our own
    return " UNION ALL ".join(selects)


def ids_elsewhere(store: Store, kind: Held) -> Iterator[pl.DataFrame]:
    """Ids of a kind in tables that this version does not know."""
    yield pl.DataFrame(schema={"id": pl.String})
    for table in unknown_tables(store):
        for name in known_keys(store, table):
            if KIND_BY_NAME[name] is kind:
                for rows in store.read_parts(table, [name]):
                    yield rows.rename({name: "id"})


def known_keys(store: Store, table: str) -> list[str]:
    """Columns by which a table that this version does not know is searched; its parts have the same ones."""
    return [name for part in store.parts(table)[:1] for name in keys_of_part(store, table, part)]


def keys_of_part(store: Store, table: str, part: str) -> list[str]:
    """Columns of a part whose names tell what they name."""
    schema = store.part_schema(table, part)
    return [name for name in KIND_BY_NAME if name in schema.names and pa.types.is_string(schema.field(name).type)]


def unwanted_rows(store: Store, table: str, ids: Going) -> pl.Expr | None:
    """Condition on rows of a table to remove; None for a table that holds nothing of single conversations."""
    if table not in TABLES:
        return _unwanted_elsewhere(known_keys(store, table), ids)
    declared = TABLES[table]
    # A test says for each row whether one of its columns names something that goes.
    tests = [_unheld_row(table, column, kind, ids) for column, kind in declared.holds.items()]
    mentions = {column: kind for column, kind in declared.mentions.items() if kind in ids.taken}
    tests += [names_any(table, column, ids.taken[kind]) for column, kind in mentions.items()]
    return pl.any_horizontal(tests) if tests else None


def _unheld_row(table: str, column: str, kind: Held, ids: Going) -> pl.Expr:
    """Rows whose `column` names something that does not stay."""
    match kind:
        case Held.PLACE:  # rejects of images; those of lines have only the place of the line
            return pl.col("line").is_null() & names_any(table, column, ids.gone[Held.IMAGE_NAME])
        case Held.WITHHELD:
            return (pl.col("kind") == "conversation") & names_any(table, column, ids.taken[kind])
    return names_any(table, column, ids.gone[kind])


def _unwanted_elsewhere(keys: Iterable[str], ids: Going) -> pl.Expr:
    """Condition on rows to remove in a table that this version does not know, by its columns that name something.

    Rows of conversations and users that were taken down, and of images that do not stay. Of texts that do not stay only
    where no conversation is named: a person's verdict may be about a text that nothing else has.
    """
    kinds = {name: KIND_BY_NAME[name] for name in keys}
    # A row with a conv_id alone is about a line of a log, not about a conversation that may keep its text.
    has_conversations = any(BY_NAME.get(name) is Held.CONVERSATION for name in kinds)
    tests = [pl.lit(False)]
    for name, kind in kinds.items():
        if kind in (Held.CONVERSATION, Held.USER):
            tests.append(pl.col(name).is_in(ids.taken[kind].implode()))
        elif kind is Held.IMAGE or not has_conversations:
            tests.append(pl.col(name).is_in(ids.gone[kind].implode()))
    return pl.any_horizontal(tests)
