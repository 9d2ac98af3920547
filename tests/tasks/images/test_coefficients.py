"""JPEGs are written anew in a process that can open nothing, by the library that Pillow decodes with."""

import resource
from pathlib import Path

import pytest

from tasks.images import coefficients
from tests.builders import image_bytes

CONTENT = image_bytes(3, (64, 48), "JPEG")
SCAN = b"\xff\xda"


@pytest.fixture
def process():
    """A process of this test alone."""
    made = coefficients._Process()
    yield made
    made.stop()


def test_the_process_can_open_no_file_socket_or_process(process):
    pid = process.running.pid
    assert process.recoded(CONTENT).coded.startswith(b"\xff\xd8")
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC):
        assert resource.prlimit(pid, limit) == (0, 0)
    assert resource.prlimit(pid, resource.RLIMIT_AS)[0] == coefficients.BYTES_MAX


def test_the_process_ends_with_the_one_that_started_it(process):
    process.pipe.close()
    assert process.running.wait(timeout=30) == 0


def test_a_file_that_ends_the_process_costs_the_next_one_nothing():
    whole = coefficients.recoded(CONTENT)
    with pytest.raises(EOFError):
        coefficients.recoded(CONTENT[: CONTENT.index(SCAN)])  # no scan: an error of libjpeg, not a warning
    assert coefficients.recoded(CONTENT) == whole


def test_a_library_of_another_binary_interface_is_said_and_not_taken_for_a_broken_file(monkeypatch, tmp_path):
    other = tmp_path / "coefficients.py"
    other.write_text(Path(coefficients.__file__).read_text().replace("= 62, 632,", "= 80, 656,"))
    monkeypatch.setattr(coefficients, "__file__", str(other))
    with pytest.raises(ImportError, match="reinstall Pillow"):
        coefficients._Process()
