"""Products by int16 are those of whole numbers, exactly, whatever the shape, the threads and the processor."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", reason="production extra")
import torch

from tasks.providers.production.int16_products import ROW_LEVELS, WEIGHT_LEVELS, products, weights_of

ON_ANY_PROCESSOR = """
import hashlib, torch
from tasks.providers.production.int16_products import products, weights_of
torch.manual_seed(0)
rows, weight = torch.randn(19, 600), torch.randn(50, 600)
print(hashlib.sha256(products(rows, weights_of(weight, None)).numpy().tobytes()).hexdigest())
"""


def whole(rows, levels):
    """The rows as whole numbers, float64, and their steps."""
    steps = np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1e-30) / levels
    return np.rint(rows / steps), steps


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(1, 320), st.integers(1, 100), st.floats(1e-6, 1e6))
def test_products_are_sums_of_whole_numbers(n, half, channels, scale):
    chance = torch.Generator().manual_seed(n * 7919 + half)
    rows, weight = torch.randn(n, 2 * half, generator=chance) * scale, torch.randn(channels, 2 * half, generator=chance)
    bias = torch.randn(channels, generator=chance)
    (left, left_steps), (right, right_steps) = whole(rows.numpy(), ROW_LEVELS), whole(weight.numpy(), WEIGHT_LEVELS)
    expected = (left @ right.T) * left_steps * right_steps.T + bias.numpy()
    error = np.abs(products(rows, weights_of(weight, bias)).numpy() - expected)
    one_step = left_steps * right_steps.T * WEIGHT_LEVELS  # a half may be rounded up here and down there
    assert (error <= one_step + 1e-6 * np.abs(expected) + 1e-5 * scale).all()


def test_the_largest_sums_do_not_overflow():
    rows, weight = torch.ones(3, 3072), torch.ones(5, 3072)
    np.testing.assert_allclose(products(rows, weights_of(weight, None)), 3072, rtol=1e-6)
    np.testing.assert_allclose(products(-rows, weights_of(weight, None)), -3072, rtol=1e-6)


def test_products_are_as_near_as_twelve_bits_allow():
    torch.manual_seed(0)
    rows, weight = torch.randn(40, 768), torch.randn(96, 768)
    exact = rows @ weight.t()
    assert (products(rows, weights_of(weight, None)) - exact).norm() / exact.norm() < 1e-3


def test_a_row_does_not_depend_on_the_rows_beside_it_nor_on_threads():
    torch.manual_seed(0)
    rows, weights = torch.randn(50, 96), weights_of(torch.randn(64, 96), torch.randn(64))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    alone = products(rows, weights)
    torch.set_num_threads(3)
    beside = products(torch.cat([rows * 1000, rows]), weights)
    torch.set_num_threads(before)
    assert torch.equal(beside[50:], alone)


def test_rows_of_zeros_give_the_bias_and_no_rows_give_none():
    weights = weights_of(torch.randn(5, 6), torch.arange(5.0))
    assert torch.equal(products(torch.zeros(2, 6), weights), torch.arange(5.0).expand(2, 5))
    assert products(torch.zeros(0, 6), weights).shape == (0, 5)


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_stays_so(odd):
    rows, weight = torch.ones(2, 6), torch.ones(3, 6)
    rows[1, 4] = odd
    made = products(rows, weights_of(weight, None))
    assert torch.isfinite(made[0]).all() and not torch.isfinite(made[1]).any()
    weight[1, 3] = odd
    assert not torch.isfinite(products(torch.ones(1, 6), weights_of(weight, None))[0, 1])


def test_processors_without_the_instruction_give_the_same_bytes(tmp_path):
    plain = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    answers = [
        subprocess.run([sys.executable, "-c", ON_ANY_PROCESSOR], env=os.environ | more, capture_output=True, check=True)
        for more in ({}, plain)
    ]
    assert answers[0].stdout == answers[1].stdout
