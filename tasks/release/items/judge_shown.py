"""The card's section about the judge's board, and the explorer's about verdicts, from a release's files alone."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from schemas.judge_release import JUDGE_FILES, SLICE_PROMPTS_MIN
from schemas.judging import STAND_IN, Label
from tasks.release.dataset_card import render_card
from tasks.release.registered import JUDGE_FOLDER, CardSection, RowsOf, ShownSection, read_table
from tasks.runtime.untrusted import markdown_text, one_line


def judge_section(release: Path, prompts: int) -> str:
    """The section, with an empty line at its end; empty without a board. `prompts`: those of `bench`."""
    read = {name: read_table(release, f"{JUDGE_FOLDER}/{name}") for name in JUDGE_FILES}
    files = {name: rows for name, rows in read.items() if rows is not None}
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


JUDGE_SECTION = CardSection("## The judge's board", "the judge's board", JUDGE_FOLDER, judge_section)


def shown_verdicts(rows_of: RowsOf) -> Iterator[ShownSection]:
    """Sections with the answers to a prompt and the verdicts on them."""
    answers = sorted(rows_of(f"{JUDGE_FOLDER}/answers"), key=lambda row: (row["model"], row["answer_id"]))
    if answers:
        texts = [(row["model"], row["state"], row["content"]) for row in answers]
        yield ShownSection("Answers", texts=texts, beside=True)
    cards = rows_of(f"{JUDGE_FOLDER}/cards")
    said = {row["verdict_id"]: row["content"] for row in rows_of(f"{JUDGE_FOLDER}/verdicts")}
    texts = [
        (
            verdict_words(card["label"], card["model_a"], card["model_b"]),
            f"first {card['model_a']}, then {card['model_b']}",
            said.get(card["verdict_id"], ""),
        )
        for card in sorted(cards, key=lambda card: (card["model_a"], card["model_b"], card["verdict_id"]))
    ]
    if texts:
        yield ShownSection("Verdicts", texts=texts, beside=True)


def verdict_words(label: str | None, first: str, second: str) -> str:
    """Who won, in words; `first` was shown first."""
    if label is None:
        return "no verdict"
    if label == Label.TIE:
        return "tie"
    winner = first if label in (Label.A_BETTER, Label.A_MUCH_BETTER) else second
    return f"{winner} is {'much ' if label in (Label.A_MUCH_BETTER, Label.B_MUCH_BETTER) else ''}better"
