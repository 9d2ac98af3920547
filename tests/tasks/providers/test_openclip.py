"""OpenCLIP, loaded as in production, from a small checkpoint with random weights."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from schemas.errors import BadInput, MissingProvider

if find_spec("open_clip") is None:  # it is imported where a test uses it: every process that collects would wait
    pytest.skip("production extra", allow_module_level=True)

from tasks.images.decode import open_image
from tasks.providers import Providers
from tests.builders import drawn_image, image_bytes
from tests.tasks.providers.small_clip import CONFIG, MODEL, drawn_checkpoint

TEXTS = ["a cat", "what is in this picture?", "", "a dog " * 500]
SIZES = [(300, 200), (200, 301), (224, 224), (60, 50), (1000, 63), (1, 7)]


@pytest.fixture(scope="module")
def images():
    return [drawn_image(seed, size) for seed, size in enumerate(SIZES)]


@pytest.fixture(scope="module")
def plain(clip_weights, images):
    """The loop of open_clip's own page: one image and one text at a time, fp32."""
    import open_clip
    import torch

    model, prepare = open_clip.create_model_from_pretrained(MODEL, pretrained=str(clip_weights))
    tokenize = open_clip.get_tokenizer(MODEL)
    with torch.inference_mode():
        of_images = [model.eval().encode_image(prepare(each.pil)[None], normalize=True)[0] for each in images]
        of_texts = [model.encode_text(tokenize([text]), normalize=True)[0] for text in TEXTS]
    return torch.stack(of_images).numpy(), torch.stack(of_texts).numpy()


@pytest.mark.parametrize(
    ("settings", "cosine_min"),
    [({}, 0.999999), ({"DEVICES": "cpu,cpu"}, 0.999999), ({"PRECISION": "bf16"}, 0.999)],
    ids=str,
)
def test_vectors_are_unit_vectors_and_those_of_the_plain_loop(clip, images, plain, settings, cosine_min):
    embedder = clip(**settings)
    for ours, theirs in zip((embedder.embed_images(images), embedder.embed_texts(TEXTS)), plain, strict=True):
        assert (ours.dtype, ours.shape) == (np.float32, theirs.shape)
        np.testing.assert_allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-5)
        assert (ours * theirs).sum(axis=1).min() >= cosine_min


def test_a_vector_does_not_depend_on_its_batch_thread_or_device(clip):
    from tasks.providers.production.local.openclip import CLIP_BATCH

    embedder, many = clip(DEVICES="cpu,cpu,cpu"), [drawn_image(seed) for seed in range(CLIP_BATCH + 6)]
    together = embedder.embed_images(many)
    with ThreadPoolExecutor(4) as pool:
        alone = list(pool.map(lambda one: embedder.embed_images([one])[0], many[:8]))
    np.testing.assert_allclose(together[:8], alone, atol=1e-5)
    np.testing.assert_allclose(together[-1:], embedder.embed_images(many[-1:]), atol=1e-5)
    assert len(embedder.replicas) == 3


def test_a_batch_too_large_for_the_memory_is_split(clip):
    import torch

    embedder, texts = clip(), [f"text number {number}" for number in range(9)]
    whole, encode, sizes = embedder.embed_texts(texts), embedder.replicas[0].encode_text, []

    def small(tokens):
        sizes.append(len(tokens))
        if len(tokens) > 3:
            raise torch.OutOfMemoryError("tried to allocate")
        return encode(tokens)

    embedder.replicas = [replace(embedder.replicas[0], encode_text=small)]
    np.testing.assert_allclose(embedder.embed_texts(texts), whole, atol=1e-5)
    assert max(size for size in sizes if size <= 3) == 3 and sizes[0] == 9


@pytest.mark.parametrize("size", [(1, 20_000), (20_000, 1)])
def test_a_long_thin_image_is_embedded_without_gigabytes(clip, size):
    assert clip().embed_images([open_image(image_bytes(1, size))]).shape == (1, CONFIG["embed_dim"])


def test_a_vector_that_is_not_finite_is_refused(clip):
    import torch

    embedder = clip()
    embedder.replicas = [replace(embedder.replicas[0], encode_text=lambda tokens: torch.full((len(tokens), 2), np.nan))]
    with pytest.raises(ValueError, match="not finite"):
        embedder.embed_texts(["a"])


def test_both_capabilities_of_a_run_share_one_model(clip):
    clip()
    providers = Providers({"image_embedding": "open_clip", "text_embedding": "open_clip"})
    assert providers["image_embedding"] is providers["text_embedding"]


def test_version_names_library_model_and_digest_of_the_weights_but_not_place_device_or_precision(
    clip, clip_weights, tmp_path
):
    import open_clip

    version = clip().version
    assert version.startswith(f"open_clip-{open_clip.__version__}-{MODEL}-")
    assert str(clip_weights) not in version
    assert version == clip(PRECISION="bf16", DEVICES="cpu,cpu").version
    assert version != clip(PRETRAINED=str(drawn_checkpoint(tmp_path, seed=1))).version


def test_folder_with_config_and_weights_is_a_checkpoint(clip, clip_weights, tmp_path, images, plain):
    import open_clip
    import torch
    from safetensors.torch import save_file

    (tmp_path / "open_clip_config.json").write_text(json.dumps({"model_cfg": CONFIG}))
    save_file(torch.load(clip_weights), tmp_path / "open_clip_model.safetensors")
    embedder = clip(PRETRAINED=f"local-dir:{tmp_path}")
    np.testing.assert_allclose(embedder.embed_images(images), plain[0], atol=1e-5)
    assert embedder.version.startswith(f"open_clip-{open_clip.__version__}-local-")


def test_a_checkpoint_that_cannot_be_had_is_told_at_once_with_the_way_out(clip, tmp_path, monkeypatch):
    from tasks.providers.production.local.openclip import find_checkpoint

    with pytest.raises(MissingProvider, match=r"open_clip_config\.json"):
        clip(PRETRAINED=f"local-dir:{tmp_path}")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(MissingProvider, match="hf download laion/"):
        find_checkpoint("ViT-B-32", "laion2b_s34b_b79k")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"MODEL": "ViT-B-23"}, "Did you mean ViT-B-32"),
        ({"MODEL": "ViT-B-32", "PRETRAINED": "laion9b"}, "laion2b_s34b_b79k"),
        ({"PRECISION": "int8"}, "bf16"),
        ({"DEVICES": "cuda:99"}, "cpu"),
        ({"DEVICES": "gpu"}, "no such device"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_told_with_the_ones_that_can(clip, settings, said):
    with pytest.raises(BadInput, match=said):
        clip(**settings)
