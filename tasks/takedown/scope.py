"""What people ask to have removed -> conversations, pictures and users of a store."""

import errno
import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from schemas.errors import BadInput, why_unreadable
from schemas.takedown import TakenDownKind
from tasks.images.decode import ImageRejected, open_image
from tasks.ingest.known_images import FileDigests, file_digests
from tasks.ingest.presets import logged_name
from tasks.ingest.quarantine import PRESET, quarantined
from tasks.storage.tables import Store
from tasks.storage.tombstones import Tombstones
from tasks.storage.user_ids import Pseudonyms
from tasks.takedown.lookalikes import lookalikes

_IMAGE_SUFFIXES = (".png", ".jpeg", ".jpg", ".webp", ".gif", ".embedded")
_DIGEST = re.compile(r"[0-9A-F]{32,64}")
"""As some systems write them."""
_SHOWN = 20


@dataclass
class Scope:
    """What goes, by the ids that the tables use."""

    conversations: set[str] = field(default_factory=set)
    """conv_ids."""
    pictures: set[str] = field(default_factory=set)
    """Content ids and logged names."""
    users: set[str] = field(default_factory=set)
    """Keyed hashes."""

    def by_kind(self) -> dict[TakenDownKind, set[str]]:
        """The ids as tombstones take them."""
        kinds = (TakenDownKind.CONVERSATION, TakenDownKind.PICTURE, TakenDownKind.USER)
        return dict(zip(kinds, (self.conversations, self.pictures, self.users), strict=True))


class Known:
    """What a store has of some ids that may be asked for; nothing is kept of any other."""

    def __init__(self, store: Store, asked: Iterable[str]) -> None:
        self._store, wanted = store, set(asked)
        self.image_of = _images_of(store, wanted)
        self.also = _also(store, wanted)
        pictures = wanted | {self.image(each) for each in wanted}
        self.image_of |= _images_of(store, _names_of(store, pictures))
        self.names: set[str] = set()
        self.conversations = _among(store, "quarantine", ["key"], wanted)
        self.users: set[str] = set()
        for rows in store.read_slices("sightings", ["conv_id", "user_id", "pictures"]):
            self.conversations |= _in(rows["conv_id"], wanted)
            self.users |= _in(rows["user_id"], wanted)
            self.names |= _in(rows["pictures"].explode(), pictures)
        self.conversations |= _among(store, "conversations", ["conversation_id"], wanted)
        self.users |= _among(store, "conversations", ["user_id"], wanted) | _among(store, "battles", ["judge"], wanted)
        self.images = _among(store, "images", ["image_id"], pictures)
        self.images |= _among(store, "picture_files", ["image_id"], pictures)

    def conv_id(self, asked: str) -> str | None:
        """The conv_id of a conversation or battle id."""
        return next((each for each in _conv_ids(asked) if each in self.conversations), None)

    def image(self, asked: str) -> str:
        """Content id, or the name of what is no picture, of whatever is asked for."""
        return self.image_of.get(asked) or self.also.get(asked, asked)

    def pictures(self, asked: str) -> set[str]:
        """Content id and logged names of a picture that is asked for by any of them; empty when unknown."""
        image_id = self.image(asked)
        names = {name for name, image in self.image_of.items() if image == image_id}
        return names | {each for each in (asked, image_id) if each in self.names or each in self.images}


def _conv_ids(asked: str) -> list[str]:
    return [asked[:-9], asked] if asked[-9:-8] == "-" else [asked]


def _in(column: pl.Series, wanted: AbstractSet[str]) -> set[str]:
    return set(column.filter(column.is_in(sorted(wanted)).fill_null(False)))


def _among(store: Store, table: str, columns: Sequence[str], wanted: AbstractSet[str]) -> set[str]:
    found = [_in(rows[name], wanted) for rows in store.read_slices(table, columns) for name in columns]
    return set[str]().union(*found)


def _files(store: Store) -> Iterator[pl.DataFrame]:
    """key, image_id and digests of picture files; then of presets under the names that logs give them."""
    plain = pl.col("name").str.starts_with(PRESET)
    key = pl.when(plain).then("name").otherwise(pl.col("name").str.replace(r"(?s)^(.+)\.[^.]*$", "${1}"))
    for rows in store.read_slices("picture_files", ["name", "image_id", *FileDigests._fields]):
        yield rows.with_columns(key=key)
    yield store.read("presets", ["logged_name", "image_id"]).rename({"logged_name": "key"})


def _images_of(store: Store, keys: AbstractSet[str]) -> dict[str, str]:
    """Key -> content id of the picture that it was last."""
    wanted, found = sorted(keys), dict[str, str]()
    for rows in _files(store):
        named = rows.filter(pl.col("key").is_in(wanted)).select("key", "image_id")
        found |= dict(named.drop_nulls().iter_rows())
    return found


def _names_of(store: Store, pictures: AbstractSet[str]) -> set[str]:
    """Keys of files that were ever one of the pictures."""
    wanted = sorted(pictures)
    return set().union(*(rows.filter(pl.col("image_id").is_in(wanted))["key"] for rows in _files(store)))


def _also(store: Store, wanted: AbstractSet[str]) -> dict[str, str]:
    """Redacted picture, or digest of a file -> content id, or the key of a file that is no picture."""
    asked, found = sorted(wanted), dict[str, str]()
    for rows in store.read_slices("redacted_images", ["image_id", "source_image_id"]):
        found |= dict(rows.filter(pl.col("image_id").is_in(asked)).iter_rows())
    for rows in _files(store):
        held_by = rows.with_columns(held_by=pl.coalesce("image_id", "key"))
        for kind in FileDigests._fields:
            if kind in rows.columns:
                found |= dict(held_by.filter(pl.col(kind).is_in(asked)).select(kind, "held_by").iter_rows())
    return found


def find_scope(
    store: Store, asked: Iterable[str], addresses: Iterable[str], key: bytes, tombstones: Tombstones
) -> Scope:
    """Everything that goes with what is asked for. Raises BadInput for an id that this store never had.

    `asked` has conversation, battle, picture and user ids, logged picture names and picture files; `addresses` are
    users as the raw logs name them. A vote's other side goes along, since it repeats the prompt; so does every
    conversation that shows a picture, and every conversation and vote of a user.
    """
    people, scope = Pseudonyms(key), Scope()
    spellings = {each: list(_spellings(each)) for each in asked}
    users = [people.user_id(address) for address in addresses]
    spelled = {name for each in spellings for name in (*_conv_ids(each), *spellings[each])}
    known = Known(store, spelled.union(user for user in users if user))
    for each, names in spellings.items():
        if not _add(each, names, known, scope) and not any(tombstones.holds(kind, names) for kind in TakenDownKind):
            raise BadInput(_unknown(store, each))
    for user in users:
        if user is None or not (user in known.users or tombstones.holds(TakenDownKind.USER, [user])):
            raise BadInput("--user: this store has no line of that user; give the address exactly as the raw logs do")
        scope.users.add(user)
    scope.conversations |= set(_conversations(store, scope))
    return scope


def _unknown(store: Store, asked: str) -> str:
    """Why nothing of the store is `asked`, and for a picture file what else may be meant by it."""
    content = _file(asked)
    if content is None:
        return (
            f"{asked!r} is no conversation, battle, picture or user of this store, nor a picture file; "
            "`curate explain ID` shows what an id is"
        )
    alike = [copy.image_id for copy in lookalikes(store, content)]
    if alike:
        listed = ", ".join(alike[:_SHOWN]) + (f" and {len(alike) - _SHOWN:,} more" if len(alike) > _SHOWN else "")
        return f"no picture of this store has the pixels of {asked!r}, but some look the same; give their ids: {listed}"
    return (
        f"no picture of this store has the pixels of {asked!r}, and none looks the same; give the file that was "
        "uploaded, the name that the logs give it, or the id of a conversation that shows it"
    )


def _add(asked: str, spellings: Iterable[str], known: Known, scope: Scope) -> bool:
    before = len(scope.conversations) + len(scope.pictures) + len(scope.users)
    if conv_id := known.conv_id(asked):
        scope.conversations.add(conv_id)
    elif asked in known.users:
        scope.users.add(asked)
    else:
        for spelling in spellings:
            scope.pictures |= known.pictures(spelling)
    return len(scope.conversations) + len(scope.pictures) + len(scope.users) > before


def _spellings(asked: str) -> Iterator[str]:
    """An id as it may be written: with a file's extension, or as the picture file itself."""
    yield asked
    yield next((asked.removesuffix(s) for s in _IMAGE_SUFFIXES if asked.endswith(s)), asked)
    if _DIGEST.fullmatch(asked):
        yield asked.lower()
    content = _file(asked)
    if content is not None:
        yield file_digests(content).sha256
        try:
            yield open_image(content).image_id
            yield logged_name(Path(asked))
        except (ImageRejected, BadInput):
            return


def _file(asked: str) -> bytes | None:
    """The file of that name; None when there is none."""
    path = Path(asked)
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return None
        raise BadInput(f"{asked!r} cannot be read ({why_unreadable(error)})") from None


def _conversations(store: Store, scope: Scope) -> Iterator[str]:
    """conv_ids that go with a scope: of its users, of its pictures, and the other sides of their votes."""
    parts = store.parts("sightings")
    theirs = set(scope.conversations)
    for part in parts if scope.users else ():
        rows = store.read_part("sightings", part, ["conv_id", "user_id"])
        theirs |= set(rows.filter(pl.col("user_id").is_in(sorted(scope.users)))["conv_id"])
    held = quarantined(store, parts, theirs, scope.pictures)
    yield from held.filter(kind="conversation")["key"]
