"""Human faces in a picture: boxes and confidences."""

from collections.abc import Sequence

from schemas.signals import Face, Faces
from tasks.measure.signal import Signal
from tasks.pixels.pictures import Picture
from tasks.providers import Providers
from tasks.providers.capabilities import FaceFinder, Failed


def faces(providers: Providers) -> Signal[Picture]:
    """Signal `faces`."""
    finder: FaceFinder = providers["faces"]

    def measure(pictures: Sequence[Picture]) -> list[Faces | Failed]:
        found = finder.find_faces(pictures)
        pairs = zip(pictures, found, strict=True)
        return [f if isinstance(f, Failed) else _summary(f, p.width * p.height) for p, f in pairs]

    return Signal("faces", f"1+{finder.version}", providers.names["faces"], measure)


def _summary(found: list[Face], picture_area: int) -> Faces:
    return Faces(
        faces=found,
        confidence_max=max((face.confidence for face in found), default=0.0),
        area_fraction_max=max((face.box[2] * face.box[3] / picture_area for face in found), default=0.0),
    )
