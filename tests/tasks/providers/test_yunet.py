"""YuNet with weights from a file, run by OpenCV on a small network with the same inputs and outputs."""

import numpy as np
import onnx
import pytest

from schemas.errors import MissingProvider
from tasks.images.decode import DecodedImage
from tasks.providers import Providers
from tests.tasks.providers.small_yunet import write_yunet

pytest.importorskip("huggingface_hub")


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
