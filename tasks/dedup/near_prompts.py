"""Near-duplicate prompts: each is matched to one earlier prompt that shares most of its character 5-grams.

MinHash LSH (Broder 1997) proposes candidates; the Jaccard index of each is then computed exactly, so there are no wrong
matches. A pair at the limit is found with a probability of at least 0.999. Signatures are seeded: the same prompts give
the same table.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl
from rensa import RMinHash

from schemas.items.decision import NearPrompt
from tasks.runtime.arrays import RowNumbers
from tasks.runtime.scripts import SPACELESS
from tasks.storage.queries.signals import on_disk, unload
from tasks.storage.queries.texts import TEXTS_AT_ONCE
from tasks.storage.tables import Store, frame_schema

GRAM = 5
"""Characters of an n-gram. Shorter ones occur in almost every text."""
PERMUTATIONS, SEED = 128, 1
CANDIDATE_RECALL_MIN = 0.999
"""Minimum probability that a pair at the limit becomes a candidate."""
ESTIMATE_MARGIN = 0.2
"""How far below the limit the estimated Jaccard index of a candidate may be: at least 4.5 standard deviations."""
SETS_KEPT = 1_000
"""Number of n-gram sets that are cached."""
SIGNED_AT_ONCE = 2_048
"""Texts, or pairs of them, whose signatures are in memory at a time."""
GROUP_MAX = 16
"""Prompts with an equal band up to which each pair of them is estimated before texts are read."""
_ODD = np.uint64(0x9E3779B97F4A7C15)
_ROUNDING = 1e-9
_WITHOUT_BLANKS = rf"([{SPACELESS}])"
"""Characters of scripts without spaces are doubled, because each means as much as several letters."""
_PADDING = "  "
_OUTSIDE_WORDS = r"[^\p{L}\p{M}\p{N}]+"

Signatures = npt.NDArray[np.uint32]
PromptTexts = Callable[[RowNumbers], Iterable[pl.DataFrame]]
"""Rows, from 0 -> `row` and `text` of each, some at a time."""


_PROMPTS = """
    -- a row is one of the wanted conversations, by its number, and its prompt
    SELECT wanted.row, prompt_of("turns.content", "turns.role") AS text
    FROM conversations JOIN wanted USING (conversation_id)
"""


def near_prompts(store: Store, conversations: pl.DataFrame, jaccard_min: float) -> pl.DataFrame:
    """The `near_prompts` table: conversations whose prompt is a near-duplicate of an earlier one.

    A prompt is matched to the most similar earlier representative, or becomes one itself; there are no chains.
    """
    prompts = conversations.sort("tstamp", "conversation_id").select("conversation_id", "prompt_id")
    first = prompts.unique("prompt_id", keep="first", maintain_order=True).with_row_index("row")

    def texts(rows: RowNumbers) -> Iterator[pl.DataFrame]:
        return store.batches(_PROMPTS, TEXTS_AT_ONCE, wanted=first[rows].select("row", "conversation_id"))

    matches, jaccards = near_rows(texts, first.height, jaccard_min)
    tied = np.flatnonzero(matches >= 0)
    of_prompt = pl.DataFrame(
        {
            "prompt_id": first["prompt_id"].gather(tied),
            "conversation_b": first["conversation_id"].gather(matches[tied]),
            "jaccard": jaccards[tied],
        }
    )
    pairs = prompts.join(of_prompt, on="prompt_id").rename({"conversation_id": "conversation_a"})
    return pairs.select(pl.col(name).cast(kind) for name, kind in frame_schema(NearPrompt).items())


def near_texts(texts: pl.Series, jaccard_min: float) -> tuple[RowNumbers, npt.NDArray[np.float32]]:
    """`near_rows` of texts in memory."""
    rows = texts.alias("text").to_frame().with_row_index("row")
    return near_rows(lambda row_numbers: [rows[row_numbers]], len(texts), jaccard_min)


def near_rows(texts: PromptTexts, count: int, jaccard_min: float) -> tuple[RowNumbers, npt.NDArray[np.float32]]:
    """The row of the representative that each text is matched to, -1 for none, and their Jaccard index.

    Earlier rows become representatives first. A text without letters and digits is never matched.

    Returns:
        int64 (count,) and float32 (count,), 0 to 1.
    """
    estimate_min = jaccard_min - ESTIMATE_MARGIN
    likely = _likely(texts, count, _bands(jaccard_min), estimate_min)
    matches, jaccards = np.full(count, -1, np.int64), np.zeros(count, np.float32)
    grams_of = lru_cache(SETS_KEPT)(likely.grams)
    for place, row in enumerate(likely.rows.tolist()):
        others = likely.alike(place, estimate_min)
        grams = likely.grams(place) if others else set()
        jaccard, negative = max(((_jaccard(grams, grams_of(other)), -other) for other in others), default=(0.0, 0))
        if others and jaccard >= jaccard_min - _ROUNDING:
            matches[row], jaccards[row] = likely.rows[-negative], jaccard
        else:
            likely.add(place)
        if place % SIGNED_AT_ONCE == 0:
            likely.unload()
    return matches, jaccards


class _Likely:
    """Rows that may be matched, in order; each has a place among them.

    Temporary files hold their texts, and the representatives: those with an equal hash of a band stand together.
    """

    def __init__(
        self, texts: PromptTexts, rows: RowNumbers, sizes: RowNumbers, signatures: Signatures, hashes: Signatures
    ) -> None:
        """`sizes`: bytes of padded texts; `signatures` (n, PERMUTATIONS) and `hashes` (bands, n) are of all rows."""
        self.rows, self._signatures, self._bands = rows, signatures, np.arange(len(hashes))
        shapes = [(len(rows), len(hashes)), (len(hashes), len(rows)), (len(hashes), len(rows))]
        self._starts, self._held, self._members = (_numbers(*shape) for shape in shapes)
        for number, band in enumerate(hashes):
            order = np.argsort(band[rows], kind="stable")
            first = np.diff(band[rows[order]], prepend=0) != 0
            self._starts[order, number] = np.maximum.accumulate(np.where(first, np.arange(len(rows)), 0))
            unload(self._starts)
            unload(hashes)
        self._ends = np.cumsum([0, *sizes])
        self._letters = _numbers(1, int(self._ends[-1]) // 4 + 1)[0].view(np.uint8)
        for batch in texts(rows):
            for place, text in zip(np.searchsorted(rows, batch["row"]), _padded(batch["text"]), strict=True):
                self._letters[slice(*self._ends[place : place + 2])] = np.frombuffer(text.encode(), np.uint8)
            unload(self._letters)

    def grams(self, place: int) -> set[str]:
        """The n-grams of a text."""
        return _grams(self._letters[slice(*self._ends[place : place + 2])].tobytes().decode())

    def alike(self, place: int, estimate_min: float) -> list[int]:
        """Places of representatives that share a band with this row and are likely enough to be near it."""
        starts = self._starts[place].astype(np.int64)
        member_counts = self._held[self._bands, starts]
        ends = np.cumsum(member_counts, dtype=np.int64)
        at = np.repeat(starts + member_counts - ends, member_counts) + np.arange(ends[-1])
        others = np.unique(self._members[np.repeat(self._bands, member_counts), at])
        same = np.equal(self._signatures[self.rows[others]], self._signatures[self.rows[place]])
        near_places: list[int] = others[same.mean(axis=1) > estimate_min - _ROUNDING].tolist()
        return near_places

    def add(self, place: int) -> None:
        """Make it a representative."""
        starts = self._starts[place].astype(np.int64)
        self._members[self._bands, starts + self._held[self._bands, starts]] = place
        self._held[self._bands, starts] += 1

    def unload(self) -> None:
        """Give memory back; the files keep the content."""
        for file in (self._signatures, self._starts, self._held, self._members, self._letters):
            unload(file)


def _numbers(rows: int, columns: int) -> Signatures:
    """Zeros, uint32 (rows, columns), in a file (`on_disk`)."""
    return np.asarray(on_disk(rows, columns)).view(np.uint32)


def _likely(texts: PromptTexts, count: int, bands: int, estimate_min: float) -> _Likely:
    """Rows with a candidate that is likely enough; no other can be matched.

    Signatures of all, and hashes of their bands, are in temporary files.
    """
    signatures, hashes = _numbers(count, PERMUTATIONS), _numbers(bands, count)
    sizes, likely = np.zeros(count, np.int64), np.zeros(count, bool)
    for batch in texts(np.arange(count)):
        padded = batch.with_columns(_padded(batch["text"])).filter(pl.col("text") != "")
        for piece in padded.iter_slices(SIGNED_AT_ONCE):
            rows = piece["row"].to_numpy()
            digests = RMinHash.digests_from_token_sets(map(_grams, piece["text"]), PERMUTATIONS, SEED)
            sizes[rows], signatures[rows] = piece["text"].str.len_bytes().to_numpy(), np.array(digests, np.uint32)
            hashes[:, rows] = _band_hashes(signatures[rows], bands)
        unload(signatures)
        unload(hashes)
    for band in hashes:
        for one, other in _sharing(band, np.flatnonzero(sizes), likely):
            alike = np.equal(signatures[one], signatures[other]).mean(axis=1) > estimate_min - _ROUNDING
            likely[one[alike]] = likely[other[alike]] = True
            unload(signatures)
        unload(hashes)
    rows = np.flatnonzero(likely)
    return _Likely(texts, rows, sizes[rows], signatures, hashes)


def _sharing(
    band: Signatures, rows: RowNumbers, likely: npt.NDArray[np.bool_]
) -> Iterator[tuple[RowNumbers, RowNumbers]]:
    """Pairs of rows with equal hashes that are not both `likely`; where more than GROUP_MAX share one, all become so.

    Two that are equal by chance are told apart by their signatures.
    """
    _, group, sizes = np.unique(band[rows], return_inverse=True, return_counts=True)
    likely[rows[sizes[group] > GROUP_MAX]] = True
    order = np.argsort(group, kind="stable")
    rows, group = rows[order], group[order]
    for step in range(1, int(min(GROUP_MAX, sizes.max(initial=1)))):
        pairs = np.flatnonzero(group[step:] == group[:-step])
        for start in range(0, len(pairs), SIGNED_AT_ONCE):
            one, other = rows[pairs[start : start + SIGNED_AT_ONCE]], rows[pairs[start : start + SIGNED_AT_ONCE] + step]
            new = ~(likely[one] & likely[other])
            yield one[new], other[new]


def _band_hashes(signatures: Signatures, bands: int) -> Signatures:
    """uint32 (bands, n) of signatures (n, PERMUTATIONS)."""
    of_band = signatures.reshape(len(signatures), bands, -1)
    hashes = np.zeros(of_band.shape[:2], np.uint64)
    for place in range(of_band.shape[2]):
        hashes = (hashes ^ of_band[:, :, place]) * _ODD
    return (hashes.T >> np.uint64(32)).astype(np.uint32)


def _bands(jaccard_min: float) -> int:
    """The fewest bands of the signature with which a pair at the limit is a candidate.

    With probability CANDIDATE_RECALL_MIN.
    """
    for bands in (1, 2, 4, 8, 16, 32, 64):
        if 1 - (1 - jaccard_min ** (PERMUTATIONS // bands)) ** bands >= CANDIDATE_RECALL_MIN:
            return bands
    return PERMUTATIONS


def _padded(texts: pl.Series) -> pl.Series:
    """The texts in lower case without punctuation, padded with spaces; empty if nothing is left."""
    # One element is one text, its words between single blanks, because only words are compared.
    plain = texts.str.normalize("NFKC").str.to_lowercase().str.replace_all(_OUTSIDE_WORDS, " ").str.strip_chars()
    spread = plain.str.replace_all(_WITHOUT_BLANKS, "${1}${1}")
    return spread.str.replace(r"^(.+)$", f"{_PADDING}${{1}}{_PADDING}")


def _grams(text: str) -> set[str]:
    return {text[start : start + GRAM] for start in range(len(text) - GRAM + 1)}


def _jaccard(one: set[str], other: set[str]) -> float:
    both = len(one & other)
    return both / (len(one) + len(other) - both)
