"""Images and the files they came from."""

from schemas.row import Float32, Int32, Row


class Image(Row):
    """One distinct image."""

    image_id: str
    """Content id: hash of width, height and the decoded RGB pixels, orientation applied."""
    bytes: bytes
    """Encoded image without any metadata."""
    format: str
    """png or jpeg."""
    width: Int32
    """Pixels, orientation applied."""
    height: Int32
    """Pixels, orientation applied."""


class RedactedImage(Image):
    """A redacted copy of an image, with its own content id. The original stays in the `images` table."""

    source_image_id: str
    """Content id of the original image."""
    boxes: list[list[Int32]]
    """Filled boxes: left, top, right, bottom in pixels, right and bottom exclusive."""


class ImageFile(Row):
    """The result of reading one file of the server's image folder."""

    name: str
    """File name, 32 hex digits and an extension; for presets `preset:` and the path in the collection."""
    size_bytes: int
    """Size of the file when it was read."""
    modified_ns: int
    """Modification time of the file when it was read, nanoseconds since the epoch."""
    image_id: str | None
    """Content id of the image; null when the file was rejected."""
    problem: str | None
    """Reject reason; null when the file can be used."""
    evidence: str
    """Details of the rejection; else empty."""
    md5: str
    """MD5 of the file's bytes, so that a new list of known hashes also covers files that were read before."""
    sha1: str
    """SHA-1 of the file's bytes."""
    sha256: str
    """SHA-256 of the file's bytes."""


class Preset(Row):
    """One image of the server's preset collection, offered by its "random example" button."""

    path: str
    """File inside the preset collection."""
    dataset: str
    """The dataset it comes from, by the collection's index."""
    logged_name: str
    """The name under which the server logs it: 32 hex digits."""
    image_id: str | None
    """Content id of the image; null when the file cannot be used."""


class SearchedImage(Row):
    """An image that has been compared with all other images of the table."""

    image_id: str
    """Content id."""
    search: str
    """Hash of the thresholds and signal versions that the search used."""


class SemanticImage(Row):
    """Two different images with similar embeddings: crops, mirror images, but also different receipts."""

    image_a: str
    """Content id; the smaller of the two."""
    image_b: str
    """Content id."""
    cosine: Float32
    """Cosine of the two embeddings, -1 to 1."""


class NearImage(Row):
    """Two different images that are near-duplicates."""

    image_a: str
    """Content id; the smaller of the two."""
    image_b: str
    """Content id."""
    phash_distance: Int32
    """Hamming distance of the 64-bit DCT hashes."""
    pdq_distance: Int32
    """Hamming distance of the 256-bit PDQ hashes."""
    grey_correlation: Float32
    """Correlation of the 32 x 32 grey thumbnails, -1 to 1."""
