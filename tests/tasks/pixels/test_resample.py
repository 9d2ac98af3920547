"""Our resampling is Pillow's, byte for byte: whatever was measured on Pillow's pixels is measured on the same ones."""

import os
import subprocess
import sys

import numpy as np
import PIL.Image
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tasks.pixels.resample import brightness, resized, resized_grey, resized_with_grey
from tasks.pixels.resample_plan import Filter

SIDES = st.integers(1, 150)
PILLOW = {
    Filter.BILINEAR: PIL.Image.Resampling.BILINEAR,
    Filter.BICUBIC: PIL.Image.Resampling.BICUBIC,
    Filter.LANCZOS: PIL.Image.Resampling.LANCZOS,
}


def noise(width, height, seed=0):
    """Levels of 0 and 255 above all, where rounding overshoots."""
    generator = np.random.default_rng(seed)
    return (generator.integers(-200, 456, (height, width, 3)).clip(0, 255)).astype(np.uint8)


@settings(max_examples=150)
@given(st.sampled_from(Filter), SIDES, SIDES, SIDES, SIDES, st.integers(0, 10**6))
@example(Filter.LANCZOS, 1, 1, 40, 40, 0)
@example(Filter.BICUBIC, 1, 150, 150, 1, 0)
def test_a_resized_picture_is_pillow_s(kernel, width, height, new_width, new_height, seed):
    rgb = noise(width, height, seed)
    pillow = PIL.Image.fromarray(rgb).resize((new_width, new_height), PILLOW[kernel])
    assert np.array_equal(resized(rgb, (new_width, new_height), kernel), np.asarray(pillow))


@settings(max_examples=60)
@given(SIDES, SIDES, st.integers(0, 10**6))
def test_the_small_brightness_of_a_picture_is_pillow_s(width, height, seed):
    rgb = noise(width, height, seed)
    grey = PIL.Image.fromarray(rgb).convert("L")
    assert np.array_equal(brightness(rgb), np.asarray(grey))
    small = np.asarray(grey.resize((32, 32), PIL.Image.Resampling.LANCZOS))
    assert np.array_equal(resized_grey(rgb, (32, 32), Filter.LANCZOS), small)
    wanted = (60, 45), Filter.BICUBIC, (7, 3, 20, 30)
    both = resized_with_grey(rgb, *wanted, (32, 32), Filter.LANCZOS)
    assert np.array_equal(both[0], resized(rgb, *wanted))
    assert np.array_equal(both[1], small)


@pytest.mark.parametrize("size", [(1, 20_000), (20_000, 1), (2031, 1523)])
@pytest.mark.parametrize("kernel", Filter)
def test_a_picture_of_any_size_is_made_as_pillow_makes_it(size, kernel):
    rgb = noise(*size)
    pillow = PIL.Image.fromarray(rgb).resize((224, 97), PILLOW[kernel])
    assert np.array_equal(resized(rgb, (224, 97), kernel), np.asarray(pillow))


@pytest.mark.parametrize("crop", [(0, 0, 60, 40), (7, 3, 20, 30), (59, 39, 1, 1)])
def test_a_part_of_a_resized_picture_is_that_part_of_the_whole(crop):
    left, top, width, height = crop
    rgb = noise(200, 100)
    whole = resized(rgb, (60, 40), Filter.BICUBIC)
    part = resized(rgb, (60, 40), Filter.BICUBIC, crop)
    assert np.array_equal(part, whole[top : top + height, left : left + width])


SMALL_ON_ANY_PROCESSOR = """
import numpy as np, PIL.Image
from tasks.pixels.resample import resized_with_grey
from tasks.pixels.resample_plan import Filter
rgb = np.random.default_rng(0).integers(0, 256, (90, 1500, 3), np.uint8)
pixels, grey = resized_with_grey(rgb, (131, 70), Filter.BICUBIC, None, (32, 32), Filter.LANCZOS)
picture = PIL.Image.fromarray(rgb)
assert np.array_equal(pixels, np.asarray(picture.resize((131, 70), PIL.Image.Resampling.BICUBIC)))
assert np.array_equal(grey, np.asarray(picture.convert("L").resize((32, 32), PIL.Image.Resampling.LANCZOS)))
"""


PROCESSORS = {"generic": "", "haswell": "+sse4.2,+avx,+avx2"}


@pytest.mark.parametrize("processor", PROCESSORS)
def test_a_processor_with_narrower_registers_makes_the_same_picture(processor, tmp_path):
    narrow = {
        "NUMBA_CPU_NAME": processor,
        "NUMBA_CPU_FEATURES": PROCESSORS[processor],
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    run_alone(SMALL_ON_ANY_PROCESSOR, narrow)


AT_THE_END_OF_MEMORY = """
import ctypes, mmap
import numpy as np
from tasks.pixels.resample import resized_grey, resized_with_grey
from tasks.pixels.resample_plan import Filter
memory = mmap.mmap(-1, 1 << 20)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
half = 1 << 19
assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + half), ctypes.c_size_t(half), 0) == 0  # no access
whole = np.frombuffer(memory, np.uint8)
for width in (1, 2, 3, 5, 15, 16, 17, 33, 300):
    for height in (1, 2, 15, 16, 17, 31, 32, 48):
        rgb = whole[half - 3 * width * height : half].reshape(height, width, 3)
        assert rgb.base is not None
        resized_with_grey(rgb, (24, 18), Filter.BICUBIC, None, (32, 32), Filter.LANCZOS)
        resized_grey(whole[half - width * height : half].reshape(height, width), (32, 32), Filter.LANCZOS)
print("read nothing else")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="protects memory with mprotect")
def test_nothing_behind_a_picture_is_read():
    assert run_alone(AT_THE_END_OF_MEMORY, {}) == "read nothing else\n"


def run_alone(program, variables):
    environment = {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
