"""An image is asked for by a file: the one that was uploaded, or another of the same image."""

import hashlib
import io

import PIL.Image
import pytest

from schemas.errors import BadInput
from schemas.items.reject import TakenDownKind
from tasks.images.decode import open_image
from tasks.images.hashes import image_hashes
from tasks.storage.keyed_ids import KEY_VARIABLE, Tombstones
from tasks.takedown.scope import find_scope
from tests.builders import facts_frame, image_bytes
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


def test_a_file_that_is_no_image_is_known_by_its_bytes(images):
    store, folder, _ = images
    scope = scope_of(store, folder / f"{BROKEN}.png")
    assert (scope[TakenDownKind.IMAGE], scope[TakenDownKind.CONVERSATION]) == ({BROKEN}, {conv_id("bob")})


@pytest.mark.parametrize("saved", [{"format": "JPEG", "quality": 60}, {"format": "PNG"}])
def test_a_file_that_looks_the_same_is_told_the_ids_and_takes_nothing_down(images, tmp_path, saved):
    store, _, image_id = images
    path = tmp_path / "asked"
    PIL.Image.open(io.BytesIO(FILES[PHOTO])).resize((240, 180)).save(path, **saved)
    with pytest.raises(BadInput, match=f"some look the same; give their ids: {image_id}$"):
        scope_of(store, path)


def test_an_image_like_none_of_the_store_is_told_what_else_can_be_given(images, tmp_path):
    path = tmp_path / "asked.png"
    path.write_bytes(image_bytes(5, (320, 240)))
    with pytest.raises(BadInput, match="none looks the same; give the file that was uploaded"):
        scope_of(images[0], path)
