"""Local models run on the device that is asked for, or nothing runs; cards are shared by a cluster's processes."""

import pytest

from schemas.errors import MissingProvider
from tasks.images.decode import open_image
from tasks.providers.embedded.image_embedding import EfficientNet
from tasks.runtime import parallel as device
from tasks.signals.registry import Signal
from tests.builders import image_bytes


@pytest.fixture(autouse=True)
def auto_again():
    yield
    device.use_device("auto")


def test_cuda_is_refused_without_a_card(curate, monkeypatch, tmp_path):
    monkeypatch.setattr(device, "cards", lambda: 0)
    (tmp_path / "one.png").write_bytes(image_bytes(1))
    status, out, err = curate("inspect", tmp_path / "one.png", "--set", "device=cuda")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "no NVIDIA card" in err and "device=cpu" in err


def test_a_card_that_the_library_cannot_use_is_no_silent_cpu(monkeypatch):
    monkeypatch.setattr(device, "cards", lambda: 1)
    device.use_device("cuda")
    embedder, image = EfficientNet(), open_image(image_bytes(1))
    signal = Signal("image_embedding", embedder.version, "embedded", embedder.embed_images)
    if not device._onnx_on_card():
        with pytest.raises(MissingProvider, match="onnxruntime-gpu"):
            signal.values([image])
    for chosen in ("auto", "cpu"):
        device.use_device(chosen)
        assert EfficientNet().embed_images([image]).shape == (1, 1280)


@pytest.mark.parametrize(
    ("chosen", "cards", "size"), [("auto", 0, 32), ("auto", 2, 128), ("cpu", 2, 32), ("cuda", 1, 128)]
)
def test_batches_are_larger_on_a_card(monkeypatch, chosen, cards, size):
    monkeypatch.setattr(device, "cards", lambda: cards)
    device.use_device(chosen)
    assert device.batch_of(32) == size
