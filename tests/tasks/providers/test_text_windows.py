"""Text windows cover the whole text and keep words whole."""

from hypothesis import given
from hypothesis import strategies as st

from tasks.providers.text_windows import windows

TEXTS = st.text(st.sampled_from("ab \n中"), max_size=400)


@given(TEXTS, st.integers(5, 40), st.integers(0, 100))
def test_the_pieces_cover_the_text_and_none_is_longer_than_allowed(text, characters, share):
    overlap = share * ((characters - 1) // 2) // 100
    covered = 0
    for piece in windows(text, characters, overlap):
        start = text.find(piece, max(0, covered - overlap))
        assert len(piece) <= characters
        assert -1 < start <= covered + 1 and not text[covered:start].strip()
        covered = max(covered, start + len(piece))
    assert covered == len(text)


def test_words_are_not_cut():
    text = "assess the class of assets\nand the assistant's assumptions " * 20
    assert {word for piece in windows(text, 50, 20) for word in piece.split()} == set(text.split())


def test_what_stands_across_a_cut_is_seen_whole_by_one_piece():
    text = "word " * 40
    for place in range(0, len(text), 5):
        planted = text[:place] + "kill him now " + text[place:]
        assert any("kill him now" in piece for piece in windows(planted, 60, 25))
