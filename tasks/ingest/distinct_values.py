"""Compiled: which values among many that stand in bytes are equal, so that each is understood once."""

from typing import Any

import numpy as np

from tasks.ingest.byte_blocks import WORD, word_at
from tasks.ingest.json_scan import Bytes, Places, loop, same, step

_PRIME = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


def distinct(content: Bytes, spans: Places) -> tuple[Places, Places]:
    """Of the values at `spans`, int64 (n, 2), first place and the one behind: (n,) which value, (values,) its first."""
    codes, firsts = np.empty(len(spans), np.int64), np.empty(len(spans), np.int64)
    slots = np.full(2 << len(spans).bit_length(), -1)  # a power of two, at most half of which is used
    found = _find(content, np.ascontiguousarray(spans), slots, codes, firsts)
    return codes, firsts[:found]


@loop
def _find(raw: Bytes, spans: Places, slots: Places, codes: Places, firsts: Places) -> int:
    found = 0
    for number in range(len(spans)):
        start, stop = spans[number, 0], spans[number, 1]
        slot = np.int64(_mixed(raw, start, stop) & np.uint64(len(slots) - 1))
        while slots[slot] >= 0:
            other = firsts[slots[slot]]
            if same(raw, start, stop, spans[other, 0], spans[other, 1]):
                break
            slot = (slot + 1) & (len(slots) - 1)
        if slots[slot] < 0:
            slots[slot], firsts[found] = found, number
            found += 1
        codes[number] = slots[slot]
    return found


@step
def _mixed(raw: Bytes, at: int, stop: int) -> Any:
    """A hash, uint64. Who knows it can make a block take a third of a second longer, and no more."""
    mixed = np.uint64(stop - at)
    while at + WORD <= stop:
        mixed = (mixed ^ word_at(raw, at)) * _PRIME
        mixed ^= mixed >> _HALF
        at += WORD
    while at < stop:
        mixed = (mixed ^ np.uint64(raw[at])) * _PRIME
        at += 1
    return mixed ^ (mixed >> _HALF)
