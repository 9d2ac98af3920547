"""A store as questions in SQL see it: without personal data, and without what no page of the explorer shows.

In: the address of a store. Out: an `AskedStore`, whose rows are changed as they are read, before the engine has them.
So no function, comparison or view of a query can reach what is behind a mask. What is done to a further column of
strings is a line of `asked_columns.yaml`, and to one of ids an entry of `_OF_HELD`; a column that has neither is left
out. A further treatment is a member of `Treatment` and a branch of `AskedStore._treated`; without one it is left out.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.row import Held
from schemas.tables import TABLES
from tasks.explore.masking import masked_text
from tasks.runtime.untrusted import read_yaml
from tasks.storage.content_id import text_id
from tasks.storage.engine import column_types, view_queries
from tasks.storage.keyed_ids import own_key
from tasks.storage.parquet import compact
from tasks.storage.queries.repeated_values import FoundSpan, FoundValue, values_of_items, with_repeats
from tasks.storage.queries.signals import latest_query
from tasks.storage.tables import SLICE_ROWS, Store

LEFT_OUT_TEXT = "[left out]"
"""Text in place of a value that is neither shown nor searched for personal data."""
NOT_OFFERED = frozenset({"quarantine", "takedowns", "texts", "text_ids", "image_texts", "logged_files"})
"""Tables and views that no question may name: what was quarantined or taken down (the first two), and views that join
by ids of texts as logged, which a query has not."""
_COLUMNS: dict[str, list[str]] = read_yaml(Path(__file__).with_name("asked_columns.yaml"))
_VECTORS = frozenset({"vector"})
"""Columns that a query sees as nulls, because a text or an image may be computed back from its vector."""
_CONVERSATION_SUFFIX = "-[0-9a-f]{8}$"
"""End of the id of a later conversation of a conv_id."""
_ID = np.dtype("S16")
"""A content id of a text."""


class Treatment(StrEnum):
    """Treatment of a column of strings or bytes before a query has it."""

    SHOWN = "shown"
    MASKED = "masked"
    """Personal data is replaced by its type; a text that nobody searched is left out."""
    KEYED = "keyed"
    """Replaced by a keyed hash: equal where the ids are equal, so that tables can be joined."""
    LEFT_OUT = "left out"


_OF_HELD = {
    Held.CONVERSATION: Treatment.SHOWN,
    Held.CONTENT: Treatment.KEYED,
    Held.IMAGE: Treatment.KEYED,
    Held.USER: Treatment.KEYED,
    Held.PLACE: Treatment.KEYED,
}
"""Kind of an id -> its treatment; others are left out."""


def treatment(table: str, column: str, field: str = "") -> Treatment:
    """The treatment of a column, or of a field of its structs, that holds strings."""
    name, qualified = field or column, f"{table}.{field or column}"
    kind_of_id = None if field else {**TABLES[table].holds, **TABLES[table].mentions}.get(column)
    if kind_of_id is not None:
        return _OF_HELD.get(kind_of_id, Treatment.LEFT_OUT)
    stated = (Treatment(word) for word, names in _COLUMNS.items() if name in names or qualified in names)
    return next(stated, Treatment.LEFT_OUT)


def offered() -> list[str]:
    """Tables and views that a question may name, tables first."""
    return [name for name in (*TABLES, *view_queries()) if name not in NOT_OFFERED]


class _Leaf(NamedTuple):
    """Strings or bytes in a column: of itself, of its lists, or of one field of its structs or lists of structs."""

    column: str
    field: str
    is_list: bool
    is_bytes: bool

    @property
    def path(self) -> str:
        """The path under which a part has it."""
        return f"{self.column}.list.element.{self.field}" if self.field and self.is_list else self.column

    def strings(self, rows: pl.DataFrame) -> pl.DataFrame:
        """`row` and `text` of each string that is not null."""
        texts = pl.col(self.column)
        if self.field:
            of_field = (pl.element() if self.is_list else texts).struct.field(self.field)
            texts = texts.list.eval(of_field) if self.is_list else of_field
        # A row is one of the given rows, by its place, and its string; with a list, all its strings.
        strings = rows.select(row=pl.int_range(pl.len(), dtype=pl.UInt32), text=texts)
        return (strings.explode("text") if self.is_list else strings).drop_nulls("text")

    def changed(self, change: Callable[[pl.Expr], pl.Expr]) -> pl.Expr:
        """The column with each string changed."""
        value = pl.element() if self.is_list else pl.col(self.column)
        if self.field:
            inside = value.struct.with_fields(change(pl.field(self.field)).alias(self.field))
        else:
            inside = change(value)
        return (pl.col(self.column).list.eval(inside) if self.is_list else inside).alias(self.column)

    def holders(self, row: dict[str, Any]) -> Iterator[tuple[Any, str | int]]:
        """Where the strings of a row stand: a list or mapping, and the place in it."""
        value = row[self.column]
        if value is None:
            return
        holders = value if self.is_list else [value]
        if self.field:
            yield from ((holder, self.field) for holder in holders if holder is not None)
        elif self.is_list:
            yield from ((value, place) for place in range(len(value)))
        else:
            yield row, self.column


def _leaves(types: Mapping[str, Any]) -> tuple[list[_Leaf], list[str]]:
    """The strings and bytes in columns of these types, and columns that hold some at a depth that has no mask."""
    leaves, too_deep = list[_Leaf](), list[str]()
    for column, of_column in types.items():
        is_list = isinstance(of_column, pl.List)
        inner = of_column.inner if is_list else of_column
        fields = {field.name: field.dtype for field in inner.fields} if isinstance(inner, pl.Struct) else {"": inner}
        for field, of_field in fields.items():
            if of_field in (pl.String, pl.Binary):
                leaves.append(_Leaf(column, field, is_list, of_field == pl.Binary))
            elif _holds_strings(of_field):
                too_deep.append(column)
    return leaves, too_deep


def _holds_strings(of_type: Any) -> bool:
    if isinstance(of_type, pl.List):
        return _holds_strings(of_type.inner)
    if isinstance(of_type, pl.Struct):
        return any(_holds_strings(field.dtype) for field in of_type.fields)
    return of_type not in (pl.Boolean, pl.Date) and not (of_type.is_numeric() or of_type.is_temporal())


def treatments_of(table: str, column: str) -> set[Treatment]:
    """The treatments of the strings and bytes of a column of a table, in its fields."""
    leaves, too_deep = _leaves({column: column_types(table)[column]})
    treatments = {Treatment.LEFT_OUT if leaf.is_bytes else treatment(table, leaf.column, leaf.field) for leaf in leaves}
    return treatments | ({Treatment.LEFT_OUT} if too_deep or column in _VECTORS else set())


class AskedStore(Store):
    """A store for questions of people. It is not written."""

    unmasked = False
    """Whether texts, ids and images are given as they are. What is quarantined never is."""

    def parts(self, table: str) -> list[str]:
        """Names of the listed parts; none of a table that is not offered."""
        return [] if table in NOT_OFFERED else super().parts(table)

    def part_slices(
        self, table: str, part: str, columns: Sequence[str] | None = None, rows: int = SLICE_ROWS
    ) -> Iterator[pl.DataFrame]:
        """One part in slices, without rows of quarantined conversations, and changed as `treatment` says.

        A slice may have further columns: texts of a row are masked together, whichever of them were asked for, and with
        what was found in the other texts of its conversation's item.
        """
        names = list(TABLES[table].row.model_fields) if columns is None else list(columns)
        masked = self._masked_with(table, names)
        id_columns = self._columns_with_ids(table) if self._withheld or masked else []
        read = [*names, *(leaf.path for leaf in masked if not {leaf.path, leaf.column} & {*names})]
        read += [name for name in id_columns if name not in read]
        for slice_rows in super().part_slices(table, part, read, rows):
            open_rows = slice_rows
            for column in id_columns:
                stem = pl.col(column).str.replace(_CONVERSATION_SUFFIX, "")
                is_withheld = pl.col(column).is_in(self._withheld) | stem.is_in(self._withheld)
                open_rows = open_rows.filter(~is_withheld.fill_null(False))
            yield from [open_rows] if self.unmasked else self._treated(table, open_rows, masked)

    def bounds(self, table: str, part: str, column: str) -> tuple[Any, Any] | None:
        """Bounds of a column as a query sees it: None where it sees other values than the part has."""
        is_text = column_types(table)[column] == pl.String
        if is_text and not self.unmasked and treatment(table, column) is not Treatment.SHOWN:
            return None
        return super().bounds(table, part, column)

    @cached_property
    def _stored(self) -> Store:
        """The same store, with its rows as they are."""
        return Store(self.root)

    @cached_property
    def _withheld(self) -> frozenset[str]:
        """Conversations that are quarantined. Raises StoreUnwell when that cannot be read."""
        return frozenset(self._stored.read("quarantine").filter(kind="conversation")["key"])

    @staticmethod
    def _columns_with_ids(table: str) -> list[str]:
        """Columns that name a conversation."""
        types = column_types(table)
        return [name for name in TABLES[table].named(Held.CONVERSATION, Held.LINE) if types[name] == pl.String]

    def _masked_with(self, table: str, names: Sequence[str]) -> list[_Leaf]:
        """All texts of a table if one of them is among the names, else none."""
        of_columns = {name: column_types(table)[name] for name in TABLES[table].row.model_fields}
        texts = [
            leaf
            for leaf in _leaves(of_columns)[0]
            if not leaf.is_bytes and treatment(table, leaf.column, leaf.field) is Treatment.MASKED
        ]
        is_asked = any({leaf.path, leaf.column} & {*names} for leaf in texts)
        return texts if is_asked and not self.unmasked else []

    def _treated(self, table: str, rows: pl.DataFrame, texts: Sequence[_Leaf]) -> Iterator[pl.DataFrame]:
        leaves, too_deep = _leaves(rows.schema)
        treated = rows.with_columns(
            pl.lit(None, rows.schema[name]).alias(name) for name in {*too_deep, *(_VECTORS & {*rows.columns})}
        )
        treated = treated.with_columns(leaf.changed(_nothing) for leaf in leaves if leaf.is_bytes)
        for leaf in (leaf for leaf in leaves if not leaf.is_bytes):
            of_leaf = treatment(table, leaf.column, leaf.field)
            if of_leaf in (Treatment.SHOWN, Treatment.MASKED):  # masks of a row's texts follow, together
                continue
            change = _left_out
            if of_leaf is Treatment.KEYED:
                ids = leaf.strings(treated)["text"].unique()
                keyed_ids = pl.Series(map(self._keyed, ids), dtype=pl.String)
                change = partial(pl.Expr.replace_strict, old=ids, new=keyed_ids, default=None, return_dtype=pl.String)
            treated = treated.with_columns(leaf.changed(change))
        yield from self._with_masks(table, treated, texts) if texts else [treated]

    def _keyed(self, content_id: str) -> str:
        return hashlib.blake2b(content_id.encode("utf-8", "surrogatepass"), key=self._key, digest_size=12).hexdigest()

    @cached_property
    def _key(self) -> bytes:
        """A key made from the store's own, or one of this process where it has none."""
        return hashlib.sha256(b"asked" + (own_key(self._stored) or secrets.token_bytes(32))).digest()

    def _with_masks(self, table: str, rows: pl.DataFrame, texts: Sequence[_Leaf]) -> Iterator[pl.DataFrame]:
        """The rows with personal data masked: those whose texts hold none first."""
        strings = [leaf.strings(rows) for leaf in texts]
        # A row is one text in one of the given rows.
        places = pl.concat([pl.DataFrame(schema={"row": pl.UInt32, "text": pl.String}), *strings])
        distinct_texts = places.filter(pl.col("text") != "").get_column("text").unique()
        spans_of_texts = self._searched.spans_of(list(map(text_id, distinct_texts)))
        spans = dict(zip(distinct_texts, spans_of_texts, strict=True))
        # Unsafe is a text with personal data, and one that nobody searched: its row is masked in Python, one at a time.
        unsafe = pl.Series([text for text, of_text in spans.items() if of_text is None or of_text], dtype=pl.String)
        is_unsafe = pl.int_range(pl.len()).is_in(places.filter(pl.col("text").is_in(unsafe.implode()))["row"].implode())
        # So is a row of a conversation in whose item, such as the other side of its battle, there is personal data.
        id_columns, with_data = self._columns_with_ids(table), pl.Series([*self._values_of_items], dtype=pl.String)
        is_beside = pl.any_horizontal(False, pl.col(id_columns).is_in(with_data.implode())).fill_null(False)
        yield rows.filter(~(is_unsafe | is_beside))
        masked_rows = []
        for row in rows.filter(is_unsafe | is_beside).to_dicts():
            values = [value for name in id_columns for value in self._values_of_items.get(row[name], ())]
            masked_rows.append(_masked_row(row, texts, spans, values))
        if masked_rows:
            yield pl.DataFrame(masked_rows, schema=rows.schema)

    @cached_property
    def _values_of_items(self) -> dict[str, list[FoundValue]]:
        """Conversation -> the personal data that was found in the texts of its item."""
        return dict(values_of_items(self._stored).iter_rows())

    @cached_property
    def _searched(self) -> "_Searched":
        return _Searched(self._stored)


def _nothing(value: pl.Expr) -> pl.Expr:
    return pl.when(False).then(value)


def _left_out(value: pl.Expr) -> pl.Expr:
    return pl.when(value.is_not_null()).then(pl.lit(LEFT_OUT_TEXT))


def _masked_row(
    row: dict[str, Any],
    texts: Sequence[_Leaf],
    spans: Mapping[str, Sequence[FoundSpan] | None],
    values: Iterable[FoundValue],
) -> dict[str, Any]:
    """A row with all its texts masked together: a value that one of them, or its item, is found to hold is in none."""
    places = [place for leaf in texts for place in leaf.holders(row) if place[0][place[1]]]
    texts_in_row = [holder[place] for holder, place in places]
    masks = with_repeats([(text, spans[text]) for text in texts_in_row], values)
    for (holder, place), text, mask in zip(places, texts_in_row, masks, strict=True):
        holder[place] = masked_text(text, mask)
    return row


class _Searched:
    """The texts that were searched for personal data, and where it stands in them: 24 bytes for each without any."""

    def __init__(self, store: Store) -> None:
        batches = store.batches(latest_query("text_pii", ["spans"]))
        rows = pl.concat(compact(rows) for rows in batches)
        ids = np.frombuffer(b"".join(map(bytes.fromhex, rows["content_id"])), _ID)
        order = np.argsort(ids)
        self._ids: npt.NDArray[Any] = ids[order]
        self._spans = rows["spans"].gather(order)

    def spans_of(self, text_ids: Sequence[str]) -> list[list[FoundSpan] | None]:
        """Personal data in each text; None for one that was not searched."""
        given_ids = np.frombuffer(b"".join(map(bytes.fromhex, text_ids)), _ID)
        places = np.minimum(np.searchsorted(self._ids, given_ids), max(0, len(self._ids) - 1))
        is_searched = self._ids[places] == given_ids if len(self._ids) else np.zeros(len(given_ids), bool)
        # One entry for each id that was searched, in the order of the given ids.
        spans = iter(self._spans.gather(places[is_searched]).to_list())
        return [next(spans) if was_searched else None for was_searched in is_searched]
