"""OCR with weights from a folder; the shipped weights, put there, read as the embedded provider does."""

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
import pytest

from schemas.errors import MissingProvider
from tasks.images.decode import DecodedImage
from tasks.providers import Providers

SHIPPED = Path(importlib.util.find_spec("rapidocr").origin).parent / "models"
NAMES = {"det.onnx": "PP-OCRv6_det_small.onnx", "rec.onnx": "PP-OCRv6_rec_small.onnx"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    pytest.importorskip("huggingface_hub")
    for name, shipped in NAMES.items():
        shutil.copy(SHIPPED / shipped, tmp_path / name)
    monkeypatch.setenv("CURATE_OCR_WEIGHTS", str(tmp_path))
    return tmp_path


def _sign() -> DecodedImage:
    canvas = PIL.Image.new("RGB", (400, 120), "white")
    PIL.ImageDraw.Draw(canvas).text((20, 30), "Street 42", "black", PIL.ImageFont.load_default(48))
    return DecodedImage("1" * 32, b"", "png", np.asarray(canvas))


def test_weights_of_a_folder_are_read_with_and_are_part_of_the_version(folder):
    chosen = Providers({"image_text": "rapidocr"})
    own, embedded = chosen["image_text"], Providers()["image_text"]
    assert "image_text" not in chosen.stand_ins
    assert own.version != embedded.version
    assert own.read([_sign()]) == embedded.read([_sign()])
    assert "42" in own.read([_sign()])[0].text


def test_other_weights_are_another_version(folder, tmp_path):
    from tasks.providers.production.local.rapidocr import RapidOcrWeights

    before = RapidOcrWeights().version
    (tmp_path / "keys.txt").write_text("a\nb\n")
    assert RapidOcrWeights().version != before


def test_a_folder_without_weights_is_one_clear_line(folder):
    (folder / "rec.onnx").unlink()
    with pytest.raises(MissingProvider, match=r"set CURATE_OCR_WEIGHTS to a folder with det\.onnx and rec\.onnx"):
        Providers({"image_text": "rapidocr"})["image_text"]
