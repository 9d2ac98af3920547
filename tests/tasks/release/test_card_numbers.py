"""`curate verify` counts again what the dataset card says, also when the checksums were made to fit."""

import pytest

from flows.products import problems_of
from tests.tampered_release import card_says


@pytest.mark.parametrize("place", range(1, 9))
@pytest.mark.parametrize("config", ["chat", "battle"])
def test_a_statistic_of_the_card_that_is_not_that_of_the_rows_is_found(own_release, config, place):
    card = (own_release / "README.md").read_text(encoding="utf-8")
    (line,) = [line for line in card.splitlines() if line.startswith(f"| **this release, {config}** |")]
    cells = line.strip("| ").split(" | ")
    cells[place] = cells[place][:-1] + str((int(cells[place][-1]) + 1) % 10)
    card_says(own_release, line, f"| {' | '.join(cells)} |")
    (problem,) = problems_of(own_release)
    assert problem.startswith(f"README.md: statistics of {config} are not those of its rows")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("| `battle` | 6 |", "| `battle` | 7 |", "rows of battle are not the 6"),
        (" log lines = ", "0 log lines = ", "where the log lines went"),
        ("| dropped: face | 1 |", "| dropped: face | 0 |", "where the log lines went"),
    ],
)
def test_another_number_in_the_card_is_found(own_release, old, new, told):
    card_says(own_release, old, new)
    (problem,) = problems_of(own_release)
    assert told in problem
