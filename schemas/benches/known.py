"""Known benchmarks of other people: what is indexed of each, and which chats show a picture of it or ask its question.

`known_sources` has a row a benchmark, `known_pictures` and `known_questions` what chats are compared with. Names of
files are in none of them: a picture is known by its pixels alone.
"""

from enum import StrEnum

from schemas.policy import NearImages
from schemas.row import Float32, FloatVector, Int32, Row


class ShownAs(StrEnum):
    """How a picture of a chat shows one of a benchmark, the closest first."""

    SAME = "same"
    """Equal pixels."""
    HASHES = "hashes"
    """Near by pHash, PDQ and grey thumbnail, each whole or without its even margins, whatever its colours."""
    EMBEDDING = "embedding"
    """Near by embedding, and one lies in the other when they are laid over each other: a cut picture."""


class KnownBounds(Row):
    """When a picture of a chat shows one of a benchmark. Where one of them changes, all images are searched again."""

    near: NearImages = NearImages(pdq_distance_max=64)
    """Bounds of hashes, but for colours. A picture from a screenshot is off by a pixel or two, which moves up to 60
    bits of PDQ. Of 77,815 pairs of 395 pictures only two come near, which show the same."""
    cosine_min: float = 0.9
    """Cosine from which two pictures are laid over each other. Of cuts of 4 % a side, 95 % have more."""
    closest_max: int = 3
    """Pictures of the index, nearest by embedding, that one image is laid over."""
    overlap_correlation_min: float = 0.98
    """Correlation from which a picture lies in another. Of 120 pictures cut by up to 6 % a side, 95 % have 0.982 and
    more; of 126 pairs with near embeddings, two of which show the same, the other 124 have at most 0.971."""
    overlap_min: float = 0.7
    """Share of a picture that must lie over the other."""
    stretch_max: float = 1.34
    """How many times a picture may be stretched, either way, to lie over the other."""
    shear_max: float = 0.06
    """How far it may be turned or sheared, as an entry of the affine matrix."""


class KnownSource(Row):
    """One benchmark of the setting `known_benchmarks`, as it was indexed last."""

    benchmark: str
    """Its name: the last part of the folder's or data set's name."""
    content: str
    """Hash of its files and of the versions that its pictures were measured with; another one is indexed anew."""
    image_hash: str
    """Version of the hashes."""
    image_inside: str
    """Version of the hashes of what lies inside even margins."""
    image_embedding: str
    """Version of the embedding, which names its model."""
    pictures: int
    """Different pictures in the index."""
    questions: int
    """Different questions in the index."""
    unreadable: int
    """Pictures that could not be read, and tables with neither pictures nor questions: they are not in the index."""


class KnownPicture(Row):
    """One picture of a known benchmark, measured like the images of chats."""

    benchmark: str
    """Name of the benchmark."""
    picture: str
    """Hash of its pixels, as ids of images are made."""
    phash: str
    """64-bit DCT hash, 16 hex digits."""
    pdq: str
    """256-bit PDQ hash, 64 hex digits."""
    grey: str
    """Grey thumbnail of 32 x 32 pixels, 2,048 hex digits."""
    inside_phash: str | None
    """The DCT hash of what lies inside its even margins; null where it has none."""
    inside_pdq: str | None
    """The PDQ hash of that."""
    inside_grey: str | None
    """The grey thumbnail of that."""
    thumbnail: bytes
    """Grey thumbnail of 64 x 64 pixels, row by row, on which a cut picture is laid."""
    vector: FloatVector
    """Embedding, a unit vector; empty where the model failed."""


class KnownQuestion(Row):
    """One question of a known benchmark."""

    benchmark: str
    """Name of the benchmark."""
    question: str
    """Its text."""


class BenchmarkImage(Row):
    """An image of the chats that shows a picture of a known benchmark."""

    image_id: str
    """Content id of the image."""
    benchmark: str
    """Name of the benchmark."""
    picture: str
    """The picture of the benchmark that is closest (`KnownPicture.picture`)."""
    shown_as: ShownAs
    """same, hashes or embedding."""
    pdq_distance: Int32
    """Hamming distance of the 256-bit PDQ hashes."""
    cosine: Float32 | None
    """Cosine of the embeddings; null unless `shown_as` is embedding."""


class KnownMatch(Row):
    """A conversation that shows a picture of a known benchmark, asks its question, or both."""

    conversation_id: str
    """The conversation."""
    benchmark: str
    """Name of the benchmark."""
    shown_as: ShownAs | None
    """How it shows a picture; null when it shows none."""
    picture: str | None
    """The picture of the benchmark (`KnownPicture.picture`); null when it shows none."""
    question: str | None
    """The question of the benchmark that is asked; null when none is. A question of fewer than 13 words counts only
    beside a picture of the same benchmark."""
    overlap: Float32 | None
    """Share of the question's runs of four words that a message has; 1 for equal words, null without a question."""


class KnownCount(Row):
    """Number of conversations that show or ask what is in one known benchmark."""

    benchmark: str
    """Name of the benchmark."""
    picture: int
    """Conversations that show one of its pictures."""
    question: int
    """Conversations that ask one of its questions."""
    both: int
    """Conversations that do both."""
    conversations: int
    """Conversations that do either."""
