"""Faces by Google Cloud Vision. It finds faces; it does not recognise people."""

from collections.abc import Sequence

from schemas.signals import Face
from tasks.pixels.pictures import Picture
from tasks.providers.capabilities import Failed
from tasks.providers.production.vision import FACES, SERVICE, VERSION, VisionClient, shared_client


class VisionFaces:
    """Face boxes in pixels of the picture, strongest first."""

    service = SERVICE
    version = f"{VERSION}-faces"

    def __init__(self, client: VisionClient | None = None) -> None:
        self._client = client or shared_client()
        self._client.want(FACES)

    def find_faces(self, pictures: Sequence[Picture]) -> list[list[Face] | Failed]:
        """The faces of every picture, in order."""
        answers = self._client.annotate(pictures, FACES)
        return [answer if isinstance(answer, Failed) else answer.faces for answer in answers]
