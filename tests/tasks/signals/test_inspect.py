"""Every signal of a loose image or text, one object a line; what cannot be measured says why."""

import json

import pytest

from schemas.tables import SIGNALS
from tasks.signals.loose_files import inspect_file
from tasks.signals.registry import image_signals, text_signals
from tests.builders import image_bytes


def lines(folder, *rows):
    file = folder / "texts.jsonl"
    file.write_bytes(b"\n".join(row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows))
    return file


def test_an_image_has_every_image_signal(tmp_path, counting):
    file = tmp_path / "drawn.png"
    file.write_bytes(image_bytes(1))
    (seen,) = inspect_file(file, counting)
    assert seen["item"] == str(file)
    assert seen["signals"].keys() == image_signals(counting).keys()
    for name, value in seen["signals"].items():
        assert value.keys() == SIGNALS[name].model_fields.keys()


def test_an_image_is_not_moderated_when_nobody_chose_a_provider(tmp_path, counting):
    file = tmp_path / "drawn.png"
    file.write_bytes(image_bytes(1))
    del counting.names["image_moderation"]
    (seen,) = inspect_file(file, counting)
    assert "image_moderation" not in seen["signals"]


def test_every_text_of_a_file_has_every_text_signal(tmp_path, counting):
    file = lines(tmp_path, {"id": "first", "text": "What is it?"}, {"text": "a@b"})
    one, other = inspect_file(file, counting)
    assert (one["item"], other["item"]) == ("first", f"{file}:2")
    assert one["signals"].keys() == other["signals"].keys() == text_signals(counting).keys()
    assert one["signals"]["tokens"] == {"tokens": len("What is it?")}
    assert other["signals"]["text_pii"]["types"] == ["email"]


@pytest.mark.parametrize("row", [b"", b"{", b"[]", b"3", b'{"txt": "a"}', b'{"text": null}', b'{"text": 3}', b"\xff"])
def test_a_line_without_text_says_so_and_the_next_is_measured(tmp_path, counting, row):
    bad, good = inspect_file(lines(tmp_path, row, {"text": "fine"}), counting)
    assert {str(value) for value in bad["signals"].values()} == {"{'error': 'no_text'}"}
    assert "error" not in good["signals"]["tokens"]


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "image_empty"), (b"GIF", "not_an_image"), (image_bytes()[:99], None)]
)
def test_a_file_that_is_no_image_says_why_under_every_signal(tmp_path, counting, content, reason):
    file = tmp_path / "broken.png"
    file.write_bytes(content)
    (seen,) = inspect_file(file, counting)
    errors = {value["error"] for value in seen["signals"].values()}
    assert seen["signals"].keys() == image_signals(counting).keys()
    assert errors == {reason or "image_truncated"}


def test_a_signal_that_failed_says_why_and_the_others_are_measured(tmp_path, counting):
    counting.down = {"language"}
    counting.fails["text_pii"] = lambda text: True
    (seen,) = inspect_file(lines(tmp_path, {"text": "fine"}), counting)
    assert seen["signals"]["language"] == {"error": "RuntimeError"}
    assert seen["signals"]["text_pii"] == {"error": "over_quota"}
    assert seen["signals"]["tokens"] == {"tokens": 4}
