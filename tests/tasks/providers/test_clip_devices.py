"""Devices that OpenCLIP runs on: bounded, shared by threads, and no batch too large for them. Shown on CPUs."""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("open_clip", reason="production extra")
import torch

from tasks.providers.production.clip_tiles import tiles_of
from tasks.providers.production.embedding import CPU_BATCH, IN_FLIGHT
from tests.builders import picture, picture_bytes

CPU = torch.device("cpu")


def with_replicas(embedder, **changes):
    embedder.replicas = [replace(each, **changes) for each in embedder.replicas]
    return embedder


def test_a_batch_too_large_for_the_memory_is_done_in_halves(clip):
    embedder, texts = clip(), [f"text number {number}" for number in range(CPU_BATCH + 1)]
    whole, encode, sizes = embedder.embed_texts(texts), embedder.replicas[0].encode_text, []

    def small(tokens):
        sizes.append(len(tokens))
        if len(tokens) > 2:
            raise torch.OutOfMemoryError("tried to allocate")
        return encode(tokens)

    np.testing.assert_allclose(with_replicas(embedder, encode_text=small).embed_texts(texts), whole, atol=1e-5)
    assert sizes == [8, 4, 2, 2, 4, 2, 2, 1]


def test_one_item_too_large_for_the_memory_is_an_error(clip):
    def none(tokens):
        raise torch.OutOfMemoryError("tried to allocate")

    with pytest.raises(torch.OutOfMemoryError):
        with_replicas(clip(), encode_text=none).embed_texts(["a", "b"])


def test_many_threads_hold_few_batches_on_a_device(clip):
    embedder, held, most, lock = clip(), 0, 0, threading.Lock()
    prepare, encode = embedder.replicas[0].prepare, embedder.replicas[0].encode_image

    def counted(pictures, device):
        nonlocal held, most
        with lock:
            held += 1
            most = max(most, held)
        return prepare(pictures, device)

    def encoded(batch):
        nonlocal held
        vectors = encode(batch)
        with lock:
            held -= 1
        return vectors

    with_replicas(embedder, prepare=counted, encode_image=encoded)
    pictures = [picture(seed) for seed in range(24)]
    with ThreadPoolExecutor(12) as pool:
        beside = list(pool.map(lambda one: embedder.embed_images([one])[0], pictures))
    assert 1 < most <= IN_FLIGHT
    np.testing.assert_allclose(beside, embedder.embed_images(pictures), atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 20_000), (20_000, 1), (5_000, 40)])
def test_a_long_thin_picture_is_cut_before_it_is_enlarged(clip, shape):
    """Whole, as a GPU would shrink it, 1 x 20000 pixels would become 12 GB."""
    from tasks.pixels.pictures import open_picture

    thin = open_picture(picture_bytes(1, shape))
    tiles = tiles_of(clip()._checkpoint.load(CPU)[3])
    assert torch.equal(tiles.on_device(thin, CPU), tiles.on_cpu(thin, CPU).float())


def test_the_gpu_benchmark_prints_both_ceilings(clip, tmp_path, capsys, monkeypatch):
    from benchmarks.embedding_device import on_device

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    clip(PRECISION="bf16")
    for seed in range(2):
        (tmp_path / f"{seed}.jpg").write_bytes(picture_bytes(seed, (64, 48), file_format="JPEG"))
    (row,) = on_device(sorted(tmp_path.glob("*.jpg")), "cpu", copies=2)
    assert row["n"] == 4
    assert row["of_ceiling"] == pytest.approx(max(row["decode_s"], row["forward_s"]) / row["ours_s"], abs=0.01)
    assert "decode_s" in capsys.readouterr().out
    assert json.dumps(row)
