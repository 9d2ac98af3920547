"""What is in an image, by an ImageNet classifier: at most two of 1,000 names. A stand-in for object detection."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tasks.images.decode import DecodedImage
from tasks.providers.embedded.image_embedding import EfficientNet, class_probabilities
from tasks.runtime.yaml_files import read_yaml

PROBABILITY_MIN = 0.4
"""Least probability of a class. Of 26 photographs and drawings of scikit-image it names 5, all rightly; 0.3 names a
rocket wrongly."""


class ImageNetClasses:
    """Names the classes that an image is probably of; most images of several things have none."""

    version = f"{EfficientNet.version}-min{PROBABILITY_MIN}"

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
        likely = np.argsort(-probabilities, kind="stable")[: int((probabilities >= PROBABILITY_MIN).sum())]
        return [self._names[place] for place in likely]
