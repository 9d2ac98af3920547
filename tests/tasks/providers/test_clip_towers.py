"""OpenCLIP leaves out work that its vectors do not depend on, and rounds only what bears it."""

import numpy as np
import pytest

from schemas.errors import BadInput

pytest.importorskip("open_clip", reason="production extra")
import open_clip
import torch

from tasks.providers.production.clip_int8 import WholeNumbers
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


def layer_with_outliers():
    """A layer, and rows some of whose channels are tens of times as large as the others."""
    torch.manual_seed(0)
    layer, rows = torch.nn.Linear(96, 64), torch.randn(40, 96)
    rows[:, [3, 50]] *= 40
    layer.weight.data[:, [3, 50]] /= 40
    return layer, rows


def test_large_channels_do_not_drown_the_others_in_eight_bits():
    layer, rows = layer_with_outliers()
    with torch.inference_mode():
        exact = layer(rows)
        off = (WholeNumbers(layer, rows.abs().amax(dim=0))(rows) - exact).norm() / exact.norm()
        as_they_are = WholeNumbers(layer, layer.weight.abs().amax(dim=0))  # as large as their weights: divided by 1
        drowned = (as_they_are(rows) - exact).norm() / exact.norm()
    assert off < 0.015
    assert drowned > 0.1


def test_a_row_in_eight_bits_does_not_depend_on_the_rows_beside_it():
    layer, rows = layer_with_outliers()
    whole = WholeNumbers(layer, rows.abs().amax(dim=0))
    with torch.inference_mode():
        beside = torch.cat([rows * 1000, rows])
        assert torch.equal(whole(beside)[40:], whole(rows))
        assert torch.equal(whole(torch.zeros(2, 96)), layer.bias.expand(2, 64))


def test_texts_are_never_rounded(clip):
    np.testing.assert_array_equal(clip(PRECISION="int8").embed_texts(TEXTS), clip(PRECISION="fp32").embed_texts(TEXTS))


def test_int8_is_refused_where_it_cannot_run(clip, tmp_path, monkeypatch):
    weights = drawn_checkpoint(
        tmp_path, "curation-resnet", CONFIG | {"vision_cfg": {"image_size": 64, "layers": [1] * 4, "width": 16}}
    )
    with pytest.raises(BadInput, match="none of this architecture's layers"):
        clip(MODEL="curation-resnet", PRETRAINED=str(weights), PRECISION="int8").embed_images([picture()])
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False)
    with pytest.raises(BadInput, match="no 8-bit products"):
        clip(PRECISION="int8")
