"""An image is asked for by a file; a re-encoded copy is another image: it stays, and is listed before anything goes."""

import hashlib
import io

import PIL.Image
import pytest

from schemas.errors import BadInput
from schemas.items.reject import TakenDownKind
from tasks.images.decode import open_image
from tasks.images.measures import image_hashes
from tasks.ingest.image_files import IMAGE_SUFFIXES
from tasks.ingest.quarantine import EMBEDDED_SUFFIX
from tasks.storage.keyed_ids import KEY_VARIABLE, Tombstones
from tasks.takedown.scope import find_scope
from tasks.takedown.take_down import take_down
from tests.builders import NOON, facts_frame, image_bytes
from tests.tasks.ingest.logs import DAY, chat, conv_id, image_name, ingested, write

KEY = b"the key of every store here"
PHOTO, BROKEN = image_name("photo"), image_name("broken")
FILES = {PHOTO: image_bytes(3, (320, 240)), BROKEN: image_bytes(4, (320, 240))[:-40]}


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A store of an image and a broken one, and their folder."""
    logs = tmp_path_factory.mktemp("images") / "logs"
    write(logs, DAY, chat("ann", "Where?", "At sea.", images=[PHOTO]), chat("bob", "And?", "No.", images=[BROKEN]))
    (logs / "serve_images").mkdir()
    for name, content in FILES.items():
        (logs / "serve_images" / f"{name}.png").write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY_VARIABLE, KEY.decode())
        store = ingested(logs, logs.parent / "store")
    photo = open_image(FILES[PHOTO])
    others = {"0" * 32: image_hashes(open_image(image_bytes(8))).model_dump()}
    store.append(
        "signals/image_hash", facts_frame("image_hash", {photo.image_id: image_hashes(photo).model_dump()} | others)
    )
    return store, logs / "serve_images", photo.image_id


def scope_of(store, asked):
    return find_scope(store, [str(asked)], [], KEY, Tombstones(store, KEY))


@pytest.mark.parametrize("file_format", ["PNG", "WEBP", "BMP"])
def test_a_file_with_the_same_pixels_is_the_image_in_whatever_format(images, tmp_path, file_format):
    store, _, image_id = images
    path = tmp_path / "asked"
    PIL.Image.open(io.BytesIO(FILES[PHOTO])).save(path, file_format, lossless=True)
    assert scope_of(store, path)[TakenDownKind.IMAGE] == {PHOTO, image_id}
    assert scope_of(store, path)[TakenDownKind.CONVERSATION] == {conv_id("ann")}


@pytest.mark.parametrize("kind", ["md5", "sha1", "sha256"])
def test_a_digest_is_taken_as_any_system_writes_it(images, kind):
    store, _, image_id = images
    digest = hashlib.new(kind, FILES[PHOTO]).hexdigest()
    assert (
        scope_of(store, digest)[TakenDownKind.IMAGE]
        == scope_of(store, digest.upper())[TakenDownKind.IMAGE]
        == {PHOTO, image_id}
    )


@pytest.mark.parametrize("suffix", [*IMAGE_SUFFIXES, EMBEDDED_SUFFIX, ""])
@pytest.mark.parametrize("spelled", [str, str.upper, str.title])
def test_an_image_is_known_by_its_name_with_every_ending_that_ingest_reads(images, suffix, spelled):
    store, _, image_id = images
    assert scope_of(store, PHOTO + spelled(suffix))[TakenDownKind.IMAGE] == {PHOTO, image_id}
    assert scope_of(store, PHOTO.upper() + spelled(suffix))[TakenDownKind.IMAGE] == {PHOTO, image_id}


def test_a_file_is_known_by_its_bytes_or_told_what_else_can_be_given(images, tmp_path):
    store, folder, _ = images
    scope = scope_of(store, folder / f"{BROKEN}.png")
    assert (scope[TakenDownKind.IMAGE], scope[TakenDownKind.CONVERSATION]) == ({BROKEN}, {conv_id("bob")})
    path = tmp_path / "asked.png"
    path.write_bytes(image_bytes(5, (320, 240)))
    with pytest.raises(BadInput, match="none looks the same; give the file that was uploaded"):
        scope_of(images[0], path)


@pytest.mark.parametrize("saved", [{"format": "JPEG", "quality": 60}, {"format": "PNG"}])
def test_a_file_that_looks_the_same_is_told_the_ids_and_takes_nothing_down(images, tmp_path, saved):
    store, _, image_id = images
    path = tmp_path / "asked"
    PIL.Image.open(io.BytesIO(FILES[PHOTO])).resize((240, 180)).save(path, **saved)
    with pytest.raises(BadInput, match=f"some look the same; give their ids: {image_id}$"):
        scope_of(store, path)


NAMES = ("photo", "copy", "small", "other")
PHOTO, COPY, SMALL, OTHER = (image_name(name) for name in NAMES)


def _again(size: tuple[int, int], quality: int) -> bytes:
    """The photo as somebody would send it on."""
    stream = io.BytesIO()
    PIL.Image.open(io.BytesIO(image_bytes(3, (320, 240)))).resize(size).save(stream, "JPEG", quality=quality)
    return stream.getvalue()


COPIES = {
    PHOTO: image_bytes(3, (320, 240)),
    COPY: _again((320, 240), 90),
    SMALL: _again((240, 180), 60),
    OTHER: image_bytes(5, (320, 240)),
}
IDS = {name: open_image(content).image_id for name, content in COPIES.items()}


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Four conversations, each with an image: a photo, two copies of it, and another."""
    monkeypatch.setenv(KEY_VARIABLE, "the key of every store here")
    logs = tmp_path / "logs"
    write(logs, DAY, *(chat(name, "What is it?", "A cat.", images=[image_name(name)]) for name in NAMES))
    (logs / "serve_images").mkdir()
    for name, content in COPIES.items():
        (logs / "serve_images" / f"{name}.png").write_bytes(content)
    store = ingested(logs, tmp_path / "store")
    for name in (PHOTO, COPY, SMALL, OTHER):  # in parts of their own
        hashes = image_hashes(open_image(COPIES[name])).model_dump()
        store.append("signals/image_hash", facts_frame("image_hash", {IDS[name]: hashes}))
    return store


def listed(store, asked: str, dry_run: bool = True) -> list[str]:
    return [copy.image_id for copy in take_down(store, [asked], [], NOON, dry_run).near_images]


@pytest.mark.parametrize("asked", [PHOTO, conv_id("photo")])
def test_copies_of_an_image_that_goes_are_listed_the_nearest_first(store, asked):
    assert listed(store, asked) == [IDS[COPY], IDS[SMALL]]


def test_copies_of_an_image_that_goes_are_listed_unless_they_are_named_too(store):
    assert listed(store, OTHER) == []
    removed = take_down(store, [PHOTO, IDS[COPY]], [], NOON, dry_run=False)
    assert [copy.image_id for copy in removed.near_images] == [IDS[SMALL]]
    assert removed.near_images[0].pdq_distance > 0
    assert set(store.read("images")["image_id"]) == {IDS[SMALL], IDS[OTHER]}


def test_the_command_that_takes_the_copies_down_as_well_is_printed_and_works(store, curate):
    code, out, _ = curate("takedown", "--yes", "--store", store.root, PHOTO)
    them = f"curate takedown --store {store.root} {IDS[COPY]} {IDS[SMALL]}"
    assert (code, out.count("of 256 bits of their PDQ hashes differ")) == (0, 2)
    assert f"to take them down as well: {them}\n" in out
    assert out.index("look like a removed one") < out.index("gone")
    assert curate(*them.split()[1:], "--yes")[0] == 0
    assert set(store.read("conversations")["conversation_id"]) == {conv_id("other")}
