"""Changes whose checksums were made to fit are found, whichever link, number, cell or value is drawn by a seed."""

import os
import random
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from flows.products import problems_of
from schemas.errors import BadPolicy
from tasks.policy.policy_file import load_policy
from tasks.release.core_parts import MAP
from tasks.release.registered import RUNNERS, VOTE_CHECKS
from tests.damage import damaged_columns
from tests.small_store import manifest_of
from tests.tampered_release import BATTLE, CHAT, add_file, change_row, reseal, rewrite

SEEDS = [57, 58, 59]
PAGE = "report/index.html"
DEEP = "[" * 100_000


def _replaced(release, name, old, new):
    """Replace the first `old` in a file."""
    text = (release / name).read_text("utf-8")
    assert old in text and old != new
    add_file(release, name, text.replace(old, new, 1).encode())


def _other_digit(text, chosen):
    """The text with one of its digits raised."""
    place = chosen.choice([n for n, letter in enumerate(text) if letter in "0123456789"])
    return f"{text[:place]}{(int(text[place]) + 1) % 10}{text[place + 1 :]}"


@pytest.mark.parametrize("name", RUNNERS)
def test_a_runner_that_does_more_than_ours_or_is_left_out_is_found(own_release, name):
    lines = RUNNERS[name].splitlines()
    lines.insert(random.Random(name).randrange(len(lines)), "import os; os.system('true')")
    add_file(own_release, name, "\n".join(lines).encode())
    assert problems_of(own_release) == [f"{name}: not what this version writes; do not run it"]
    (own_release / name).unlink()
    if not any((own_release / name).parent.iterdir()):
        (own_release / name).parent.rmdir()
    reseal(own_release)
    assert problems_of(own_release) == [f"{name}: missing"]


@pytest.mark.parametrize(
    "active",
    [
        "![x](https://evil.test/p.png)",
        "<img src=https://evil.test/p.png>",
        "[x](javascript:alert)",
        "[x](evil.test)",
        "[x][evil]",
        "[evil]: evil.test",
        "HTTPS://evil.test",
        "www.evil.test",
        "<evil:x>",
        "<!-- x -->",
    ],
)
def test_a_link_a_picture_or_html_anywhere_in_the_card_is_found(own_release, active):
    card = (own_release / "README.md").read_text("utf-8")
    place = random.Random(active).choice([match.end() for match in re.finditer("\n\n", card)])
    add_file(own_release, "README.md", f"{card[:place]}{active}\n\n{card[place:]}".encode())
    assert any("README.md: has a link, a picture or HTML" in problem for problem in problems_of(own_release))


@pytest.mark.parametrize("seed", SEEDS)
def test_any_number_on_the_page_of_the_report_is_compared(own_release, seed):
    page, chosen = (own_release / PAGE).read_text("utf-8"), random.Random(seed)
    begin = page.index("<body>")
    numbers = [match for match in re.finditer(r"(?<=>)[^<>]*\d[^<>]*(?=<)", page) if match.start() > begin]
    drawn = chosen.choice(numbers)
    changed = page[: drawn.start()] + _other_digit(drawn[0], chosen) + page[drawn.end() :]
    add_file(own_release, PAGE, changed.encode())
    assert any(problem.startswith(PAGE) for problem in problems_of(own_release)), drawn[0]


SENTENCES = {
    "a figure's words": ("the table below holds the numbers", "9,999 voters agree"),
    "a heading": ("<h1>Release report", "<h1>Release report of 9,999 votes"),
    "the contents": ("<nav>\n", "<nav>9,999 votes\n"),
    "loose text": ("<figure>", "9,999 votes<figure>"),
    "one more count": ('<div class="sum">\n', '<div class="sum">\n  <div><b>9,999</b>votes</div>\n'),
    "where files are": ("Also in <a", "9,999 votes, also in <a"),
    "a style": ("</style>", "h1:after{content:'9,999 votes'}</style>"),
    "another file": ('href="tables/', 'href="tables/x'),
}
"""Place on the page -> (what stands there, what is made of it)."""


@pytest.mark.parametrize("place", SENTENCES)
def test_a_sentence_that_no_report_has_is_found_wherever_it_stands(own_release, place):
    _replaced(own_release, PAGE, *SENTENCES[place])
    (problem,) = problems_of(own_release)
    assert problem.startswith(f"{PAGE}: ")


def test_figures_that_changed_their_sections_are_found(own_release):
    page = (own_release / PAGE).read_text("utf-8")
    first, second = list(dict.fromkeys(re.findall(r"base64,([^\"]+)", page)))[:2]
    swapped = page.replace(first, "@").replace(second, first).replace("@", second)
    add_file(own_release, PAGE, swapped.encode())
    (problem,) = problems_of(own_release)
    assert "is not what this version writes there" in problem


def test_tables_of_a_report_without_its_page_are_found(own_release):
    (own_release / PAGE).unlink()
    reseal(own_release)
    assert problems_of(own_release) == [f"{PAGE}: missing, and tables of it are there"]


MADE_AGAIN = ["categories", "days", "languages", "leaderboard_overall", "models", "removed", "turns", "vote_checks"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cell_of_a_report_table_is_compared_with_the_page_and_with_the_release(own_release, seed):
    chosen = random.Random(seed)
    key = chosen.choice(MADE_AGAIN)
    name, page = f"report/tables/{key}.csv", (own_release / PAGE).read_text("utf-8")
    lines = [line.split(",") for line in (own_release / name).read_text("utf-8").splitlines()]
    whole = [(r, c) for r, row in enumerate(lines[1:], 1) for c, cell in enumerate(row) if cell.isdecimal()]
    row, column = chosen.choice([place for place in whole if len(lines[place[0]]) == len(lines[0])])
    value = int(lines[row][column]) + 1
    lines[row][column] = str(value)
    add_file(own_release, name, "".join(f"{','.join(cells)}\n" for cells in lines).encode())
    assert f"{PAGE}: section {key}: its cells are not those of its file" in problems_of(own_release)
    section = page[page.index(f'<section id="{key}">') :]
    cell = list(re.finditer(r"(<td[^>]*>)([^<]*)", section))[(row - 1) * len(lines[0]) + column]
    changed = f"{section[: cell.start(2)]}{value:,}{section[cell.end(2) :]}"
    add_file(own_release, PAGE, page.replace(section, changed).encode())
    assert f"{name}: not what the release gives" in problems_of(own_release)


@pytest.mark.parametrize("row", ["=HYPERLINK(1)", "@x", "+x"])
def test_a_formula_in_a_report_table_is_found(own_release, row):
    name = "report/tables/turns.csv"
    width = (own_release / name).read_text("utf-8").partition("\n")[0].count(",")
    add_file(own_release, name, (own_release / name).read_bytes() + f"{row}{',1' * width}\n".encode())
    assert f"{name}: not a table as this program writes it" in problems_of(own_release)


COUNTED = ["context_tokens", *(f"{side}.{n}" for side in "ab" for n in ("assistant_tokens", "headers", "bold"))]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_value_of_conv_metadata_is_counted_again(own_release, seed):
    chosen = random.Random(seed)
    name, place = chosen.choice(COUNTED), chosen.randrange(manifest_of(own_release)["counts"]["battle"])

    def change(rows):
        told = rows[place]["conv_metadata"]
        side, _, last = name.rpartition(".")
        (told[side] if side else told)[last] += 1
        return rows

    rewrite(own_release, BATTLE, change)
    key = pq.read_table(own_release / BATTLE)["question_id"][place].as_py()
    told = f"row {key!r}: conv_metadata.{name} is not what its messages give"
    assert any(told in problem for problem in problems_of(own_release))


@pytest.mark.parametrize("side", ["a", "b"])
def test_an_answer_that_took_the_place_of_another_is_found(own_release, side):
    (first, *_) = pq.read_table(own_release / BATTLE).to_pylist()
    asked, answer = first[f"conversation_{side}"]
    longer = answer | {"content": f"**{answer['content']}** And more than that."}
    change_row(own_release, BATTLE, **{f"conversation_{side}": [asked, longer]})
    problems = problems_of(own_release)
    for name in ("assistant_tokens", "bold"):
        told = f"row {first['question_id']!r}: conv_metadata.{side}.{name} is not what its messages give"
        assert any(told in problem for problem in problems)


def _damage_pages(path: Path) -> None:
    """No row of the file can be read."""
    path.write_bytes(damaged_columns(path.read_bytes(), pq.read_schema(path).names))


@pytest.mark.parametrize("name", [MAP, "leaderboard/overall.parquet", f"{VOTE_CHECKS}.parquet"])
def test_equal_rows_without_end_are_told_by_the_footer_before_a_page_is_read(own_release, name):
    one = pq.read_table(own_release / name)
    pq.write_table(one.take(np.zeros(1_000_000, int)), own_release / name, compression="zstd")
    _damage_pages(own_release / name)
    reseal(own_release)
    problems = problems_of(own_release)
    assert problems and all(
        problem.startswith((f"{name}: 1,000,000 rows", "topics: 1,000,000")) for problem in problems
    )


def test_a_list_without_end_is_told_by_the_footer_before_a_page_is_read(own_release):
    change_row(own_release, "leaderboard/overall.parquet", flags=["few_votes"] * 1_000_000)
    _damage_pages(own_release / "leaderboard/overall.parquet")
    reseal(own_release)
    (problem,) = problems_of(own_release)
    assert "values, more than the file has bytes" in problem


def _pipe(path):
    path.unlink()
    os.mkfifo(path)


def _linked_elsewhere(path, folder):
    shutil.move(path, folder / "elsewhere")
    path.symlink_to(folder / "elsewhere")


def _commands(release, folder):
    """Commands that read a release, each to a place of its own."""
    return {
        "verify": ["verify", release],
        "diff": ["diff", release, release],
        "view": ["view", release, "--export", folder / "pages"],
        "publish": ["publish", release, "--repo", "lab/arena", "--dry-run"],
    }


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [CHAT, MAP, "leaderboard/overall.parquet", "manifest.json", "README.md"])
def test_a_pipe_in_place_of_a_file_is_one_line_and_waited_for_by_nobody(curate, own_release, tmp_path, name):
    _pipe(own_release / name)
    commands = _commands(own_release, tmp_path)
    for which in commands if name != "README.md" else ("verify", "publish"):
        status, out, err = curate(*commands[which])
        assert status, which
        assert which == "verify" or (err.count("curate: "), err.count("\n")) == (1, 1), err
        assert "Traceback" not in out + err


@pytest.mark.parametrize("name", [CHAT, MAP, "README.md"])
def test_a_link_in_place_of_a_file_is_told(curate, refused, own_release, tmp_path, name):
    _linked_elsewhere(own_release / name, tmp_path)
    status, out, _ = curate("verify", own_release)
    assert status == 1 and f"{name}: a link, not a file" in out
    assert f"{name}: a link, not a file" in refused("publish", own_release, "--repo", "lab/arena", "--dry-run")


def test_a_card_nested_without_end_is_one_line(curate, refused, own_release, tmp_path):
    add_file(own_release, "README.md", f"---\n{DEEP}\n---\n# A card\n".encode())
    status, out, err = curate("verify", own_release)
    assert status == 1 and "its front matter does not name" in out and "Traceback" not in err
    assert "does not verify" in refused("publish", own_release, "--repo", "lab/arena", "--dry-run")
    assert "is no card" in refused("export", "dataset", own_release, "--out", tmp_path / "out")


def test_a_policy_or_settings_nested_without_end_is_one_line(refused, tmp_path):
    (tmp_path / "deep.yaml").write_text(f"rules: {DEEP}")
    told = "line 1, more than 100 levels of lists or mappings"
    with pytest.raises(BadPolicy, match=told):
        load_policy(str(tmp_path / "deep.yaml"))
    assert told in refused("decide", "--store", tmp_path / "store", "--config", tmp_path / "deep.yaml")


def test_what_diff_compares_it_does_not_vouch_for_and_says_so(curate, release, own_release):
    change_row(own_release, CHAT, language="Klingon")
    (own_release / "README.md").write_text("no card")
    status, out, err = curate("diff", release, own_release)
    assert status == 0 and "changed 1" in out
    assert "neither release was verified; `curate verify` says whether one is whole" in err
