"""What people ask to have removed -> conversations, pictures and users of a store."""

import errno
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from schemas.errors import BadInput, why_unreadable
from schemas.takedown import TakenDownKind
from tasks.ingest.known_hashes import FileDigests, file_digests
from tasks.ingest.known_pictures import key_of
from tasks.ingest.people import Pseudonyms
from tasks.ingest.presets import logged_name
from tasks.ingest.quarantine import quarantined
from tasks.pictures import PictureRejected, open_picture
from tasks.tables import Store
from tasks.takedown.lookalikes import lookalikes
from tasks.tombstones import Tombstones

_PICTURE_SUFFIXES = (".png", ".jpeg", ".jpg", ".webp", ".gif", ".embedded")
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
    """Every id of a store that may be asked for."""

    def __init__(self, store: Store) -> None:
        seen = [store.read_part("sightings", p, ["conv_id", "pictures", "user_id"]) for p in store.parts("sightings")]
        files = store.read("picture_files", ["name", "image_id", *FileDigests._fields])
        presets = store.read("presets", ["logged_name", "image_id"])
        held = store.read("quarantine").filter(kind="conversation")["key"]
        assembled = store.read("conversations", ["conversation_id", "user_id"])
        self.conversations = _union([*(rows["conv_id"] for rows in seen), assembled["conversation_id"], held])
        self.users = _union(
            [*(rows["user_id"] for rows in seen), assembled["user_id"], store.read("battles", ["judge"])["judge"]]
        )
        self.names = _union([*(rows["pictures"].explode() for rows in seen)])
        stems = files.with_columns(name=pl.col("name").map_elements(key_of, return_dtype=pl.String))
        named = [stems.select("name", "image_id"), presets.select(name="logged_name", image_id="image_id")]
        self.image_of = dict(pl.concat(named).drop_nulls().iter_rows())
        held_by = pl.coalesce("image_id", "name")  # a file that is no picture has only its name
        digests = [stems.select(image_id=held_by, name=kind) for kind in FileDigests._fields]
        made = store.read("redacted_images", ["image_id", "source_image_id"])
        others = [made.select(image_id="source_image_id", name="image_id"), *digests]
        self.also = dict(pl.concat(others).select("name", "image_id").drop_nulls().iter_rows())
        self.images = _union([store.read("images", ["image_id"])["image_id"], files["image_id"]])

    def conv_id(self, asked: str) -> str | None:
        """The conv_id of a conversation or battle id."""
        stem = asked[:-9] if asked[-9:-8] == "-" else asked
        return next((each for each in (stem, asked) if each in self.conversations), None)

    def pictures(self, asked: str) -> set[str]:
        """Content id and logged names of a picture that is asked for by any of them; empty when unknown."""
        image_id = self.image_of.get(asked) or self.also.get(asked, asked)
        names = {name for name, image in self.image_of.items() if image == image_id}
        return names | {each for each in (asked, image_id) if each in self.names or each in self.images}


def _union(columns: Sequence[pl.Series]) -> set[str]:
    return {value for column in columns for value in column.unique() if value is not None}


def find_scope(
    store: Store, asked: Iterable[str], addresses: Iterable[str], key: bytes, tombstones: Tombstones
) -> Scope:
    """Everything that goes with what is asked for. Raises BadInput for an id that this store never had.

    `asked` has conversation, battle, picture and user ids, logged picture names and picture files; `addresses` are
    users as the raw logs name them. A vote's other side goes along, since it repeats the prompt; so does every
    conversation that shows a picture, and every conversation and vote of a user.
    """
    known, scope, people = Known(store), Scope(), Pseudonyms(key)
    for each in asked:
        if not _add(each, known, scope) and not any(tombstones.holds(kind, _spellings(each)) for kind in TakenDownKind):
            raise BadInput(_unknown(store, each))
    for address in addresses:
        user = people.user_id(address)
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
    alike = lookalikes(store, content)
    if alike:
        listed = ", ".join(alike[:_SHOWN]) + (f" and {len(alike) - _SHOWN:,} more" if len(alike) > _SHOWN else "")
        return f"no picture of this store has the pixels of {asked!r}, but some look the same; give their ids: {listed}"
    return (
        f"no picture of this store has the pixels of {asked!r}, and none looks the same; give the file that was "
        "uploaded, the name that the logs give it, or the id of a conversation that shows it"
    )


def _add(asked: str, known: Known, scope: Scope) -> bool:
    before = len(scope.conversations) + len(scope.pictures) + len(scope.users)
    if conv_id := known.conv_id(asked):
        scope.conversations.add(conv_id)
    elif asked in known.users:
        scope.users.add(asked)
    else:
        for spelling in _spellings(asked):
            scope.pictures |= known.pictures(spelling)
    return len(scope.conversations) + len(scope.pictures) + len(scope.users) > before


def _spellings(asked: str) -> Iterator[str]:
    """An id as it may be written: with a file's extension, or as the picture file itself."""
    yield asked
    yield next((asked.removesuffix(s) for s in _PICTURE_SUFFIXES if asked.endswith(s)), asked)
    if _DIGEST.fullmatch(asked):
        yield asked.lower()
    content = _file(asked)
    if content is not None:
        yield file_digests(content).sha256
        try:
            yield open_picture(content).image_id
            yield logged_name(Path(asked))
        except (PictureRejected, BadInput):
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
