"""Topics: clusters of kept prompts."""

from schemas.row import Float32, Int32, Row


class TopicMember(Row):
    """One kept document (prompt with its pictures) and its topic."""

    document_id: str
    """Content id of the prompt together with its pictures."""
    topic: Int32
    """Cluster number, 0 the largest; -1 for outliers."""
    probability: Float32
    """Strength of membership, 0 to 1; 0 for outliers."""
    name: str
    """Name of the topic."""
    x: Float32
    """Position on the two-dimensional map."""
    y: Float32
    """Position on the two-dimensional map."""
