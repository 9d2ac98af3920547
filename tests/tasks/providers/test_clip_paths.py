"""Every way OpenCLIP can run gives the vectors of the plain fp32 loop over open_clip's own preprocessing."""

import numpy as np
import pytest

from schemas.errors import BadInput

pytest.importorskip("open_clip", reason="production extra")
import open_clip
import torch

from tasks.providers.production.clip_tiles import tiles_of
from tests.builders import picture
from tests.tasks.providers.small_clip import MODEL

TEXTS = ["a cat", "what is in this picture?", ""]
SHAPES = [(300, 200), (200, 301), (224, 224), (60, 50), (1000, 33), (1, 7)]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def pictures():
    return [picture(seed, shape) for seed, shape in enumerate(SHAPES)]


@pytest.fixture(scope="module")
def plain(clip_weights, pictures):
    """The loop anybody would write: one picture and one text at a time, fp32."""
    model, prepare = open_clip.create_model_from_pretrained(MODEL, pretrained=str(clip_weights))
    tokenize = open_clip.get_tokenizer(MODEL)
    with torch.inference_mode():
        images = [model.eval().encode_image(prepare(p.pil)[None], normalize=True)[0] for p in pictures]
        texts = [model.encode_text(tokenize([text]), normalize=True)[0] for text in TEXTS]
    return torch.stack(images).numpy(), torch.stack(texts).numpy(), prepare


def cosines(one, other):
    return (one * other).sum(axis=1).min()


@pytest.mark.parametrize(
    ("settings", "cosine_min"),
    [
        ({}, 0.999999),
        ({"DEVICES": "cpu,cpu"}, 0.999999),
        ({"PRECISION": "bf16"}, 0.999),
        ({"PRECISION": "int16"}, 0.99999),
    ],
    ids=str,
)
def test_vectors_are_those_of_the_plain_loop(clip, pictures, plain, settings, cosine_min):
    embedder = clip(**settings)
    assert cosines(embedder.embed_images(pictures), plain[0]) >= cosine_min
    assert cosines(embedder.embed_texts(TEXTS), plain[1]) >= cosine_min


def test_the_tile_of_a_cpu_is_open_clip_s_to_the_last_bit_of_a_level(clip, pictures, plain):
    tiles = tiles_of(clip()._checkpoint.load(CPU)[3])
    ours = tiles.batch(pictures, CPU)
    theirs = torch.stack([plain[2](p.pil) for p in pictures])
    assert float((ours - theirs).abs().max()) < 1e-5


def test_what_a_gpu_shrinks_gives_nearly_the_same_vectors(clip, pictures, plain):
    """The very code of the GPU path, run on this CPU."""
    model, _, _, wanted = clip()._checkpoint.load(CPU)
    tiles = tiles_of(wanted)
    levels = torch.stack([tiles.on_device(p, CPU) for p in pictures])
    on_cpu = torch.stack([tiles.on_cpu(p, CPU) for p in pictures])
    assert float((levels - on_cpu.float()).abs().mean()) < 0.2
    mean, deviation = (torch.tensor(each).view(3, 1, 1) * 255 for each in (tiles.mean, tiles.deviation))
    with torch.inference_mode():
        vectors = model.encode_image((levels - mean) / deviation, normalize=True).numpy()
    assert cosines(vectors, plain[0]) >= 0.999


def test_sixteen_bits_are_no_version_of_their_own(clip):
    versions = {clip(PRECISION=precision).version for precision in ("fp32", "bf16", "fp16", "int16")}
    assert len(versions) == 1


def test_a_cpu_uses_int16_unless_told_otherwise(clip, monkeypatch):
    assert clip(PRECISION="")._precision == "int16"
    assert clip(PRECISION="", COMPILE="1")._precision == "fp32"
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False)
    assert clip(PRECISION="", COMPILE="")._precision == "fp32"


def test_batches_go_to_all_devices_in_turn_and_come_back_in_order(clip):
    embedder = clip(DEVICES="cpu,cpu,cpu")
    texts = [f"text number {number}" for number in range(200)]
    together = embedder.embed_texts(texts)
    assert len(embedder.replicas) == 3
    np.testing.assert_allclose(
        together[[0, 70, 199]], embedder.embed_texts([texts[n] for n in (0, 70, 199)]), atol=1e-5
    )


def test_other_preprocessing_is_left_to_open_clip():
    wanted = {"size": (224, 224), "mean": (0, 0, 0), "std": (1, 1, 1), "interpolation": "bicubic"}
    assert tiles_of(wanted | {"resize_mode": "shortest"}).side == 224
    assert tiles_of(wanted | {"resize_mode": "squash"}) is None
    assert tiles_of(wanted | {"resize_mode": "shortest", "size": (224, 336)}) is None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"PRECISION": "int16", "COMPILE": "1"}, "leave CURATE_CLIP_COMPILE out"),
        ({"PRECISION": "int8"}, "int16"),
        ({"DEVICES": "cuda:99"}, "cpu"),
        ({"DEVICES": "gpu"}, "no such device"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_told_with_the_ones_that_can(clip, settings, said):
    with pytest.raises(BadInput, match=said):
        clip(**settings)
