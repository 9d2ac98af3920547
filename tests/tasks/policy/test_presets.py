"""Which conversations started from one of the server's own examples."""

import polars as pl
import pytest

from schemas.items.conversation import Conversation
from schemas.items.image import ImageFile, NearImage, Preset
from tasks.dedup.repeats import preset_datasets
from tasks.storage.tables import frame_of
from tests.builders import conversation

SHOWN, STORED, COPY, UPLOAD = "a" * 32, "b" * 32, "c" * 32, "d" * 32
PRESETS = [
    Preset(path="llava/1.png", dataset="LLaVA-Bench", logged_name="1" * 32, image_id=SHOWN),
    Preset(path="lost/2.png", dataset="Lost", logged_name="2" * 32, image_id=None),
]


def _datasets(conversations: list[Conversation], logged: dict[str, list[str]], near: tuple = ()) -> list[str | None]:
    """`logged` gives the image names that the log shows under a conv_id."""
    images = {"conv_id": pl.String, "images": pl.List(pl.String)}
    sightings = pl.DataFrame(list(logged.items()), schema=images, orient="row")
    pairs = [NearImage(image_a=a, image_b=b, phash_distance=1, pdq_distance=1, grey_correlation=0.9) for a, b in near]
    found = preset_datasets(
        frame_of(Conversation, conversations), sightings, frame_of(Preset, PRESETS), frame_of(NearImage, pairs)
    )
    assert found.name == "preset_dataset"
    return found.to_list()


def test_a_preset_is_known_by_its_pixels():
    assert _datasets([conversation("c", image_ids=[SHOWN])], {}) == ["LLaVA-Bench"]


@pytest.mark.parametrize("pair", [(SHOWN, COPY), (COPY, SHOWN)])
def test_a_preset_is_known_by_a_copy_that_looks_the_same(pair):
    assert _datasets([conversation("c", image_ids=[COPY])], {}, (pair,)) == ["LLaVA-Bench"]


@pytest.mark.parametrize(("name", "dataset"), [("1" * 32, "LLaVA-Bench"), ("2" * 32, "Lost"), ("3" * 32, None)])
def test_a_preset_whose_image_is_lost_is_known_by_the_name_the_server_logs(name, dataset):
    assert _datasets([conversation("c", image_ids=[])], {"c": [name]}) == [dataset]


def test_a_preset_is_known_by_the_file_the_server_made_of_it(deciding):
    hashes = {"md5": "4" * 32, "sha1": "5" * 40, "sha256": "6" * 64}
    name = f"{'1' * 32}.png"
    served = ImageFile(name=name, size_bytes=1, modified_ns=1, image_id=STORED, problem=None, evidence="", **hashes)
    chats = [conversation("c", image_ids=[STORED]), conversation("u", image_ids=[UPLOAD])]
    decided = deciding.given(chats, presets=PRESETS, image_files=[served]).decide()
    assert {name: row["preset_dataset"] for name, row in decided.items()} == {"c": "LLaVA-Bench", "u": None}


def test_only_the_first_image_counts():
    chats = [conversation("p", image_ids=[SHOWN, UPLOAD]), conversation("u", image_ids=[UPLOAD, SHOWN])]
    assert _datasets(chats, {"p": ["1" * 32, "3" * 32], "u": ["3" * 32, "1" * 32]}) == ["LLaVA-Bench", None]


def test_an_upload_is_no_preset_because_a_later_conversation_of_the_session_uses_one():
    """A new image under one conv_id starts another conversation; the first keeps the bare id."""
    chats = [conversation("c", image_ids=[UPLOAD]), conversation("c-0a1b2c3d", image_ids=[SHOWN])]
    sightings = pl.DataFrame({"conv_id": ["c", "c"], "images": [["3" * 32], ["1" * 32]]})
    presets, pairs = frame_of(Preset, PRESETS), frame_of(NearImage, [])
    found = preset_datasets(frame_of(Conversation, chats), sightings, presets, pairs)
    assert found.to_list() == [None, "LLaVA-Bench"]
