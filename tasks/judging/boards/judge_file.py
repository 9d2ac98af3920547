"""The judge's board of a release in `leaderboard/judge`: board, agreement and cards, and texts on request."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from schemas.benches.judge_release import JUDGE_FILES, SLICE_PROMPTS_MIN
from schemas.benches.judging import STAND_IN, BoardMethod, JudgeRating, verdict_words
from schemas.errors import BadInput
from schemas.policy import Policy
from schemas.rating import OVERALL
from schemas.release import Manifest
from tasks.judging.boards.judge_board import judge_bias, judge_boards, outcomes
from tasks.judging.released_texts import JUDGE, answer_ids, embedded_judge, public_version, released_judge_texts
from tasks.release.checks.boards import RANKS_SINCE, same_rows
from tasks.release.contents import forbidden_data, wrong_texts
from tasks.release.core_parts import wrong_board
from tasks.release.dataset_card import render_card
from tasks.release.registered import (
    JUDGE_FOLDER,
    RELEASED_TABLES,
    CardSection,
    OpenRelease,
    ReleasePart,
    RowsOf,
    ShownSection,
    Stated,
    Unsealed,
    read_released,
    write_table,
)
from tasks.release.shards import released_prompts
from tasks.runtime.untrusted import markdown_text, one_line
from tasks.storage.queries.bench import best_first
from tasks.storage.tables import Store, frame_of

_WHOSE = ("judge", "judge_version", "protocol", "baseline", "draw")
_BOARD = ("board", "agreement", "cards")
_OF_INTERVALS = ("rank", "flags", "score_ci95_low", "score_ci95_high", "ci95_low", "ci95_high")
"""Columns of the board that releases of before `RANKS_SINCE` have by another rule."""
WITH_ANSWERS = "with_answers"
"""Setting in the manifest: whether texts of answers and verdicts may be in the release."""
JUDGE_TABLES = {name: f"{JUDGE_FOLDER}/{name}" for name in JUDGE_FILES}


def write_judge_files(unsealed: Unsealed) -> Stated:
    """Write the files, if the release has a judge's board. Returns whose board it is."""
    store = unsealed.store
    agreement = store.read("judge_agreement")
    versions = [public_version(version) for version in agreement["judge_version"]]
    agreement = agreement.with_columns(judge_version=pl.Series(versions, dtype=pl.String))
    if agreement.is_empty():
        return Stated()
    frames = {
        "board": best_first(store.read("judge_ratings"), "score", ["slice"]),
        "agreement": agreement,
        "cards": store.read("judge_cards"),
    }
    if unsealed.settings[WITH_ANSWERS]:
        frames |= _texts(store, unsealed.policy_hash)
    for name, frame in frames.items():
        write_table(unsealed.folder, JUDGE_TABLES[name], frame)
    whose = dict(agreement.select(_WHOSE).row(0, named=True))
    return Stated(whose, embedded_judge(store))


def _texts(store: Store, policy_hash: str) -> dict[str, pl.DataFrame]:
    """Tables `answers` and `verdicts`: what this policy lets leave, and what was screened in its present form."""
    screened = store.read("screened_texts").filter(pl.col("reasons").list.len() == 0, policy_hash=policy_hash)
    texts = screened.join(released_judge_texts(store), on="item_id", how="semi").rename({"text": "content"})
    answers = store.read("answers")
    named = answers.with_columns(item_id=pl.Series(answer_ids(answers), dtype=pl.String)).drop("question_id")
    answer_texts = texts.join(named, on="item_id").sort("question_id", "model")
    verdicts = texts.join(named, on="item_id", how="anti").sort("question_id", "item_id")
    return {
        "answers": answer_texts.rename({"item_id": "answer_id"}).select(*JUDGE_FILES["answers"].model_fields),
        "verdicts": verdicts.rename({"item_id": "verdict_id"}).select(*JUDGE_FILES["verdicts"].model_fields),
    }


def wrong_judge_files(release: OpenRelease) -> Iterator[str]:
    """Problems of the files in `leaderboard/judge`: boards that are not whole, and texts that may not leave."""
    folder, manifest = release.folder, release.manifest
    there = {name: folder / f"{table}.parquet" for name, table in JUDGE_TABLES.items()}
    unlike = [
        problem
        for name, path in sorted(there.items())
        if path.is_file()
        for problem in wrong_board(folder, path, RELEASED_TABLES[JUDGE_TABLES[name]].csv_digits)
    ]
    yield from unlike
    if not unlike:
        files = {
            name: rows for name, table in JUDGE_TABLES.items() if (rows := read_released(folder, table)) is not None
        }
        yield from _wrong_tables(folder, manifest, files)


def _wrong_tables(folder: Path, manifest: Manifest, files: dict[str, pl.DataFrame]) -> Iterator[str]:
    missing = [name for name in _BOARD if name not in files]
    if not files:
        if manifest.judge or JUDGE in manifest.embedded_providers:
            yield f"{JUDGE_FOLDER}: the manifest names a judge, but there is no board"
        return
    if missing or files["agreement"].height != 1:
        yield f"{JUDGE_FOLDER}: no whole board: it needs {', '.join(_BOARD)}, and one row in agreement"
        return
    whose = files["agreement"].row(0, named=True)
    if {name: whose[name] for name in _WHOSE} != manifest.judge:
        yield f"{JUDGE_FOLDER}/agreement.parquet: whose board it is is not what the manifest says"
    if (whose["judge"] == STAND_IN) != (JUDGE in manifest.embedded_providers):
        yield f"{JUDGE_FOLDER}/agreement.parquet: whether the judge is a stand-in is not what the manifest says"
    yield from _unlike_cards(whose, files, manifest, len({*released_prompts(folder)}))
    yield from _strangers(folder, files)
    forbidden = forbidden_data(Policy.model_validate(manifest.policy), ["assistant"])
    for name in ("answers", "verdicts"):
        if name in files and not manifest.settings.get(WITH_ANSWERS):
            yield f"{JUDGE_TABLES[name]}.parquet: texts, and the manifest does not say that they were asked for"
        if name in files:
            yield from wrong_texts(f"{JUDGE_TABLES[name]}.parquet", files[name]["content"], forbidden)


def _unlike_cards(
    whose: Mapping[str, Any], files: Mapping[str, pl.DataFrame], manifest: Manifest, prompts: int
) -> Iterator[str]:
    """Tables that are not what the cards give: the board of all prompts, and how far to trust the judge."""
    cards, board, settings = files["cards"], files["board"].filter(slice=OVERALL), manifest.settings
    method = BoardMethod(baseline=whose["baseline"], bootstraps=settings["bootstraps"], seed=settings["seed"])
    tokens = dict(board.select("model", "mean_tokens").iter_rows())
    try:
        rows = judge_boards(cards, method, whose["judge"], tokens, prompts={OVERALL: prompts})
        bias = judge_bias(outcomes(cards, method.baseline), whose["judge"], method.baseline)
    except BadInput as error:
        yield f"{JUDGE_TABLES['cards']}.parquet: it makes no board: {error}"
        return
    changed = _OF_INTERVALS if manifest.layout < RANKS_SINCE else ()
    if not same_rows(board.drop(changed), frame_of(JudgeRating, rows).drop(changed)):
        yield f"{JUDGE_TABLES['board']}.parquet: not what the cards give"
    if any(whose[name] != value for name, value in bias.model_dump(exclude={"fenced_marks"}).items()):
        yield f"{JUDGE_TABLES['agreement']}.parquet: its counts of verdicts are not those of the cards"


def _strangers(folder: Path, files: dict[str, pl.DataFrame]) -> Iterator[str]:
    """Cards on prompts that are not in bench, such as hidden ones, and texts that no card names."""
    question_ids, cards = set(released_prompts(folder)), files["cards"]
    answers = {*cards["answer_a"], *cards["answer_b"]}
    allowed_ids = {("cards", "question_id"): question_ids, ("answers", "question_id"): question_ids}
    allowed_ids |= {("answers", "answer_id"): answers, ("verdicts", "verdict_id"): {*cards["verdict_id"]}}
    for (name, column), allowed in allowed_ids.items():
        for stranger in sorted(set(files[name][column]) - allowed) if name in files else ():
            yield f"{JUDGE_FOLDER}/{name}.parquet: {column} {stranger!r} is not of this release's benchmark"


def judge_section(release: Path, prompts: int) -> str:
    """The section, with an empty line at its end; empty without a board. `prompts`: those of `bench`."""
    read = {name: read_released(release, f"{JUDGE_FOLDER}/{name}") for name in JUDGE_FILES}
    files = {name: rows for name, rows in read.items() if rows is not None}
    if not files:
        return ""
    about, overall = files["agreement"].row(0, named=True), files["board"].filter(slice="overall")
    return render_card(
        Path(__file__).with_suffix(".md"),
        about=about,
        judge=markdown_text(about["judge"]),
        version=one_line(about["judge_version"]).replace("`", "'"),  # it stands between backticks
        baseline=markdown_text(about["baseline"]),
        stand_in=about["judge"] == STAND_IN,
        models=overall.height,
        bench=prompts,
        board=[_cells(row) for row in overall.iter_rows(named=True)],
        **{name: _number(about[column], 3) for name, column in _AGREEMENT.items()},
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


JUDGE_SECTION = CardSection("## The judge's board", "the judge's board", JUDGE_FOLDER, judge_section)


def shown_verdicts(rows_of: RowsOf) -> Iterator[ShownSection]:
    """Sections with the answers to a prompt and the verdicts on them."""
    answers = sorted(rows_of(f"{JUDGE_FOLDER}/answers"), key=lambda row: (row["model"], row["answer_id"]))
    if answers:
        texts = [(row["model"], row["state"], row["content"]) for row in answers]
        yield ShownSection("Answers", texts=texts, beside=True)
    cards = rows_of(f"{JUDGE_FOLDER}/cards")
    text_of_verdict = {row["verdict_id"]: row["content"] for row in rows_of(f"{JUDGE_FOLDER}/verdicts")}
    texts = [
        (
            verdict_words(card["label"], card["model_a"], card["model_b"]),
            f"first {card['model_a']}, then {card['model_b']}",
            text_of_verdict.get(card["verdict_id"], ""),
        )
        for card in sorted(cards, key=lambda card: (card["model_a"], card["model_b"], card["verdict_id"]))
    ]
    if texts:
        yield ShownSection("Verdicts", texts=texts, beside=True)


JUDGE_BOARD = ReleasePart(
    tuple(JUDGE_TABLES.values()), write_judge_files, wrong_judge_files, section=JUDGE_SECTION, shown=shown_verdicts
)
