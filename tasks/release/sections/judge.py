"""The card's section about the judge's board, from the files of the release alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from schemas.judge_release import SLICE_PROMPTS_MIN
from schemas.judging import STAND_IN
from tasks.release.dataset_card import render_card
from tasks.release.declared import JUDGE_FOLDER
from tasks.runtime.untrusted import markdown_text, one_line
from tasks.storage.parquet import read_parquet_groups

TITLE = "## The judge's board"


def judge_section(release: Path, prompts: int) -> str:
    """The section, with an empty line at its end; empty without a board. `prompts`: those of `bench`."""
    folder = release / JUDGE_FOLDER
    files = {path.stem: pl.concat(read_parquet_groups(path)) for path in sorted(folder.glob("*.parquet"))}
    if not files:
        return ""
    about, overall = files["agreement"].row(0, named=True), files["board"].filter(slice="overall")
    return render_card(
        Path(__file__).with_suffix(".md"),
        about=about,
        judge=markdown_text(about["judge"]),
        version=_code(about["judge_version"]),
        baseline=markdown_text(about["baseline"]),
        stand_in=about["judge"] == STAND_IN,
        models=overall.height,
        bench=prompts,
        board=[_cells(row) for row in overall.iter_rows(named=True)],
        **{name: _number(about[of], 3) for name, of in _AGREEMENT.items()},
        least=SLICE_PROMPTS_MIN,
        texts="answers" in files,
        answers=files["answers"].height if "answers" in files else 0,
        verdicts=files["verdicts"].height if "verdicts" in files else 0,
    )


_AGREEMENT = {"spearman": "spearman", "kendall": "kendall", "agreement": "pair_agreement"}


def _cells(row: Mapping[str, Any]) -> list[str]:
    interval = f"{_number(row['score_ci95_low'], 1)} to {_number(row['score_ci95_high'], 1)}"
    rank = "–" if row["rank"] is None else str(row["rank"])
    flags = " ".join(row["flags"])
    numbers = [_number(row["score"], 2), interval, _number(row["reward"], 1), f"{row['no_verdict']:,}"]
    return [rank, markdown_text(row["model"]), *numbers, _number(row["coverage"], 3), flags]


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _code(text: str) -> str:
    """Text between backticks, without any of its own."""
    return one_line(text).replace("`", "'")
