"""Resolves what people ask to have removed to conversations, images and users of a store, and finds near copies."""

import errno
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from schemas.errors import BadInput, why_unreadable
from schemas.items.reject import NearCopy, TakenDownKind
from schemas.policy import NearImages
from tasks.dedup.near_images import near_hashes, near_images
from tasks.images.decode import ImageRejected, open_image
from tasks.images.measures import image_hashes
from tasks.ingest.image_files import IMAGE_SUFFIXES, logged_name
from tasks.ingest.known_images import FileDigests, file_digests
from tasks.ingest.quarantine import EMBEDDED_SUFFIX, quarantined
from tasks.storage.keyed_ids import Pseudonyms, Tombstones, possible_conv_ids, store_key
from tasks.storage.tables import Store

_SUFFIXES = (*IMAGE_SUFFIXES, EMBEDDED_SUFFIX)
"""Endings of the names of image files; the logs name images without them."""
_DIGEST = re.compile(r"[0-9A-F]{32,64}")
"""Digests in upper case, as some systems write them."""
_SHOWN = 20
_HASHES = ["phash", "pdq", "grey"]


TakedownScope = Mapping[TakenDownKind, set[str]]
"""Ids that are removed: conv_ids, content ids and logged names of images, keyed hashes of users."""

_FILES_ASKED = """
    -- a row is one file that is asked for by its name, or by a digest of its bytes; those of a name oldest first: the
    -- engine's one thread reads the parts of a table in their order
    SELECT * FROM logged_files
    WHERE name IN (FROM asked) OR md5 IN (FROM asked) OR sha1 IN (FROM asked) OR sha256 IN (FROM asked)
"""
_FILES_OF_IMAGES = """
    -- a row is one file of a name under which one of the images has ever been; those of a name oldest first
    SELECT * FROM logged_files
    SEMI JOIN (SELECT name FROM logged_files SEMI JOIN asked ON image_id = asked.id) AS of_images USING (name)
"""
_SOURCES = """
    -- a row is one redacted image that is asked for
    SELECT image_id, source_image_id FROM redacted_images SEMI JOIN asked ON image_id = asked.id
"""
_KNOWN = """
    -- a row is one id that is asked for, and what the store has under it
    SELECT DISTINCT kind, id
    FROM (
        SELECT 'conversation' AS kind, key AS id FROM quarantine
        UNION ALL
        SELECT 'conversation', conv_id FROM sightings
        UNION ALL
        SELECT 'conversation', conversation_id FROM conversations
        UNION ALL
        SELECT 'user', user_id FROM sightings
        UNION ALL
        SELECT 'user', user_id FROM conversations
        UNION ALL
        SELECT 'user', judge FROM battles
        UNION ALL
        SELECT 'image', unnest(images) FROM sightings
        UNION ALL
        SELECT 'image', image_id FROM images
        UNION ALL
        SELECT 'image', image_id FROM image_files
    ) SEMI JOIN asked USING (id)
"""
_OF_USERS = """
    -- a row is one conversation of which one of the users wrote a line
    SELECT DISTINCT conv_id FROM sightings SEMI JOIN users ON user_id = users.id
"""
_IMAGE_HASHES = """
    -- a row is one image that goes (SEMI) or stays (ANTI), and its hashes
    SELECT content_id AS image_id, phash, pdq, grey
    FROM "signals/image_hash" {semi_or_anti} JOIN gone ON content_id = gone.id
    WHERE phash IS NOT NULL AND pdq IS NOT NULL AND grey IS NOT NULL
"""
NEAR_AT_ONCE = 4_096
"""Images that are compared at a time with those that go."""


class Known:
    """Requested ids that a store has: conversations, users, images and image names."""

    def __init__(self, store: Store, asked: Iterable[str]) -> None:
        requested_ids = set(asked)
        # A row is a file that is asked for by name or digest. Of several of one name the last counts, and `place` puts
        # presets after files.
        files = store.ask(_FILES_ASKED, asked=frame_of_ids(requested_ids)).sort("place", maintain_order=True)
        # Name -> image of the names that are asked for; those of the images' other names are added below.
        self.image_of = _images_of(files.filter(pl.col("name").is_in(sorted(requested_ids))))
        # What else stands for an image: a redacted image for its source, and a digest for the file that has it.
        self.also = dict(store.ask(_SOURCES, asked=frame_of_ids(requested_ids)).iter_rows())
        # A row is a file with what a digest of it stands for: its image, or the name of a file that is no image.
        files_with_content = files.with_columns(content=pl.coalesce("image_id", "name"))
        for digest in FileDigests._fields:
            of_digest = files_with_content.filter(pl.col(digest).is_in(sorted(requested_ids)))
            self.also |= dict(of_digest.select(digest, "content").iter_rows())
        images = frame_of_ids(requested_ids | {self.image(requested_id) for requested_id in requested_ids})
        self.image_of |= _images_of(store.ask(_FILES_OF_IMAGES, asked=images).sort("place", maintain_order=True))
        known_ids = store.ask(_KNOWN, asked=images)
        self.conversations, self.users, self.names_and_images = (
            set(known_ids.filter(kind=kind)["id"]) for kind in ("conversation", "user", "image")
        )

    def conv_id(self, asked: str) -> str | None:
        """The conv_id of a conversation or battle id."""
        return next(
            (possible_id for possible_id in possible_conv_ids(asked) if possible_id in self.conversations), None
        )

    def image(self, asked: str) -> str:
        """Content id of a requested image; of a file that is not an image, its name; otherwise the requested id."""
        return self.image_of.get(asked) or self.also.get(asked, asked)

    def images(self, asked: str) -> set[str]:
        """Content id and logged names of an image that is requested by any of them; empty when unknown."""
        image_id = self.image(asked)
        names = {name for name, image in self.image_of.items() if image == image_id}
        return names | {name_or_id for name_or_id in (asked, image_id) if name_or_id in self.names_and_images}


def _images_of(files: pl.DataFrame) -> dict[str, str]:
    """Logged name -> content id of its latest image."""
    return dict(files.select("name", "image_id").drop_nulls().iter_rows())


def frame_of_ids(ids: Iterable[str]) -> pl.DataFrame:
    """The ids as a table for questions."""
    return pl.DataFrame({"id": pl.Series(sorted(ids), dtype=pl.String)})


def find_scope(
    store: Store,
    requested: Iterable[str],
    addresses: Iterable[str],
    key: bytes,
    tombstones: Tombstones,
    conv_ids: Iterable[str] = (),
) -> TakedownScope:
    """Everything that is removed for a request. Raises BadInput for an id that this store never had.

    `requested`: conversation, battle, image and user ids, logged image names and image files. `addresses`: users as the
    raw logs name them. The other side of a vote is included because it repeats the prompt; so are all conversations
    that show a removed image, and all conversations and votes of a user. `conv_ids` may be of conversations to come.
    """
    people, scope = Pseudonyms(key), {kind: set[str]() for kind in TakenDownKind}
    scope[TakenDownKind.CONVERSATION].update(conv_ids)
    spellings = {requested_id: list(_spellings(requested_id)) for requested_id in requested}
    users = [people.user_id(address) for address in addresses]
    spelled = {
        name for requested_id in spellings for name in (*possible_conv_ids(requested_id), *spellings[requested_id])
    }
    stored_ids = Known(store, spelled.union(user for user in users if user))
    for requested_id, names in spellings.items():
        if not _add(requested_id, names, stored_ids, scope) and not any(
            tombstones.holds(kind, names) for kind in TakenDownKind
        ):
            raise BadInput(_unknown(store, requested_id))
    for user in users:
        if user is None or not (user in stored_ids.users or tombstones.holds(TakenDownKind.USER, [user])):
            raise BadInput("--user: this store has no line of that user; give the address exactly as the raw logs do")
        scope[TakenDownKind.USER].add(user)
    scope[TakenDownKind.CONVERSATION].update(_conversations(store, scope))
    return scope


def unknown_ids(store: Store, requested: Iterable[str]) -> list[str]:
    """Requested ids, names and files that this store never had."""
    tombstones = Tombstones(store, store_key(store))
    spellings = {requested_id: list(_spellings(requested_id)) for requested_id in requested}
    stored_ids = Known(
        store,
        {name for requested_id in spellings for name in (*possible_conv_ids(requested_id), *spellings[requested_id])},
    )
    return [
        requested_id
        for requested_id, names in spellings.items()
        if not _is_known(requested_id, names, stored_ids, tombstones)
    ]


def _is_known(requested_id: str, names: Sequence[str], stored_ids: Known, tombstones: Tombstones) -> bool:
    nowhere = {kind: set[str]() for kind in TakenDownKind}
    return _add(requested_id, names, stored_ids, nowhere) or any(
        tombstones.holds(kind, names) for kind in TakenDownKind
    )


def known_as(store: Store, requested: str) -> list[str]:
    """Ids and names that the store has of what a takedown would take for `requested`; content ids of images first."""
    names = [*_spellings(requested), *possible_conv_ids(requested)]
    stored_ids, scope = Known(store, names), {kind: set[str]() for kind in TakenDownKind}
    _add(requested, names, stored_ids, scope)
    images = [stored_ids.image(name) for name in names]
    return list(
        dict.fromkeys([*names, *images, *(removed_id for kind in TakenDownKind for removed_id in sorted(scope[kind]))])
    )


def taken_down(store: Store, names: Iterable[str]) -> bool:
    """Whether a takedown removed one of these. Raises BadInput when the store has takedowns and its key is missing."""
    if not store.parts("takedowns"):
        return False
    tombstones, names = Tombstones(store, store_key(store)), list(names)
    return any(tombstones.holds(kind, names) for kind in TakenDownKind)


def _unknown(store: Store, requested_id: str) -> str:
    """The message for an unknown id or file; for an image file it lists stored images that look the same."""
    content = _file(requested_id)
    if content is None:
        return (
            f"{requested_id!r} is no conversation, battle, image or user of this store, nor an image file; "
            "`curate explain ID` shows what an id is"
        )
    alike = [copy.image_id for copy in lookalikes(store, content)]
    if alike:
        listed = ", ".join(alike[:_SHOWN]) + (f" and {len(alike) - _SHOWN:,} more" if len(alike) > _SHOWN else "")
        return (
            f"no image of this store has the pixels of {requested_id!r}, but some look the same; give their ids: "
            f"{listed}"
        )
    return (
        f"no image of this store has the pixels of {requested_id!r}, and none looks the same; give the file that was "
        "uploaded, the name that the logs give it, or the id of a conversation that shows it"
    )


def _add(requested_id: str, spellings: Iterable[str], stored_ids: Known, scope: TakedownScope) -> bool:
    """Add a requested id to the scope, as the first of conversation, user and image that it is. False when unknown."""
    if conv_id := stored_ids.conv_id(requested_id):
        scope[TakenDownKind.CONVERSATION].add(conv_id)
        return True
    if requested_id in stored_ids.users:
        scope[TakenDownKind.USER].add(requested_id)
        return True
    image_names = set[str]().union(*map(stored_ids.images, spellings))
    scope[TakenDownKind.IMAGE].update(image_names)
    return bool(image_names)


def _spellings(requested_id: str) -> Iterator[str]:
    """Other ids of the same item: without a file extension, digests in lower case, and the ids of an image file."""
    yield requested_id
    suffix = next((ending for ending in _SUFFIXES if requested_id.lower().endswith(ending)), "")
    name = requested_id[: len(requested_id) - len(suffix)]
    yield name
    if _DIGEST.fullmatch(name):
        yield name.lower()
    content = _file(requested_id)
    if content is not None:
        yield file_digests(content).sha256
        try:
            yield open_image(content).image_id
            yield logged_name(Path(requested_id))
        except (ImageRejected, BadInput):
            return


def _file(requested_path: str) -> bytes | None:
    """Content of the file with this path; None when there is no such file."""
    path = Path(requested_path)
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return None
        raise BadInput(f"{requested_path!r} cannot be read ({why_unreadable(error)})") from None


def _conversations(store: Store, scope: TakedownScope) -> Iterator[str]:
    """conv_ids that are removed with a scope: those of its users and images, and the other sides of their votes."""
    of_users = store.ask(_OF_USERS, users=frame_of_ids(scope[TakenDownKind.USER]))["conv_id"]
    theirs = scope[TakenDownKind.CONVERSATION].union(of_users)
    quarantined_rows = quarantined(store, store.parts("sightings"), theirs, scope[TakenDownKind.IMAGE])
    yield from quarantined_rows.filter(kind="conversation")["key"]


def lookalikes(store: Store, content: bytes) -> list[NearCopy]:
    """Stored images that are near-duplicates of an encoded image, nearest first; none if `content` is not an image."""
    try:
        hashed = image_hashes(open_image(content)).model_dump()
    except ImageRejected:
        return []
    compared_image = pl.DataFrame({"image_id": [""], **{name: [hashed[name]] for name in _HASHES}})
    return _near(compared_image, _hashes_staying(store, pl.Series(dtype=pl.String)))


def near_copies(store: Store, gone: pl.Series) -> list[NearCopy]:
    """Images that stay and are near-duplicates of one that is removed, nearest first. `gone`: images that do not."""
    hashes_of_gone = store.batches(_IMAGE_HASHES.format(semi_or_anti="SEMI"), gone=gone.to_frame("id"))
    compared_images = pl.concat(hashes_of_gone).unique("image_id", keep="last")
    return [] if compared_images.is_empty() else _near(compared_images, _hashes_staying(store, gone))


def _hashes_staying(store: Store, gone: pl.Series) -> Iterator[pl.DataFrame]:
    return store.batches(_IMAGE_HASHES.format(semi_or_anti="ANTI"), NEAR_AT_ONCE, gone=gone.to_frame("id"))


def _near(compared_images: pl.DataFrame, stored: Iterable[pl.DataFrame]) -> list[NearCopy]:
    nearest: dict[str, int] = {}
    radius, ours = NearImages(), set(compared_images["image_id"])
    for rows in stored:
        images = pl.concat([compared_images, rows]).unique("image_id").sort("image_id")
        pairs = near_images(near_hashes(images, radius, rows["image_id"]), images, radius)
        for a, b, bits in pairs.select("image_a", "image_b", "pdq_distance").iter_rows():
            other = b if a in ours else a
            if other not in ours:
                nearest[other] = min(bits, nearest.get(other, bits))
    copies = [NearCopy(image_id=image_id, pdq_distance=bits) for image_id, bits in nearest.items()]
    return sorted(copies, key=lambda copy: (copy.pdq_distance, copy.image_id))
