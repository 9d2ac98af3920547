"""Pictures and the files they came from."""

from schemas.row import Float32, Int32, Row


class Image(Row):
    """One distinct picture."""

    image_id: str
    """Content id: hash of width, height and the decoded RGB pixels, orientation applied."""
    bytes: bytes
    """Encoded picture without any metadata."""
    format: str
    """png or jpeg."""
    width: Int32
    """Pixels, orientation applied."""
    height: Int32
    """Pixels, orientation applied."""


class RedactedImage(Image):
    """A picture with some boxes filled: a picture of its own, beside the one it was made from."""

    source_image_id: str
    """Content id of the picture it was made from."""
    boxes: list[list[Int32]]
    """What was filled: left, top, right, bottom in pixels, right and bottom exclusive."""


class ImageFile(Row):
    """What became of one picture file of the server's folder."""

    name: str
    """File name, 32 hex digits and an extension; presets have `preset:` and their path in the collection."""
    size_bytes: int
    """Size of the file when it was read."""
    modified_ns: int
    """Modification time of the file when it was read, nanoseconds since the epoch."""
    image_id: str | None
    """The picture it holds; null when it was rejected."""
    problem: str | None
    """Reject reason; null when it could be used."""
    evidence: str
    """What was seen, when it was rejected; else empty."""
    md5: str
    """Digest of the file's bytes, so that a list of known hashes can be asked about files that were read before."""
    sha1: str
    """Digest of the file's bytes."""
    sha256: str
    """Digest of the file's bytes."""


class Preset(Row):
    """One picture of the server's preset collection, offered by its "random example" button."""

    path: str
    """File inside the preset collection."""
    dataset: str
    """The dataset it comes from, as the collection's index says."""
    logged_name: str
    """The name the server logs for it: 32 hex digits."""
    image_id: str | None
    """Content id of the picture; null when the file cannot be used."""


class SearchedImage(Row):
    """A picture whose near-duplicates among all others of the table have been found."""

    image_id: str
    """Content id."""
    search: str
    """Hash of the radius and of the signal versions the search used."""


class SemanticImage(Row):
    """Two different pictures that a model embeds close together: crops, mirror images, and different receipts too."""

    image_a: str
    """Content id; the smaller of the two."""
    image_b: str
    """Content id."""
    cosine: Float32
    """Cosine of the two embeddings, -1 to 1."""


class NearImage(Row):
    """Two different pictures that look the same."""

    image_a: str
    """Content id; the smaller of the two."""
    image_b: str
    """Content id."""
    phash_distance: Int32
    """Hamming distance of the 64-bit DCT hashes."""
    pdq_distance: Int32
    """Hamming distance of the 256-bit PDQ hashes."""
    grey_correlation: Float32
    """Correlation of the 32 x 32 brightnesses, -1 to 1."""
