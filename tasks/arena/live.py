"""Texts of an arena that its operator may change while it runs: reasons, starter prompts, terms and languages.

In: those of the start, and the changes of the admin page. Out: those of now; each is read again only after a change.
"""

import hashlib
from collections.abc import Callable, Sequence

from schemas.errors import BadInput
from schemas.upkeep import ArenaSteering, TermsVersion
from tasks.arena.reasons import Reasons, ReasonsFile
from tasks.arena.starters import Starters, StartersFile
from tasks.arena.words import ENGLISH, LANGUAGES, page_words
from tasks.runtime.untrusted import row_of_text

_HELP = "docs/logs.md has an example"


class LiveTexts:
    """The texts of now."""

    def __init__(
        self, steered: Callable[[], ArenaSteering], reasons: Reasons, starters: Starters, terms: str = ""
    ) -> None:
        """`terms`: Markdown for all languages; empty for the terms that the languages have."""
        self._steered, self._first = steered, (reasons, starters)
        self._last_read: dict[str, tuple[str, Reasons | Starters]] = {}
        """Kind -> the text that was read last, and what it says."""
        self.terms_of_start = terms

    def check(self) -> None:
        """Raises BadInput for reasons and starter prompts that were changed in an earlier run and do not fit.

        Call once at the start: they may name a picture that it lacks. Terms and languages fit every start.
        """
        self.reasons()
        self.starters()

    def reasons(self) -> Reasons:
        """The reasons of now; changed ones were checked when they were stored, and at the start."""
        text = self._steered().reasons
        return self._first[0] if text is None else self.changed_reasons(text)

    def starters(self) -> Starters:
        """The starter prompts of now; changed ones were checked when they were stored, and at the start."""
        text = self._steered().starters
        return self._first[1] if text is None else self.changed_starters(text)

    def changed_reasons(self, text: str) -> Reasons:
        """The reasons of a YAML text. Raises BadInput for the first error."""
        before = self._last_read.get("reasons", ("", None))
        if before[0] != text or not isinstance(before[1], Reasons):
            read = Reasons(row_of_text(text, ReasonsFile, "reasons", _HELP))
            self._last_read["reasons"] = text, read
            return read
        return before[1]

    def changed_starters(self, text: str) -> Starters:
        """The starter prompts of a YAML text. Raises BadInput for the first error, and for a missing picture."""
        before = self._last_read.get("starters", ("", None))
        if before[0] != text or not isinstance(before[1], Starters):
            read = self._first[1].replaced(row_of_text(text, StartersFile, "starters", _HELP))
            self._last_read["starters"] = text, read
            return read
        return before[1]

    def languages(self) -> Sequence[str]:
        """The languages of the page, all where none are chosen: English first, which visitors of no other get."""
        offered = self._steered().languages or list(LANGUAGES)
        return sorted(offered, key=lambda language: language != ENGLISH)

    def terms(self, language: str) -> str:
        """Markdown of the terms: the version published last, in the language or else in English.

        Before any is published, the terms of the start, one text for all languages; without those, the page's own.
        """
        published = self._steered().terms
        if published:
            texts = published[-1].texts
            return texts.get(language, texts[ENGLISH])
        return self.terms_of_start or str(page_words(language)["terms_text"])

    def terms_name(self) -> str:
        """The name that the operator gave the terms; empty for those of the start."""
        published = self._steered().terms
        return published[-1].name if published else ""

    def terms_version(self, language: str) -> str:
        """The version of the terms in a language as logs and cookies have it: 16 hex digits of their SHA-256."""
        return digest_of_terms(self.terms(language))


def digest_of_terms(text: str) -> str:
    """The first 16 hex digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def require_new(published: Sequence[TermsVersion], name: str, texts: dict[str, str]) -> None:
    """Raises BadInput for terms without a version or an English text, for a version that was, or for the same texts."""
    if not name:
        raise BadInput("the terms have no version; give one, such as 2026-12")
    if not texts.get(ENGLISH):
        raise BadInput("the terms have no English text, which stands for languages without one of their own")
    if any(version.name == name for version in published):
        raise BadInput(f"there were terms of version {name[:40]!r} already; give another version")
    if published and published[-1].texts == texts:
        raise BadInput(f"these are the terms of version {published[-1].name!r}; change them, or leave them")
