"""Duplicates of a folder are found as a release finds them: equal pixels, and images that look the same."""

import shutil

import PIL.Image
import PIL.ImageOps
import pytest
import skimage.data

from schemas.policy import SemanticImages
from tasks.dedup.loose_files import FilePair, loose_duplicates
from tasks.providers import Providers
from tests.builders import image_bytes


@pytest.fixture(scope="module")
def providers():
    return Providers()


@pytest.fixture(scope="module")
def found(providers, tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    coffee = PIL.Image.fromarray(skimage.data.coffee())
    coffee.save(folder / "coffee.png")
    (folder / "deep").mkdir()
    shutil.copy(folder / "coffee.png", folder / "deep" / "again.PNG")
    coffee.save(folder / "coffee.bmp")
    coffee.resize((400, 267)).save(folder / "small.jpg", quality=70)
    PIL.Image.fromarray(skimage.data.rocket()).save(folder / "rocket.png")
    (folder / "broken.png").write_bytes(image_bytes()[:60])
    (folder / "empty.jpg").write_bytes(b"")
    coffee.resize((300, 200)).save(folder / "scan.TIFF")
    (folder / "drawing.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (folder / "notes.txt").write_text("no picture")
    return loose_duplicates(folder, providers, workers=2)


def test_equal_pixels_are_exact_pairs_whatever_the_file(found):
    exact = [pair for pair in found.pairs if pair.relation == "exact"]
    assert exact == [
        FilePair("coffee.bmp", "coffee.png", "exact", 0),
        FilePair("coffee.bmp", "deep/again.PNG", "exact", 0),
        FilePair("coffee.png", "deep/again.PNG", "exact", 0),
    ]


def test_a_smaller_copy_is_a_perceptual_pair_with_every_file_of_the_larger(found):
    pairs = [pair for pair in found.pairs if pair.relation == "perceptual"]
    assert [(pair.a, pair.b) for pair in pairs] == [
        ("coffee.bmp", "small.jpg"),
        ("coffee.png", "small.jpg"),
        ("deep/again.PNG", "small.jpg"),
    ]
    assert all(0 <= pair.distance <= 8 for pair in pairs)


def test_a_group_holds_all_copies_once_and_different_images_none(found):
    assert [sorted(group) for group in found.groups] == [["coffee.bmp", "coffee.png", "deep/again.PNG", "small.jpg"]]


def test_files_that_are_no_images_are_named_with_their_reason(found):
    assert dict(found.rejected).keys() == {"broken.png", "empty.jpg", "scan.TIFF", "drawing.svg"}
    assert dict(found.rejected)["scan.TIFF"] == "not_an_image"
    assert dict(found.rejected)["empty.jpg"] == "image_empty"
    assert found.images == 5


def test_threads_change_nothing(found, providers, tmp_path):
    for seed in range(5):
        (tmp_path / f"{seed}.png").write_bytes(image_bytes(seed % 3, (300, 200)))
    assert loose_duplicates(tmp_path, providers, workers=1) == loose_duplicates(tmp_path, providers, workers=4)


def test_an_empty_folder_has_no_duplicates(providers, tmp_path):
    nothing = loose_duplicates(tmp_path, providers, workers=1)
    assert (nothing.images, nothing.pairs, nothing.groups, nothing.rejected) == (0, [], [], [])


def test_semantic_pairs_come_when_asked_for_name_only_what_is_no_closer_and_group_nothing(providers, tmp_path):
    cat = PIL.Image.fromarray(skimage.data.chelsea())
    cat.save(tmp_path / "cat.png")
    PIL.ImageOps.mirror(cat).save(tmp_path / "mirrored.png")
    cat.resize((225, 150)).save(tmp_path / "small.png")
    PIL.Image.fromarray(skimage.data.rocket()).save(tmp_path / "rocket.png")
    without = loose_duplicates(tmp_path, providers, workers=1)
    found = loose_duplicates(tmp_path, providers, workers=2, semantic=SemanticImages())
    assert [(pair.a, pair.b, pair.relation) for pair in without.pairs] == [("cat.png", "small.png", "perceptual")]
    more = [pair for pair in found.pairs if pair not in without.pairs]
    assert [(pair.a, pair.b, pair.relation) for pair in more] == [
        ("cat.png", "mirrored.png", "semantic"),
        ("mirrored.png", "small.png", "semantic"),
    ]
    assert all(0 < pair.distance <= 0.1 for pair in more)
    assert found.groups == without.groups == [["cat.png", "small.png"]]
