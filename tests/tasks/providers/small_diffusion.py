"""A small Stable Diffusion pipeline with drawn weights: real ones are downloads of gigabytes."""

import json
from pathlib import Path

import torch
from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = ["<|startoftext|>", "<|endoftext|>", *LETTERS, *(f"{letter}</w>" for letter in LETTERS)]


def drawn_pipeline(folder: Path, seed: int = 0, width: int = 32, side: int = 16) -> Path:
    """A folder with the pipeline as it is before any training; it draws images of 2 * `side` pixels."""
    torch.manual_seed(seed)
    groups = {"norm_num_groups": 8}
    unet = UNet2DConditionModel(
        sample_size=side, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(width, 2 * width),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32, attention_head_dim=8, **groups,
    )  # fmt: skip
    decoder = AutoencoderKL(
        in_channels=3, out_channels=3, latent_channels=4, sample_size=2 * side, block_out_channels=(16, 32),
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, **groups,
    )  # fmt: skip
    reader = CLIPTextModel(
        CLIPTextConfig(
            vocab_size=len(WORDS), hidden_size=32, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=77, bos_token_id=0, eos_token_id=1, pad_token_id=1,
        )
    )  # fmt: skip
    pipeline = StableDiffusionPipeline(
        vae=decoder, text_encoder=reader, tokenizer=_tokenizer(folder), unet=unet,
        scheduler=DDIMScheduler(clip_sample=False, steps_offset=1), safety_checker=None, feature_extractor=None,
        requires_safety_checker=False,
    )  # fmt: skip
    pipeline.save_pretrained(folder / "pipeline", safe_serialization=True)
    return folder / "pipeline"


def _tokenizer(folder: Path) -> CLIPTokenizer:
    (folder / "vocab.json").write_text(json.dumps({word: place for place, word in enumerate(WORDS)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=77)
