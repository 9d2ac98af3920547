"""`curate verify` counts again what the dataset card says, also when the checksums were made to fit."""

import json

import pytest

from tasks.release.build import released_files
from tasks.release.verify import verify_release
from tests.small_store import manifest_of


def _card_says(release, old, new):
    card = release / "README.md"
    text = card.read_text(encoding="utf-8")
    assert text.count(old) == 1
    card.write_text(text.replace(old, new), encoding="utf-8")
    files = {name: file.model_dump() for name, file in released_files(release).items()}
    (release / "manifest.json").write_text(json.dumps(manifest_of(release) | {"files": files}))


@pytest.mark.parametrize("place", range(1, 9))
@pytest.mark.parametrize("config", ["chat", "battle"])
def test_a_statistic_of_the_card_that_is_not_that_of_the_rows_is_found(own_release, config, place):
    card = (own_release / "README.md").read_text(encoding="utf-8")
    (line,) = [line for line in card.splitlines() if line.startswith(f"| **this release, {config}** |")]
    cells = line.strip("| ").split(" | ")
    cells[place] = cells[place][:-1] + str((int(cells[place][-1]) + 1) % 10)
    _card_says(own_release, line, f"| {' | '.join(cells)} |")
    (problem,) = verify_release(own_release)
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
    _card_says(own_release, old, new)
    (problem,) = verify_release(own_release)
    assert told in problem
