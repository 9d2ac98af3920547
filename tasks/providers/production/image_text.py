"""Text in pictures by Google Cloud Vision, from the same request as the faces."""

from collections.abc import Sequence

from schemas.signals import ImageText
from tasks.pixels.pictures import Picture
from tasks.providers.capabilities import Failed
from tasks.providers.production.vision import SERVICE, TEXT, VERSION, VisionClient, shared_client


class VisionText:
    """All lines, and the share of the picture that its words cover."""

    service = SERVICE
    version = f"{VERSION}-text"

    def __init__(self, client: VisionClient | None = None) -> None:
        self._client = client or shared_client()
        self._client.want(TEXT)

    def read(self, pictures: Sequence[Picture]) -> list[ImageText | Failed]:
        """The text of every picture, in order."""
        answers = self._client.annotate(pictures, TEXT)
        return [answer if isinstance(answer, Failed) else answer.text for answer in answers]
