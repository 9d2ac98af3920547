"""Answers a request of access: what a store, its releases and the exports in it hold of a person.

In: a store, and a person as a takedown takes one: a user id, or the IP address of raw logs; `find_scope` says what is
theirs. Out: a folder with a page, the rows as JSON Lines and the images. A row that says whose it is (a user id, a
conv_id or a conversation) is theirs if that is theirs. A row that says it of nobody is theirs if it is about a text or
image of theirs, even if others have the same one. Rows with another person's user id are left out, and in the others
the ids of what is not theirs. Further things that are theirs are found by a SELECT in `_HELD`; a new table needs none
if `TABLES` says what its columns hold.
"""

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schemas.errors import BadInput, StoreUnwell
from schemas.items.reject import TakenDownKind
from schemas.publication import Exported, Publication
from schemas.row import Held
from schemas.tables import TABLES
from schemas.upkeep import Audited
from tasks.export.destination import exports
from tasks.export.published_ids import judge_name
from tasks.publish.records import publications
from tasks.runtime.untrusted import json_text, one_file, one_line
from tasks.storage.keyed_ids import UNFINISHED, Tombstones, is_user_id, known_key
from tasks.storage.layout import unknown_tables
from tasks.storage.parquet import frame_types
from tasks.storage.records import add_audit_entry
from tasks.storage.tables import Store
from tasks.takedown.going import KIND_BY_NAME, LOGGED_NAME, ids_elsewhere, known_keys, named_ids
from tasks.takedown.scope import find_scope, frame_of_ids
from tasks.takedown.sweep import require_sweepable

ANOTHERS = "another's"
"""Stands in a row for an id of something that is not the person's."""
_NOT_THEIRS = {"reviewer"}
"""Columns with names of people who work with the store."""
_ALSO_NAMED = {"decisions": {"duplicate_of": Held.CONVERSATION}}
"""Table -> columns with ids that a takedown clears instead of removing the row."""
_OWNERS = {Held.USER, Held.LINE, Held.CONVERSATION}
"""Kinds of ids that say whose a row is."""
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
_CONVERSATIONS = """
    -- a row is one id of a conversation: one of their conv_ids, or one followed by the eight digits of a later talk
    SELECT DISTINCT id FROM ({named_ids})
    WHERE id IN (FROM their_lines) OR regexp_replace(id, '-[0-9a-f]{{8}}$', '') IN (FROM their_lines)
"""
_OF_OTHERS = """
    -- a row is one conversation of another person
    SELECT conversation_id AS id FROM conversations WHERE user_id NOT IN (FROM their_users)
"""
_LOGGED = """
    SELECT unnest(images) AS id
    FROM sightings SEMI JOIN their_lines ON conv_id = their_lines.id
    WHERE coalesce(user_id IN (FROM their_users), true)
"""
_SHOWN = """
    SELECT unnest(image_ids) AS id
    FROM forms SEMI JOIN their_conversations ON conversation_id = their_conversations.id
    UNION
    SELECT image_id FROM image_files SEMI JOIN their_names ON name = their_names.id WHERE image_id IS NOT NULL
"""
_HELD = {
    Held.IMAGE_NAME: f"""
        -- a row is one name of an image in their lines, or of the file under that name
        SELECT id FROM ({_LOGGED})
        UNION
        SELECT id FROM (SELECT name AS id FROM image_files) WHERE {LOGGED_NAME} IN ({_LOGGED})
    """,  # noqa: S608 - names of our own
    Held.IMAGE: f"""
        -- a row is one image of their conversations or under their names, as it was uploaded or as it was redacted
        SELECT id FROM ({_SHOWN})
        UNION
        SELECT image_id FROM redacted_images WHERE source_image_id IN ({_SHOWN})
    """,  # noqa: S608 - names of our own
    Held.CONTENT: """
        -- a row is one id of a text, prompt, document or image of theirs
        SELECT DISTINCT id
        FROM (
            SELECT unnest(list_concat("turns.text_id", [prompt_id, document_id], "served.thinking_id")) AS id
            FROM forms SEMI JOIN their_conversations ON conversation_id = their_conversations.id
            UNION ALL
            SELECT id FROM their_images
            UNION ALL
            SELECT text_id(text)
            FROM "signals/image_text" SEMI JOIN their_images ON content_id = their_images.id
            WHERE text <> ''
            UNION ALL
            SELECT vote_reason_id FROM battles SEMI JOIN their_users ON judge = their_users.id
        ) WHERE id IS NOT NULL
    """,
}
"""Kind -> query for the ids of the person's things, with `their_…` of the kinds before it."""
_FRAMES = {
    Held.USER: "their_users",
    Held.LINE: "their_lines",
    Held.CONVERSATION: "their_conversations",
    Held.IMAGE_NAME: "their_names",
    Held.IMAGE: "their_images",
}
"""Kind -> the name under which later queries have the person's ids."""


class Copies(NamedTuple):
    """Counts of the rows and files of a person, and places of copies that this store cannot reach."""

    rows: dict[str, int]
    """Table, or path in `releases` or `exports` -> rows."""
    images: int
    """Distinct image files."""
    left_out: int
    """Rows that name another person as well."""
    lines: int
    """Lines of raw logs."""
    published: list[Publication]
    """Versions on the Hub that hold something of theirs."""
    exported: list[Exported]
    """Exports outside of the store that may hold something of theirs; what has no version is of the whole store."""


def hand_out(store: Store, person: str, folder: Path) -> Copies:
    """Write what the store holds of a person to a new folder; `person` is a user id, or an address as in raw logs.

    Raises BadInput for a person whom the store never had, an unfinished takedown, a store that could hold more than
    can be found, and a folder that exists. Nothing is left of copies that were not all made.
    """
    require_sweepable(store)
    if store.read_bytes(UNFINISHED) is not None:
        raise BadInput(f"store {store.root!r} has an unfinished takedown; run `curate takedown` without an ID first")
    ids = _theirs(store, person)
    if folder.exists():
        raise BadInput(f"--out {str(folder)!r} exists already; give a folder that does not")
    add_audit_entry(store, Audited.HANDED_OUT, {"people": 1, "conversations": len(ids[Held.CONVERSATION])})
    folder.mkdir(mode=0o700, parents=True)
    try:
        return _written_out(store, person, ids, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _written_out(store: Store, person: str, ids: Mapping[Held, frozenset[str]], folder: Path) -> Copies:
    written = _Written(folder)
    for table in [*TABLES, *unknown_tables(store)]:
        written.table(table, _of_table(store, table, ids))
    for path in _parquet_files(store):
        written.table(path, _of_file(store, path, ids))
    versions = {path.split("/")[1] for path in written.rows if path.startswith("releases/")}
    copies = Copies(
        rows=dict(written.rows),
        images=len(written.images),
        left_out=written.left_out,
        lines=len(written.lines),
        published=[row for row in publications(store) if row.version in versions],
        exported=[row for row in exports(store) if not row.version or row.version in versions],
    )
    _write_page(folder, person if is_user_id(person) else "", written, copies)
    return copies


def _theirs(store: Store, person: str) -> Mapping[Held, frozenset[str]]:
    """Ids of the person's things, by kind, as tables name them."""
    key = known_key(store)
    user_ids, addresses = ([person], []) if is_user_id(person) else ([], [person])
    try:
        scope = find_scope(store, user_ids, addresses, key, Tombstones(store, key))
    except BadInput:
        scope = {kind: set() for kind in TakenDownKind}
    if not scope[TakenDownKind.USER]:
        raise BadInput(
            "this store has no line of that person; give the user id of 24 hex digits, or the address exactly as the "
            "raw logs have it"
        )
    theirs = {Held.USER: scope[TakenDownKind.USER], Held.LINE: scope[TakenDownKind.CONVERSATION]}
    frames: dict[str, Any] = {_FRAMES[kind]: frame_of_ids(ids) for kind, ids in theirs.items()}
    named = _CONVERSATIONS.format(named_ids=named_ids(Held.CONVERSATION, mentioned=True))
    conversations = pl.concat(store.batches(named, elsewhere=ids_elsewhere(store, Held.CONVERSATION), **frames))["id"]
    theirs[Held.CONVERSATION] = {*conversations} - {*store.ask(_OF_OTHERS, **frames)["id"]}
    frames[_FRAMES[Held.CONVERSATION]] = frame_of_ids(theirs[Held.CONVERSATION])
    for kind, query in _HELD.items():
        theirs[kind] = {*pl.concat(store.batches(query, **frames))["id"]}
        if kind in _FRAMES:
            frames[_FRAMES[kind]] = frame_of_ids(theirs[kind])
    theirs[Held.WITHHELD] = theirs[Held.LINE] | theirs[Held.IMAGE_NAME]
    theirs[Held.PLACE] = theirs[Held.IMAGE_NAME]
    return {kind: frozenset(ids) for kind, ids in theirs.items()}


class _Rows(NamedTuple):
    """Some rows about a person, and how many others name another person."""

    rows: list[dict[str, Any]]
    left_out: int


def _of_table(store: Store, table: str, ids: Mapping[Held, frozenset[str]]) -> Iterator[_Rows]:
    """Rows of a table that name something of the person's."""
    if table in TABLES:
        declared = TABLES[table]
        kinds = {**declared.holds, **declared.mentions}
    else:
        kinds = {name: KIND_BY_NAME[name] for name in known_keys(store, table)}
    for part in store.parts(table) if kinds else ():
        schema = frame_types(store.part_schema(table, part))
        columns = {column: kind for column, kind in kinds.items() if column in schema}
        is_theirs = _names(schema, columns, ids)
        looked_at = sorted(is_theirs.meta.root_names())
        narrow = (rows.select(is_theirs.fill_null(False)) for rows in store.part_slices(table, part, looked_at))
        if not any(rows.to_series().any() for rows in narrow):
            continue
        for rows in store.slices_as_written(table, part):
            yield _without_others(rows.filter(is_theirs), columns | _ALSO_NAMED.get(table, {}), ids)


def _names(schema: pl.Schema, columns: Mapping[str, Held], ids: Mapping[Held, frozenset[str]]) -> pl.Expr:
    """Whether a row is about something of the person's.

    Columns that say whose a row is decide; only where all of them are empty, others with texts and images do, because
    people share these.
    """
    owners, shared, nobody = [pl.lit(False)], [pl.lit(False)], [pl.lit(True)]
    for column, kind in columns.items():
        their_ids = pl.lit(pl.Series(sorted(ids[kind]), dtype=pl.String).implode())
        if isinstance(schema[column], pl.List):
            is_theirs = pl.col(column).list.set_intersection(their_ids).list.len() > 0
        else:
            is_theirs = pl.col(column).is_in(their_ids).fill_null(False)
        if kind is Held.PLACE:
            is_theirs &= pl.col("line").is_null()
        if kind in _OWNERS and not isinstance(schema[column], pl.List):
            owners.append(is_theirs)
            nobody.append(pl.col(column).fill_null("") == "")
        else:
            shared.append(is_theirs)
    return pl.any_horizontal(owners) | (pl.all_horizontal(nobody) & pl.any_horizontal(shared))


def _without_others(frame: pl.DataFrame, columns: Mapping[str, Held], ids: Mapping[Held, frozenset[str]]) -> _Rows:
    """The rows without those of another person, and without ids of what is not this person's."""
    rows, left_out = list[dict[str, Any]](), 0
    users = [column for column, kind in columns.items() if kind is Held.USER]
    for row in frame.iter_rows(named=True):
        if any(row[column] not in ids[Held.USER] for column in users if row[column] is not None):
            left_out += 1
            continue
        for column, kind in columns.items():
            value = row.get(column)
            if isinstance(value, list):
                row[column] = [item_id for item_id in value if item_id in ids[kind]]
            elif value and value not in ids[kind] and kind is not Held.PLACE:
                row[column] = ANOTHERS
        rows.append({name: value for name, value in row.items() if name not in _NOT_THEIRS})
    return _Rows(rows, left_out)


def _parquet_files(store: Store) -> Iterator[str]:
    """Paths of the Parquet files of releases, and of exports in the store, relative to the store.

    `export_beside` writes what is in `exports/`: cards, and rows as Parquet alone.
    """
    for folder in ("releases", "exports"):
        for path in sorted(store.fs.find(store.at(folder))):
            if path.endswith(".parquet"):
                yield path.removeprefix(f"{store.path}/")


def _of_file(store: Store, path: str, ids: Mapping[Held, frozenset[str]]) -> Iterator[_Rows]:
    """Rows of a file of a release, or of an export of it, that are about the person's conversations and votes."""
    if path.startswith("exports/"):  # a voter has another name there
        ids = {**ids, Held.USER: ids[Held.USER] | {judge_name(user) or "" for user in ids[Held.USER]}}
    try:
        schema = pq.read_schema(store.at(path), filesystem=store.fs)
        columns = {
            name: kind
            for name, kind in KIND_BY_NAME.items()
            if name in schema.names and pa.types.is_string(schema.field(name).type) and kind in _OWNERS
        }
        if "/battle/" not in path:
            columns.pop("judge", None)  # elsewhere a model that judges
        if not columns:
            return
        is_theirs = pc.scalar(False)
        for name, kind in columns.items():
            is_theirs |= pc.field(name).isin(pa.array(sorted(ids[kind]), pa.string()))
        rows = pq.read_table(store.at(path), filesystem=store.fs, filters=is_theirs)
    except (pa.ArrowException, FileNotFoundError):
        raise StoreUnwell(
            f"store {store.root!r} is damaged: {path} cannot be read; `curate verify` the release"
        ) from None
    yield _without_others(pl.DataFrame(rows.replace_schema_metadata(None)), columns, ids)


class _Written:
    """Writes a person's folder: rows by table, images by their bytes, and what the page shows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows = Counter[str]()
        self.images = dict[str, str]()
        """Name of an image's file -> content id, where the row says it."""
        self.lines = set[str]()
        self.left_out = 0
        self.shown = dict[str, list[dict[str, Any]]]()
        """Conversations and votes as they are stored."""

    def table(self, name: str, pieces: Iterator[_Rows]) -> None:
        """Write the rows of a table, or of a file in releases or exports, with its images as files."""
        for rows, left_out in pieces:
            self.left_out += left_out
            if not rows:
                continue
            place = name.removesuffix(".parquet") if name.startswith(("releases/", "exports/")) else f"tables/{name}"
            file = self.folder / f"{place}.jsonl"
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("a", encoding="utf-8") as lines:
                lines.writelines(f"{json_text(self._plain(row))}\n" for row in rows)
            self.rows[name if name in TABLES else place] += len(rows)
            if name in ("conversations", "battles"):
                self.shown.setdefault(name, []).extend(rows)
            if name == "sightings":
                self.lines |= {f"{row['source']}:{row['line']}" for row in rows}

    def _plain(self, value: Any) -> Any:
        """The value for JSON: bytes of an image become the name of its file, others hex digits."""
        if isinstance(value, dict):
            if isinstance(value.get("bytes"), bytes):
                value = value | {"bytes": self._image(value["bytes"], value.get("image_id"))}
            return {name: self._plain(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._plain(inner) for inner in value]
        return value.hex() if isinstance(value, bytes) else value

    def _image(self, content: bytes, image_id: str | None) -> str:
        ending = ".png" if content.startswith(_PNG) else ".jpg" if content.startswith(_JPEG) else ".bin"
        name = f"images/{hashlib.sha256(content).hexdigest()[:32]}{ending}"
        if name not in self.images:
            (self.folder / "images").mkdir(exist_ok=True)
            (self.folder / name).write_bytes(content)
        if image_id or name not in self.images:
            self.images[name] = image_id or ""
        return name


def _write_page(folder: Path, user_id: str, written: _Written, copies: Copies) -> None:
    files = {image_id: name for name, image_id in written.images.items()}
    tables = [
        {
            "name": place,
            "rows": rows,
            "file": f"tables/{place}.jsonl" if place in TABLES else f"{place}.jsonl",
            "about": (TABLES[place].row.__doc__ or "").partition("\n")[0] if place in TABLES else "",
        }
        for place, rows in copies.rows.items()
    ]
    page = one_file(
        Path(__file__).with_name("subject.html"),
        {"line": one_line},
        user_id=user_id,
        made_at=datetime.now(UTC),
        conversations=sorted(written.shown.get("conversations", []), key=lambda row: row["tstamp"]),
        battles=sorted(written.shown.get("battles", []), key=lambda row: row["tstamp"]),
        files=files,
        tables=tables,
        copies=copies,
    )
    (folder / "index.html").write_text(page, encoding="utf-8")
