"""Compiled loops of the search for near-same texts: a set-similarity join with prefix filter.

Of two sets with Jaccard index at least t, sorted by how rare their members are, the first |x| - ceil(t |x|) + 1 members
of each have one in common (Bayardo, Ma and Srikant, WWW 2007). Only these are looked up, in lists of the
representatives that have them. Where the first common member stands in both bounds how many can follow (Xiao, Wang, Lin
and Yu, TODS 2011), which leaves a few in a hundred; of these, sets of very different signature are passed over, and the
rest are merged.
"""

import numpy as np
import numpy.typing as npt

from tasks.decide.hamming_kernel import popcount
from tasks.running.compiled import compiled

Keys = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]
Lists = tuple[Numbers, Small]
"""Where each bucket's list begins and ends, int64 (buckets, 2); and the lists one after the other, int32 (entries, 3):
a text, its members, and its `reach` from where this member stands."""

RUN = 5
"""Characters of a run. Shorter ones are so common that every text meets every other."""
_MIX = np.uint64(0x9E3779B97F4A7C15)
_EPSILON = 1e-9


@compiled
def grams(characters: npt.NDArray[np.uint32], lengths: Numbers) -> tuple[Keys, Numbers]:
    """Keys uint64 (hashes) of the distinct runs of each text's characters, text after text, and their counts."""
    keys, counts = np.empty(characters.size, np.uint64), np.zeros(lengths.size, np.int64)
    begin, written = 0, 0
    for text in range(lengths.size):
        runs = max(lengths[text] - RUN + 1, 0)
        made = np.empty(runs, np.uint64)
        for place in range(runs):
            run = np.uint64(0)
            for character in characters[begin + place : begin + place + RUN]:
                run = (run ^ (run >> np.uint64(29))) * _MIX + np.uint64(character)
            made[place] = (run ^ (run >> np.uint64(32))) * _MIX
        made.sort()
        for place in range(runs):
            if place == 0 or made[place] != made[place - 1]:
                keys[written] = made[place]
                written += 1
                counts[text] += 1
        begin += lengths[text]
    return keys[:written].copy(), counts


@compiled
def ranked(keys: Keys, starts: Numbers, bits: int) -> None:
    """Sort each text's keys by how few texts hold one of their bucket; the upper `bits` become that rank."""
    low = np.uint64(64 - bits)
    held = np.zeros(1 << bits, np.int64)
    for place in range(keys.size):
        held[np.int64(keys[place] >> low)] += 1
    rank = np.empty(held.size, np.uint64)
    order = np.argsort(held, kind="mergesort")
    for place in range(order.size):
        rank[order[place]] = np.uint64(place)
    rest = (np.uint64(1) << low) - np.uint64(1)
    for place in range(keys.size):
        keys[place] = (rank[np.int64(keys[place] >> low)] << low) | (keys[place] & rest)
    for text in range(starts.size - 1):
        keys[starts[text] : starts[text + 1]].sort()


@compiled
def shared(one: Keys, other: Keys, least: int) -> int:
    """How many keys both sorted sets hold; -1 as soon as it cannot reach `least`."""
    i, j, both = 0, 0, 0
    while i < one.size and j < other.size:
        if both + min(one.size - i, other.size - j) < least:
            return -1
        if one[i] == other[j]:
            both, i, j = both + 1, i + 1, j + 1
        elif one[i] < other[j]:
            i += 1
        else:
            j += 1
    return both


@compiled
def prefix(size: int, jaccard_min: float) -> int:
    """How many of the rarest members any set that is like enough must share one of."""
    return size - int(np.ceil(jaccard_min * size - _EPSILON)) + 1 if size else 0


@compiled
def signatures(keys: Keys, starts: Numbers) -> Keys:
    """uint64 (texts, 4): the parity of how many of a set's members fall on each of 256 bits."""
    made = np.zeros((starts.size - 1, 4), np.uint64)
    for text in range(len(made)):
        for key in keys[starts[text] : starts[text + 1]]:
            bit = (key * _MIX) >> np.uint64(56)
            made[text, np.int64(bit >> np.uint64(6))] ^= np.uint64(1) << (bit & np.uint64(63))
    return made


@compiled
def differing(one: Keys, other: Keys) -> int:
    """At most as many as the members that only one of two sets has (Sandes, Teodoro and Melo, 2018)."""
    bits = np.uint64(0)
    for word in range(one.size):
        bits += popcount(one[word] ^ other[word])
    return int(bits)


@compiled
def likeness(one: Keys, other: Keys, jaccard_min: float) -> float:
    """Jaccard index of two sorted sets, 0 if it is below the least."""
    least = int(np.ceil(jaccard_min / (1 + jaccard_min) * (one.size + other.size) - _EPSILON))
    both = shared(one, other, least)
    return both / (one.size + other.size - both) if both >= least else 0.0


@compiled
def reach(size: int, place: int, jaccard_min: float) -> int:
    """Members of the largest set that is like enough, if `place` is the first of the sorted ones that both have."""
    return int((size - place) * (1 + jaccard_min) / jaccard_min - size + _EPSILON)


@compiled
def within_reach(entries: Small, size: int, farthest: int, found: Small) -> int:
    """Write who of a list is in reach of a text, and the text of them; how many. No branch, as most are not."""
    count = 0
    for place in range(len(entries)):
        found[count] = entries[place, 0]
        count += (entries[place, 1] <= farthest) & (entries[place, 2] >= size)
    return count


@compiled
def nearest(text: int, keys: Keys, starts: Numbers, marks: Keys, near: Small, jaccard_min: float) -> tuple[int, float]:
    """Of the texts `near` the one most like the text, the earlier of two, and their Jaccard index; -1 and 0 if none."""
    own = keys[starts[text] : starts[text + 1]]
    best, best_jaccard = -1, 0.0
    for other in near:
        theirs = keys[starts[other] : starts[other + 1]]
        apart = (1 - jaccard_min) / (1 + jaccard_min) * (own.size + theirs.size) + _EPSILON
        if differing(marks[text], marks[other]) > apart:
            continue
        jaccard = likeness(own, theirs, jaccard_min)
        if jaccard > best_jaccard or (jaccard == best_jaccard and 0 <= other < best):
            best, best_jaccard = other, jaccard
    return best, best_jaccard


@compiled
def room(keys: Keys, starts: Numbers, bits: int, jaccard_min: float) -> Lists:
    """An empty list for every bucket, with room for all texts that may come to be in it."""
    ends = np.zeros((1 << bits, 2), np.int64)
    for text in range(starts.size - 1):
        first = starts[text]
        for key in keys[first : first + prefix(starts[text + 1] - first, jaccard_min)]:
            ends[np.int64(key >> np.uint64(64 - bits)), 1] += 1
    entries = 0
    for bucket in range(len(ends)):
        held = ends[bucket, 1]
        ends[bucket] = entries
        entries += held
    return ends, np.empty((entries, 3), np.int32)


@compiled
def leaders(keys: Keys, starts: Numbers, bits: int, jaccard_min: float) -> tuple[Numbers, npt.NDArray[np.float32]]:
    """Each text's representative, -1 if it is one or has no keys, and their Jaccard index; texts in order of rank."""
    texts = starts.size - 1
    marks, (ends, entries) = signatures(keys, starts), room(keys, starts, bits, jaccard_min)
    seen, twins, jaccards = np.full(texts, -1, np.int32), np.full(texts, -1, np.int64), np.zeros(texts, np.float32)
    near, found = np.empty(texts + 1, np.int32), np.empty(texts + 1, np.int32)
    for text in range(texts):
        first, size = starts[text], starts[text + 1] - starts[text]
        buckets = (keys[first : first + prefix(size, jaccard_min)] >> np.uint64(64 - bits)).astype(np.int64)
        count = 0
        for place, bucket in enumerate(buckets):
            held = entries[ends[bucket, 0] : ends[bucket, 1]]
            for other in found[: within_reach(held, size, reach(size, place, jaccard_min), found)]:
                near[count] = other
                count += seen[other] != text
                seen[other] = text
        twins[text], jaccards[text] = nearest(text, keys, starts, marks, near[:count], jaccard_min)
        if twins[text] >= 0:
            continue
        for place, bucket in enumerate(buckets):
            entry = entries[ends[bucket, 1]]
            entry[0], entry[1], entry[2] = text, size, reach(size, place, jaccard_min)
            ends[bucket, 1] += 1
    return twins, jaccards
