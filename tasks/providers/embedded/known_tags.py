"""The embedded tagger as far as its figures reach: what it tells too badly on unseen material is null.

In: documents, `embedded_figures.yaml`. Out: categories. A tag says true only where its figures allow it, and nothing
where it would find too few; `CURATE_TAGS_ON` names those that say all the same what they find.
"""

import os
from collections.abc import Sequence

from schemas.errors import BadInput, known_values
from schemas.tags import TAGS, Categories
from tasks.providers.capabilities import Document
from tasks.providers.embedded.labels import WordsAndLayout
from tasks.providers.embedded_figures import TagAnswers, tag_answers

SWITCHED_ON = "CURATE_TAGS_ON"


class KnownTags:
    """Tags documents as `WordsAndLayout` does, without the answers that it was measured to give too badly."""

    looks_at_images = False
    looks_at_vectors = True

    def __init__(self) -> None:
        """Raises BadInput when `CURATE_TAGS_ON` names no tag."""
        switched_on = os.environ.get(SWITCHED_ON, "").replace(",", " ").split()
        for name in switched_on:
            if name not in TAGS:
                raise BadInput(f"{SWITCHED_ON} names an unknown tag {known_values(name, TAGS)}")
        self._tagger = WordsAndLayout()
        answers = {tag: TagAnswers.ALL if tag in switched_on else tag_answers(tag) for tag in TAGS}
        self._kept = {tag: _KEPT[allowed] for tag, allowed in answers.items()}
        self.limited = {tag: allowed.value for tag, allowed in answers.items() if allowed is not TagAnswers.ALL}
        """Tag that does not say all that its rule finds -> what it says."""
        self.version = "+".join([self._tagger.version, *(f"{answers[tag].name.lower()}-{tag}" for tag in self.limited)])

    def tag(self, documents: Sequence[Document]) -> list[Categories]:
        """Categories of every document."""
        return [
            Categories(
                **{tag: value if value in self._kept[tag] else None for tag, value in categories.model_dump().items()}
            )
            for categories in self._tagger.tag(documents)
        ]


_KEPT = {TagAnswers.ALL: (True, False), TagAnswers.NO_TRUE: (False,), TagAnswers.OFF: ()}
