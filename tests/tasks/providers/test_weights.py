"""Weights from the Hub or from a folder of one's own, YuNet's and OCR's; the Hub's address needs a process."""

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import onnx
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
import pytest

from schemas.errors import MissingProvider
from tasks.images.decode import DecodedImage
from tasks.providers import Providers
from tests.http_server import Serving
from tests.tasks.providers.small_yunet import write_yunet

pytest.importorskip("huggingface_hub")
SCRIPT = """
import sys
from schemas.errors import MissingProvider
from tasks.providers.production.local.weights import hub_file
try:
    file = hub_file("org/model", ["weights.safetensors", "weights.bin"])
except MissingProvider as missing:
    print("missing:", missing)
    sys.exit()
print("found")
print(file.read_text())
"""


class Hub(Serving):
    """Has one file, weights.bin, and remembers what it was asked for."""

    methods = ("GET", "HEAD")

    def __init__(self):
        self.asked = []
        super().__init__()

    def respond(self, handler):
        self.asked.append(f"{handler.command} {handler.path.rpartition('/')[2]}")
        if handler.path == "/org/model/resolve/main/weights.bin":
            self.send(handler, b"bytes", headers={"etag": '"abc"', "x-repo-commit": "0" * 40})
        else:
            self.send(handler, b"", 404, {"x-error-code": "EntryNotFound"})


@pytest.fixture
def hub():
    with closing(Hub()) as server:
        yield server


@pytest.fixture
def look(tmp_path):
    def look(endpoint, **settings):
        kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        own = {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path), "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0"}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=kept | own | settings, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return look


def test_offered_file_is_downloaded_once_and_never_offline(hub, look):
    assert look(hub.url, HF_HUB_OFFLINE="1").startswith("missing:")
    assert hub.asked == []
    assert look(hub.url) == "found\nbytes\n"
    assert "HEAD weights.safetensors" in hub.asked
    assert hub.asked.count("GET weights.bin") == 1
    hub.asked.clear()
    assert look(hub.url) == "found\nbytes\n"
    assert hub.asked == []


def test_unreachable_hub_is_told_in_seconds_with_the_way_out(look):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        begin = time.monotonic()
        told = look(f"http://127.0.0.1:{unused.getsockname()[1]}")
    assert told.startswith("missing:")
    assert "hf download org/model weights.safetensors" in told
    assert time.monotonic() - begin < 20


@pytest.fixture
def weights(tmp_path, monkeypatch):
    file = write_yunet(tmp_path / "yunet.onnx", found_at=8)
    monkeypatch.setenv("CURATE_YUNET_WEIGHTS", str(file))
    return file


def _white(left: int, top: int, side: int, size: tuple[int, int]) -> DecodedImage:
    rgb = np.zeros((size[1], size[0], 3), np.uint8)
    rgb[top : top + side, left : left + side] = 255
    return DecodedImage("1" * 32, b"", "png", rgb)


def test_boxes_are_in_image_pixels_whatever_the_size_of_the_search(weights):
    small, wide = _white(104, 56, 8, (320, 192)), _white(3200, 1600, 64, (4000, 2000))
    faces = Providers({"faces": "yunet"})["faces"].find_faces([small, wide, _white(0, 0, 0, (320, 192))])
    assert [(face.box, round(face.confidence, 2)) for face in faces[0]] == [([100, 52, 16, 16], 1.0)]
    centres = [(face.box[0] + face.box[2] / 2, face.box[1] + face.box[3] / 2) for face in faces[1]]
    assert centres and all(3180 <= x <= 3284 and 1580 <= y <= 1684 for x, y in centres)
    assert faces[2] == []


def test_it_is_a_production_provider_whose_version_names_the_weights_and_not_their_place(weights, monkeypatch):
    chosen = Providers({"faces": "yunet"})
    assert "faces" not in chosen.stand_ins
    version = chosen["faces"].version
    assert version.startswith("yunet-") and str(weights.parent) not in version
    other = write_yunet(weights.with_name("other.onnx"), found_at=16)
    monkeypatch.setenv("CURATE_YUNET_WEIGHTS", str(other))
    assert Providers({"faces": "yunet"})["faces"].version != version


@pytest.mark.parametrize("broken", ["missing", "no network", "another network"])
def test_a_file_that_is_no_yunet_is_one_clear_line(weights, broken):
    if broken == "missing":
        weights.unlink()
    elif broken == "no network":
        weights.write_bytes(b"not a network")
    else:
        model = onnx.load(weights)
        model.graph.output.pop()
        onnx.save(model, weights)
    with pytest.raises(MissingProvider, match="CURATE_YUNET_WEIGHTS") as caught:
        Providers({"faces": "yunet"})["faces"]
    assert "\n" not in str(caught.value) and str(weights) not in str(caught.value)


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


def test_weights_of_a_folder_are_read_with_and_their_version_is_theirs(folder, tmp_path):
    chosen = Providers({"image_text": "rapidocr"})
    own, embedded = chosen["image_text"], Providers()["image_text"]
    assert "image_text" not in chosen.stand_ins
    assert own.version != embedded.version
    assert own.read([_sign()]) == embedded.read([_sign()])
    assert "42" in own.read([_sign()])[0].text
    from tasks.providers.production.local.weights import RapidOcrWeights

    before = RapidOcrWeights().version
    (tmp_path / "keys.txt").write_text("a\nb\n")
    assert RapidOcrWeights().version != before


def test_a_folder_without_weights_is_one_clear_line(folder):
    (folder / "rec.onnx").unlink()
    with pytest.raises(MissingProvider, match=r"set CURATE_OCR_WEIGHTS to a folder with det\.onnx and rec\.onnx"):
        Providers({"image_text": "rapidocr"})["image_text"]
