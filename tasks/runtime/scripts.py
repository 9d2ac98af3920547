"""How texts of the world's scripts are cut, for rules that count words or letters."""

SPACELESS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
"""Scripts written without spaces between words, for a class of characters of a regular expression."""
