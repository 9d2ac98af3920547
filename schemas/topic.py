"""Topics: clusters of kept prompts."""

from schemas.row import Float32, Int32, Row


class TopicMember(Row):
    """One kept document (prompt with its pictures) and its topic."""

    document_id: str
    """Content id of the prompt together with its pictures."""
    topic: Int32
    """Cluster number, 0 the largest when it was fitted; -1 for outliers."""
    probability: Float32
    """Strength of membership, 0 to 1; 0 for outliers."""
    name: str
    """Name of the topic."""
    x: Float32
    """Position on the two-dimensional map."""
    y: Float32
    """Position on the two-dimensional map."""


class FittedDocument(Row):
    """One document of a fit of topics; a cache, because the same documents give the same topics again."""

    model: str
    """Hash of engine, settings and seed, and hash of the documents that were fitted and their vectors."""
    document_id: str
    """Content id of the prompt together with its pictures."""
    topic: Int32
    """Cluster number, 0 the largest; -1 for outliers."""
    probability: Float32
    """Strength of membership, 0 to 1; 0 for outliers."""
    x: Float32
    """Position on the two-dimensional map."""
    y: Float32
    """Position on the two-dimensional map."""
    reach: Float32
    """Mean cosine distance to its neighbours, 0 to 2, that 99 % of the documents of the fit stay within."""
    vector: str
    """Hash of its vector, 16 hex digits."""


class TopicName(Row):
    """A name that a provider gave, so that the same evidence is not shown to it again."""

    evidence: str
    """Hash of the words and exemplars of the topic."""
    version: str
    """Version of the provider."""
    name: str
    """Name of the topic."""
    document_ids: list[str]
    """Content ids of the topic's fitted documents."""


class TopicMerge(Row):
    """Two topics, or merged topics, that merge: one node of the tree of topics."""

    node: Int32
    """Number of the merged node; topics have the numbers below."""
    left: Int32
    """Lower number of the two that merge."""
    right: Int32
    """Higher number of the two that merge."""
    distance: Float32
    """Mean cosine distance between the centroids of the topics of either side, 0 to 2."""
    documents: int
    """Fitted documents of both."""


class TopicChange(Row):
    """How many documents went from a topic to a topic when topics last changed."""

    old_topic: Int32
    """Topic before; -1 for outliers."""
    new_topic: Int32
    """Topic after; -1 for outliers."""
    documents: int
    """Documents in both."""
    successor: bool
    """Whether the new topic is what became of the old one: the one-to-one mapping that moves the fewest documents."""
