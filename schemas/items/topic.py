"""Topics: clusters of kept prompts."""

from datetime import date

from schemas.row import Float32, Int32, Row

FEW_WORDS = "few words in common"
"""Name of a topic whose prompts share no words, no whole prompt and no tags."""
PERSONAL_WORDS = "words left out as personal data ({})"
"""Name of a topic whose name held personal data and that has no tags. `{}` here and below: its number."""
LIKE_DROPPED = "like prompts that were dropped ({})"
"""Name of a topic all of whose fitted prompts are no longer kept."""
TO_BE_NAMED = "to be named again ({})"
"""Name of a topic that lost prompts to a takedown, until the next `curate sample`."""
NAMELESS = (
    rf"^(?:untitled|{FEW_WORDS}|words left out as personal data|like prompts that were dropped|to be named again)"
    r"(?: \(\d+\))?$"
)
"""Form of names that say nothing of a topic's prompts; `untitled` is of stores of before."""


class TopicMember(Row):
    """One kept document (prompt with its images) and its topic."""

    document_id: str
    """Content id of the prompt together with its images."""
    topic: Int32
    """Topic number, 0 for the largest at the time of the fit; -1 for outliers."""
    probability: Float32
    """Strength of membership, 0 to 1; 0 for outliers."""
    name: str
    """Name of the topic."""
    x: Float32
    """Position on the two-dimensional map."""
    y: Float32
    """Position on the two-dimensional map."""


class FittedDocument(Row):
    """One document of a topic fit, kept so that the same documents need not be fitted again."""

    model: str
    """Hash of engine, settings and seed, and hash of the fitted documents and their vectors."""
    document_id: str
    """Content id of the prompt together with its images."""
    topic: Int32
    """Topic number, 0 for the largest; -1 for outliers."""
    probability: Float32
    """Strength of membership, 0 to 1; 0 for outliers."""
    x: Float32
    """Position on the two-dimensional map."""
    y: Float32
    """Position on the two-dimensional map."""
    reach: Float32
    """99 % quantile over the fit of a document's mean cosine distance to its neighbours, 0 to 2."""
    vector: str
    """Hash of its vector, 16 hex digits."""


class TopicFit(Row):
    """One fit of `topic_model`: of what, and under which policy. A change of policy alone makes no other."""

    model: str
    """Hash of engine, settings and seed, and hash of the fitted documents and their vectors, as in `topic_model`."""
    fit_day: date
    """Last day of the documents that may be fitted."""
    drift_day: date
    """Last day of the documents that were looked through for drift."""
    asked: str
    """Hash of the documents up to the fit day, kept or not, and of the settings that choose among them."""
    decided_by: str
    """Hash of all that decided which documents are kept: policy, signal versions and reviews."""
    policy_hash: str | None
    """Hash of that policy, as in `decisions`; null without decisions."""
    in_use: bool
    """Whether the topics are of this fit."""


class KeptTopicName(Row):
    """A topic name from a provider, kept so that the provider is not called again for the same evidence."""

    evidence: str
    """Hash of the words and exemplars of the topic."""
    version: str
    """Version of the provider."""
    name: str
    """Name of the topic."""
    document_ids: list[str]
    """Content ids of the topic's fitted documents."""
    shown: str | None = None
    """The name as it is shown: at most 60 characters, unlike any other."""
    searched_by: str | None = None
    """Version of the `text_pii` provider that searched the shown name; null if it was not searched."""
    personal: bool | None = None
    """Whether personal data was found in the shown name; null if it was not searched."""


class TopicMerge(Row):
    """One node of the topic tree: two topics, or merged topics, that are merged."""

    node: Int32
    """Number of the node; lower numbers are topics."""
    left: Int32
    """Lower number of the two merged nodes."""
    right: Int32
    """Higher number of the two merged nodes."""
    distance: Float32
    """Mean cosine distance between the topic centroids of both sides, 0 to 2."""
    documents: int
    """Number of fitted documents of both."""


class TopicChange(Row):
    """How many documents moved from one topic to another when topics were last fitted."""

    old_topic: Int32
    """Earlier topic; -1 for outliers."""
    new_topic: Int32
    """New topic; -1 for outliers."""
    documents: int
    """Number of documents in both."""
    successor: bool
    """Whether the new topic continues the old one, by the one-to-one mapping that moves the fewest documents."""
