"""OpenCLIP leaves out work that its vectors do not depend on, and rounds the blocks that are CLIP's own."""

import numpy as np
import pytest

from schemas.errors import BadInput

pytest.importorskip("open_clip", reason="production extra")
import open_clip
import torch

from tasks.providers.production.clip_int16 import Rounded
from tests.builders import picture
from tests.tasks.providers.small_clip import CONFIG, drawn_checkpoint

TEXTS = ["what is in this picture, and where was it taken? " * 9, "a cat", "", "two dogs and a cat", "x " * 200]
WITHOUT_AN_END = CONFIG["text_cfg"] | {"no_causal_mask": True, "pool_type": "last"}
OTHERS = {
    "mean of all rows": CONFIG | {"vision_cfg": CONFIG["vision_cfg"] | {"pool_type": "avg"}},
    "attention pool": CONFIG
    | {"vision_cfg": CONFIG["vision_cfg"] | {"attentional_pool": True, "attn_pooler_heads": 2}},
    "text without a mask": CONFIG | {"custom_text": True, "text_cfg": WITHOUT_AN_END},
    "other blocks": CONFIG | {"vision_cfg": CONFIG["vision_cfg"] | {"qk_norm": True}},
}


def rows_seen(module):
    """Shapes of what a layer is given from now on."""
    shapes = []
    module.register_forward_hook(lambda _, given, __: shapes.append(tuple(given[0].shape[:2])))
    return shapes


def test_texts_are_read_as_far_as_the_longest_of_their_batch(clip):
    embedder = clip()
    model = embedder.replicas[0].model
    first, last = (rows_seen(model.transformer.resblocks[place].mlp) for place in (0, -1))
    embedder.embed_texts(["a cat", "", "two dogs"])
    assert first == [(3, 4)]  # start, two words, end
    assert last == [(3, 1)]


def test_short_texts_do_not_wait_for_long_ones(clip):
    embedder = clip()
    shapes = rows_seen(embedder.replicas[0].model.transformer.resblocks[0].mlp)
    mixed = embedder.embed_texts(["long " * 100, "short"] * 8)
    assert shapes == [(8, 3), (8, 77)]
    np.testing.assert_allclose(mixed[[0, 1]], embedder.embed_texts(["long " * 100, "short"]), atol=1e-5)


def test_the_last_block_of_a_picture_is_computed_for_one_row(clip):
    embedder = clip()
    blocks = embedder.replicas[0].model.visual.transformer.resblocks
    first, last = rows_seen(blocks[0].mlp), rows_seen(blocks[-1].block.mlp)
    embedder.embed_images([picture(seed) for seed in range(3)])
    assert (first, last) == ([(3, 50)], [(3, 1)])


@pytest.mark.parametrize("name", OTHERS)
def test_other_architectures_give_their_own_vectors(clip, tmp_path, name):
    model_name = f"curation-{name.replace(' ', '-')}"
    weights = drawn_checkpoint(tmp_path, model_name, OTHERS[name])
    model, prepare = open_clip.create_model_from_pretrained(model_name, pretrained=str(weights))
    drawn, tokens = picture(), open_clip.get_tokenizer(model_name)(TEXTS)
    with torch.inference_mode():
        image = model.eval().encode_image(prepare(drawn.pil)[None], normalize=True).numpy()
        texts = model.encode_text(tokens, normalize=True).numpy()
    embedder = clip(MODEL=model_name, PRETRAINED=str(weights))
    np.testing.assert_allclose(embedder.embed_images([drawn]), image, atol=1e-5)
    np.testing.assert_allclose(embedder.embed_texts(TEXTS), texts, atol=1e-5)


def test_all_layers_of_both_towers_are_rounded(clip):
    model = clip(PRECISION="int16").replicas[0].model
    blocks = [*model.visual.transformer.resblocks, *model.transformer.resblocks]
    layers = [layer for block in blocks for layer in block.modules() if isinstance(layer, Rounded)]
    assert len(layers) == 5 * len(blocks)  # query, keys and values, out, and two of the two-layer network
    assert not any(isinstance(layer, torch.nn.Linear) for block in blocks for layer in block.modules())


def test_a_vector_in_int16_does_not_depend_on_what_shares_its_batch(clip):
    embedder = clip(PRECISION="int16")
    alone, together = embedder.embed_texts(["a cat"]), embedder.embed_texts(["a cat", "a dog", "an owl"])
    np.testing.assert_allclose(alone[0], together[0], atol=2e-7)


def test_int16_is_refused_before_the_first_item_where_it_cannot_run(clip, tmp_path, monkeypatch):
    others = (
        OTHERS["other blocks"] | OTHERS["text without a mask"] | {"vision_cfg": OTHERS["other blocks"]["vision_cfg"]}
    )
    weights = drawn_checkpoint(tmp_path, "curation-no-blocks", others)
    with pytest.raises(BadInput, match="int16 knows no layer of curation-no-blocks; choose fp32"):
        clip(MODEL="curation-no-blocks", PRETRAINED=str(weights), PRECISION="int16")
    clip(MODEL="curation-no-blocks", PRETRAINED=str(weights), PRECISION="")
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False)
    with pytest.raises(BadInput, match="no products of 16 bits"):
        clip(PRECISION="int16")
