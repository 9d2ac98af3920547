"""The operator's lists: what they hold, and what happens to lines that cannot be used."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import BadInput
from tasks.ingest.known_images import file_digests, load_known_hashes
from tests.builders import drawn_image

PDQ = "0123456789abcdef" * 4


@pytest.fixture
def listed(tmp_path):
    def load(text: str):
        file = tmp_path / "list.txt"
        file.write_text(text)
        return load_known_hashes([str(file)])

    return load


def flipped(digits: str, bits: int) -> str:
    return f"{int(digits, 16) ^ ((1 << bits) - 1):064x}"


@pytest.mark.parametrize("kind", ["md5", "sha1", "sha256"])
def test_a_file_is_known_by_each_digest_of_its_bytes(listed, kind):
    known = listed(f"# a comment\n\n{kind.upper()}, {hashlib.new(kind, b'file').hexdigest().upper()}  # another\n")
    assert known.holds_file(file_digests(b"file"))
    assert not known.holds_file(file_digests(b"other"))


def test_a_logged_name_is_known_by_md5_and_an_image_by_its_pixels(listed):
    image = drawn_image(1)
    known = listed(f"md5 {'a' * 32}\npixels {image.image_id}")
    assert known.holds_name("a" * 32) and not known.holds_name(image.image_id)
    assert known.holds_image(image) and not known.holds_image(drawn_image(2))


@given(bits=st.integers(0, 256), distance=st.none() | st.integers(0, 128))
def test_an_image_is_known_within_the_distance_of_its_line(tmp_path_factory, bits, distance):
    file = tmp_path_factory.getbasetemp() / "pdq.txt"
    file.write_text(f"pdq {PDQ} {'' if distance is None else distance}")
    known = load_known_hashes([str(file)])
    expected = bits <= (31 if distance is None else distance)
    assert known.near([flipped(PDQ, bits), flipped(PDQ, 200)]).tolist()[0] is expected


def test_every_image_is_compared_with_every_line(listed):
    words = np.random.default_rng(0).integers(0, 2**63, (20, 4))
    lines = ["".join(f"{word:016x}" for word in row) for row in words]
    known = listed("\n".join(f"pdq {line} {place}" for place, line in enumerate(lines)))
    assert known.near([*lines, PDQ]).tolist() == [True] * 20 + [False]
    shifted = [flipped(line, place + 1) for place, line in enumerate(lines)]
    assert known.near(shifted).tolist() == [False] * 20


def test_no_list_holds_nothing():
    known = load_known_hashes([])
    assert not known and not known.holds_image(drawn_image(1))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("deadbeef" * 4, "must be one of md5"),
        ("md5 deadbeef", "32 hexadecimal digits"),
        (f"pdq {'g' * 64}", "64 hexadecimal digits"),
        (f"pdq {PDQ} 129", "0 to 128"),
        (f"pdq {PDQ} near", "0 to 128"),
        (f"md5 {'a' * 32} 3", "only pdq"),
        ("sha1", "40 hexadecimal digits"),
    ],
)
def test_a_line_that_cannot_be_used_is_one_clear_line_without_what_it_says(listed, line, said):
    with pytest.raises(BadInput, match=f"line 2: .*{said}") as refused:
        listed(f"md5 {'c' * 32}\n{line}")
    assert line.split()[-1] not in str(refused.value).partition("line 2")[2] or line == "sha1"


def test_a_list_that_is_not_there_is_one_clear_line(tmp_path):
    with pytest.raises(BadInput, match="cannot be read"):
        load_known_hashes([str(tmp_path / "nowhere.txt")])
