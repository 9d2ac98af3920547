"""Topic names without a language model: the strongest words of the topic."""

from collections.abc import Sequence

from tasks.providers.capabilities import TopicEvidence

WORDS = 4


class Keywords:
    """The first class TF-IDF words, joined by commas."""

    version = f"keywords-{WORDS}"

    def name_topics(self, topics: Sequence[TopicEvidence]) -> list[str]:
        """A few words for every topic."""
        return [", ".join(topic.keywords[:WORDS]) or "untitled" for topic in topics]
