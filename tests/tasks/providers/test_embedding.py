"""OpenCLIP, loaded the way production loads it, from a small checkpoint that the test makes."""

import json

import numpy as np
import pytest

from schemas.errors import BadInput, MissingProvider

pytest.importorskip("open_clip", reason="production extra")
import open_clip
import torch
from safetensors.torch import save_file

from tasks.providers import Providers
from tasks.providers.production.clip_weights import find_checkpoint
from tasks.providers.production.embedding import OpenClip

MODEL = "curation-test-tiny"
VISION = {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 16}
CONFIG = {
    "embed_dim": 24,
    "vision_cfg": VISION | {"patch_dropout": 0.5},  # noisy unless the model is in evaluation mode
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
}


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """Folder with the configuration and two checkpoints of it."""
    folder = tmp_path_factory.mktemp("clip")
    (folder / f"{MODEL}.json").write_text(json.dumps(CONFIG))
    open_clip.add_model_config(folder)
    for seed, name in enumerate(["first.pt", "second.pt"]):
        torch.manual_seed(seed)
        torch.save(open_clip.create_model(MODEL).state_dict(), folder / name)
    return folder


@pytest.fixture
def clip(weights, monkeypatch):
    def make(pretrained=None, model=MODEL):
        monkeypatch.setenv("CURATE_CLIP_MODEL", model)
        monkeypatch.setenv("CURATE_CLIP_PRETRAINED", pretrained or str(weights / "first.pt"))
        monkeypatch.setenv("CURATE_CLIP_PRECISION", "fp32")
        return OpenClip()

    return make


def test_pictures_and_texts_are_unit_vectors_of_one_space(clip, picture):
    embedder = clip()
    pictures = embedder.embed_images([picture(seed) for seed in range(3)])
    texts = embedder.embed_texts(["a cat", "", "a dog " * 500])
    assert pictures.shape == texts.shape == (3, 24)
    assert pictures.dtype == texts.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm([*pictures, *texts], axis=1), 1, atol=1e-6)


def test_vectors_are_those_of_the_checkpoint(clip, weights, picture):
    model, prepare = open_clip.create_model_from_pretrained(MODEL, pretrained=str(weights / "first.pt"))
    drawn = picture()
    with torch.no_grad():
        image = model.eval().encode_image(prepare(drawn.pil)[None], normalize=True).numpy()
        text = model.encode_text(open_clip.get_tokenizer(MODEL)(["a cat"]), normalize=True).numpy()
    np.testing.assert_allclose(clip().embed_images([drawn]), image, atol=1e-6)
    np.testing.assert_allclose(clip().embed_texts(["a cat"]), text, atol=1e-6)


def test_vector_does_not_depend_on_its_batch(clip, picture):
    embedder, pictures = clip(), [picture(seed) for seed in range(70)]
    together = embedder.embed_images(pictures)
    np.testing.assert_allclose(together[[0, 69]], embedder.embed_images([pictures[0], pictures[69]]), atol=1e-5)


def test_no_items_give_no_vectors(clip):
    assert len(clip().embed_texts([])) == 0


def test_both_capabilities_of_a_run_share_one_model(clip):
    clip()
    providers = Providers({"image_embedding": "open_clip", "text_embedding": "open_clip"})
    assert providers["image_embedding"] is providers["text_embedding"]


def test_version_names_library_model_and_weights_but_no_place(clip, weights):
    version = clip().version
    assert version.startswith(f"open_clip-{open_clip.__version__}-{MODEL}-")
    assert str(weights) not in version
    assert clip(str(weights / "second.pt")).version != version


def test_version_is_known_before_weights_are_loaded(clip, tmp_path, picture):
    broken = tmp_path / "broken.pt"
    broken.write_bytes(b"not weights")
    embedder = clip(str(broken))
    assert embedder.version
    with pytest.raises(Exception, match=r".*"):
        embedder.embed_images([picture()])


def test_folder_with_config_and_weights_is_a_checkpoint(clip, weights, tmp_path, picture):
    (tmp_path / "open_clip_config.json").write_text(json.dumps({"model_cfg": CONFIG}))
    save_file(torch.load(weights / "first.pt"), tmp_path / "open_clip_model.safetensors")
    from_folder = clip(f"local-dir:{tmp_path}")
    np.testing.assert_allclose(from_folder.embed_images([picture()]), clip().embed_images([picture()]), atol=1e-6)
    assert from_folder.version.startswith(f"open_clip-{open_clip.__version__}-local-")


def test_folder_without_weights_is_told_at_once(clip, tmp_path):
    with pytest.raises(MissingProvider, match=r"open_clip_config\.json"):
        clip(f"local-dir:{tmp_path}")


def test_unknown_model_is_told_with_the_nearest_name(clip):
    with pytest.raises(BadInput, match="Did you mean ViT-B-32"):
        clip("laion2b_s34b_b79k", model="ViT-B-23")


def test_unknown_tag_is_told_with_the_known_ones():
    with pytest.raises(BadInput, match="laion2b_s34b_b79k"):
        find_checkpoint("ViT-B-32", "laion9b")
