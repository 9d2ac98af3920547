"""Image models behind vendors' SDKs: one image for a text, a refusal, or a failure; each image has a price."""

import base64
import binascii
import os
from abc import ABC, abstractmethod

from tasks.images.decode import FILE_BYTES_MAX
from tasks.providers.capabilities import Failed
from tasks.providers.production.calls import CallFailed, Service
from tasks.providers.production.language_model import calls_at_once
from tasks.runtime.budget import Bill

REFUSED = "refused"


class VendorPictures(ABC):
    """A hosted image model. Its price is that of one unit, an image, in the price file."""

    def __init__(self, vendor: str, model: str) -> None:
        self.model_name = model
        self.service = f"{vendor}-{model}"
        self.version = self.service
        self.calls_at_once = calls_at_once()
        self._service = Service(self.service, self.calls_at_once)

    def draw(self, told: str, seed: str) -> bytes | Failed:
        """The image as it came; a model that declines is Failed("refused") and billed as far as it says so."""
        try:
            return self._service.ask_for_units(1, lambda bill: self._image(told, bill))
        except CallFailed as failure:
            return Failed(failure.reason)

    @abstractmethod
    def _image(self, told: str, bill: Bill) -> bytes:
        """One call. Raises CallFailed(REFUSED) when the model or its vendor declines, and for all that is no image."""


def model_of(variable: str, default: str) -> str:
    """The model's name, from the environment or by default."""
    return os.environ.get(variable) or default


def decoded(encoded: object) -> bytes:
    """The bytes of a base64 text. Raises CallFailed for anything else, and for more than an image file may have."""
    if not isinstance(encoded, str) or len(encoded) > FILE_BYTES_MAX * 4 / 3 + 4:
        raise CallFailed("malformed_answer")
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise CallFailed("malformed_answer") from None
