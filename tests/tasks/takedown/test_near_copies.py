"""A re-encoded copy of an image that goes is another image: it stays, and is listed before anything goes."""

import io

import PIL.Image
import pytest

from tasks.images.decode import open_image
from tasks.images.hashes import image_hashes
from tasks.storage.keyed_ids import KEY_VARIABLE
from tasks.takedown.take_down import take_down
from tests.builders import NOON, facts_frame, image_bytes
from tests.tasks.ingest.logs import DAY, chat, conv_id, image_name, ingested, write

NAMES = ("photo", "copy", "small", "other")
PHOTO, COPY, SMALL, OTHER = (image_name(name) for name in NAMES)


def _again(size: tuple[int, int], quality: int) -> bytes:
    """The photo as somebody would send it on."""
    stream = io.BytesIO()
    PIL.Image.open(io.BytesIO(image_bytes(3, (320, 240)))).resize(size).save(stream, "JPEG", quality=quality)
    return stream.getvalue()


FILES = {
    PHOTO: image_bytes(3, (320, 240)),
    COPY: _again((320, 240), 90),
    SMALL: _again((240, 180), 60),
    OTHER: image_bytes(5, (320, 240)),
}
IDS = {name: open_image(content).image_id for name, content in FILES.items()}


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Four conversations, each with an image: a photo, two copies of it, and another."""
    monkeypatch.setenv(KEY_VARIABLE, "the key of every store here")
    logs = tmp_path / "logs"
    write(logs, DAY, *(chat(name, "What is it?", "A cat.", images=[image_name(name)]) for name in NAMES))
    (logs / "serve_images").mkdir()
    for name, content in FILES.items():
        (logs / "serve_images" / f"{name}.png").write_bytes(content)
    store = ingested(logs, tmp_path / "store")
    for name in (PHOTO, COPY, SMALL, OTHER):  # in parts of their own
        hashes = image_hashes(open_image(FILES[name])).model_dump()
        store.append("signals/image_hash", facts_frame("image_hash", {IDS[name]: hashes}))
    return store


def listed(store, asked: str, dry_run: bool = True) -> list[str]:
    return [copy.image_id for copy in take_down(store, [asked], [], NOON, dry_run).near_images]


@pytest.mark.parametrize("asked", [PHOTO, conv_id("photo")])
def test_copies_of_an_image_that_goes_are_listed_the_nearest_first(store, asked):
    assert listed(store, asked) == [IDS[COPY], IDS[SMALL]]


def test_an_image_that_nothing_looks_like_lists_none(store):
    assert listed(store, OTHER) == []


def test_a_copy_that_is_named_too_goes_and_is_not_listed(store):
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
