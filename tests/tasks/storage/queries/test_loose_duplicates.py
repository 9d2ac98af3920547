"""Duplicates of a folder are found as a release finds them; models have the names of the policy."""

import shutil
from datetime import UTC, datetime, timedelta

import PIL.Image
import PIL.ImageOps
import pytest
import skimage.data

from schemas.errors import BadPolicy
from schemas.items.conversation import UNDATED_BEFORE, Battle
from schemas.policy import Rename, SemanticImages
from tasks.dedup.loose_files import FilePair, loose_duplicates
from tasks.policy.policy_file import load_policy
from tasks.providers import Providers
from tasks.storage.queries.released import released_names, renamed
from tasks.storage.tables import frame_of
from tests.builders import NOON, battle, image_bytes, sides, store_with


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


def test_smaller_copies_are_perceptual_pairs(found):
    pairs = [pair for pair in found.pairs if pair.relation == "perceptual"]
    assert [(pair.a, pair.b) for pair in pairs] == [
        ("coffee.bmp", "small.jpg"),
        ("coffee.png", "small.jpg"),
        ("deep/again.PNG", "small.jpg"),
    ]
    assert all(0 <= pair.distance <= 8 for pair in pairs)


def test_a_group_holds_all_copies_once(found):
    assert [sorted(group) for group in found.groups] == [["coffee.bmp", "coffee.png", "deep/again.PNG", "small.jpg"]]


def test_files_that_are_no_images_are_named(found):
    assert dict(found.rejected).keys() == {"broken.png", "empty.jpg", "scan.TIFF", "drawing.svg"}


@pytest.mark.parametrize(("name", "reason"), [("scan.TIFF", "not_an_image"), ("empty.jpg", "image_empty")])
def test_a_file_that_is_no_image_says_why(found, name, reason):
    assert dict(found.rejected)[name] == reason


def test_images_of_a_folder_are_counted(found):
    assert found.images == 5


def test_an_empty_folder_has_no_duplicates(providers, tmp_path):
    nothing = loose_duplicates(tmp_path, providers, workers=1)
    assert (nothing.images, nothing.pairs, nothing.groups, nothing.rejected) == (0, [], [], [])


@pytest.mark.parametrize("files", [{}, {"broken.png": b"no picture"}], ids=["empty", "nothing usable"])
def test_a_folder_without_a_picture_has_no_semantic_pairs(providers, tmp_path, files):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    nothing = loose_duplicates(tmp_path, providers, workers=1, semantic=SemanticImages())
    assert (nothing.images, nothing.pairs, len(nothing.rejected)) == (0, [], len(files))


@pytest.mark.parametrize("name", ["a.jfif", "a.JPE", "a.apng"])
def test_a_picture_is_compared_whatever_its_format_calls_its_files(providers, tmp_path, name):
    for file in (name, "b.png"):
        (tmp_path / file).write_bytes(image_bytes())
    assert [(pair.a, pair.b) for pair in loose_duplicates(tmp_path, providers, workers=1).pairs] == [(name, "b.png")]


def test_the_number_of_threads_changes_no_duplicate(providers, tmp_path):
    for seed in range(5):
        (tmp_path / f"{seed}.png").write_bytes(image_bytes(seed % 3, (300, 200)))
    assert loose_duplicates(tmp_path, providers, workers=1) == loose_duplicates(tmp_path, providers, workers=4)


@pytest.fixture(scope="module")
def cats(providers, tmp_path_factory):
    """Duplicates of a folder with a cat, its mirror image and a small copy: without semantic pairs, and with them."""
    folder = tmp_path_factory.mktemp("cats")
    cat = PIL.Image.fromarray(skimage.data.chelsea())
    cat.save(folder / "cat.png")
    PIL.ImageOps.mirror(cat).save(folder / "mirrored.png")
    cat.resize((225, 150)).save(folder / "small.png")
    PIL.Image.fromarray(skimage.data.rocket()).save(folder / "rocket.png")
    without = loose_duplicates(folder, providers, workers=1)
    return without, loose_duplicates(folder, providers, workers=2, semantic=SemanticImages())


def test_no_semantic_pair_comes_unasked(cats):
    without, _ = cats
    assert [(pair.a, pair.b, pair.relation) for pair in without.pairs] == [("cat.png", "small.png", "perceptual")]


def test_semantic_pairs_name_only_what_is_no_closer(cats):
    without, found = cats
    more = [pair for pair in found.pairs if pair not in without.pairs]
    assert [(pair.a, pair.b, pair.relation) for pair in more] == [
        ("cat.png", "mirrored.png", "semantic"),
        ("mirrored.png", "small.png", "semantic"),
    ]
    assert all(0 < pair.distance <= 0.1 for pair in more)


def test_semantic_pairs_group_nothing(cats):
    without, found = cats
    assert found.groups == without.groups == [["cat.png", "small.png"]]


SECOND = timedelta(seconds=1)


def _named(model: str, *renames: Rename, at: datetime = NOON) -> tuple[str, str]:
    votes = frame_of(Battle, [battle(*sides("b"), model_a=model, model_b="other", tstamp=at)])
    return renamed(votes, renames).select("model_a", "model_b").row(0)


@pytest.mark.parametrize(("model", "name"), [("bard", "palm-2"), ("bard-2", "bard-2")])
def test_only_the_model_that_is_renamed_has_a_new_name(model, name):
    assert _named(model, Rename(model="bard", to="palm-2")) == (name, "other")


SWAP = [Rename(model="a", to="b"), Rename(model="b", to="a")]


@pytest.mark.parametrize("renames", [SWAP, SWAP[::-1]], ids=["in order", "reversed"])
def test_a_model_is_renamed_once_however_the_list_is_ordered(renames):
    assert [_named(name, *renames)[0] for name in "ab"] == ["b", "a"]


def test_a_day_of_a_rename_begins_in_utc():
    day = Rename.model_validate({"model": "a", "to": "b", "since": "2024-05-01"})
    assert day.since == datetime(2024, 5, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("rename", "name"),
    [(Rename(model="a", to="b", until=NOON), "a"), (Rename(model="a", to="b"), "b")],
    ids=["dated", "undated"],
)
def test_a_vote_without_a_time_has_the_new_name_of_a_rename_without_dates_alone(rename, name):
    assert _named("a", rename, at=UNDATED_BEFORE - timedelta(minutes=59))[0] == name


@pytest.mark.parametrize(("seconds", "name"), [(-1, "gpt-4-0314"), (0, "gpt-4-0613"), (1, "gpt-4-0613")])
def test_a_date_tells_which_of_two_names_it_is(seconds, name):
    change = datetime(2024, 5, 1, 7, tzinfo=UTC)
    both = Rename(model="gpt-4", to="gpt-4-0314", until=change), Rename(model="gpt-4", to="gpt-4-0613", since=change)
    assert _named("gpt-4", *both, at=change + timedelta(seconds=seconds))[0] == name


def test_without_decisions_the_names_are_those_of_the_log(tmp_path):
    votes = [battle(*sides("b"))]
    store = store_with(tmp_path, battles=votes)
    assert released_names(store, store.read("battles")).equals(store.read("battles"))


@pytest.mark.parametrize(
    ("renames", "said"),
    [
        ("[{model: a, to: ''}]", "renames.1.to"),
        ("[{model: a, to: b, from: 2024-02-01}]", "unknown key at renames.1.from"),
        ("[{model: a, to: b, since: soon}]", "renames.1.since"),
        ("[{model: a, to: b, since: 2024-02-01, until: 2024-02-01}]", "not after since"),
        ("[{model: a, to: b}, {model: a, to: c, since: 2024-02-01}]", "'a' overlap"),
    ],
)
def test_a_rename_that_says_nothing_or_two_things_is_one_clear_line(tmp_path, renames, said):
    file = tmp_path / "mine.yaml"
    file.write_text(f"name: mine\nrules: []\nrenames: {renames}\n", encoding="utf-8")
    with pytest.raises(BadPolicy) as refused:
        load_policy(str(file))
    assert said in str(refused.value) and "\n" not in str(refused.value)
