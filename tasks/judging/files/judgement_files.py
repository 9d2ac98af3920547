"""Reads raw judgements as WildVision-Bench and Arena-Hard (v0.1 and v2.0) publish them: one JSON object a line.

A line has question_id (or uid), model, judge and games. In the first game the baseline is shown first, in the second
the model. The label comes from the judge's text; the stored score is only compared with it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from schemas.benches.judging import Label, ParsedJudgements
from schemas.errors import BadInput, known_values
from tasks.judging.files.answer_shapes import json_lines
from tasks.judging.protocols import labelled, labels_in
from tasks.runtime.untrusted import one_line

_TEXT = ("judgment", "judgement")
_ERROR_MARK = "$ERROR$"
_BRACKETS = re.compile(r"\[{1,2}[^\[\]]{1,40}\]{1,2}")
_SHOWN_CHARACTERS = 60
_REFERENCE = "_reference_"
"""WildVision-Bench names a folder judge_JUDGE_reference_BASELINE."""


class Judgements(NamedTuple):
    """The games of some judgement files."""

    verdicts: pl.DataFrame
    """A row per game: question_id, model, model_a, model_b, label (null: no verdict), kind, stored, `category:<name>`.

    `kind` is labels, conflicting, error_marks, without_label or empty, as in `ParsedJudgements`.
    """
    judge: str
    """The judge of all of them."""
    baseline: str
    """The model that every other one was compared with."""
    unread: Mapping[str, str]
    """Model -> what stands for a label in its first text that has none, or the end of that text."""


def read_judgements(paths: Sequence[Path], baseline: str | None = None) -> Judgements:
    """The games of files and folders of judgements, in order; the baseline is looked for if it is not given.

    Raises BadInput for a file that is not such a table, several judges or baselines, or a baseline nobody names.
    """
    files = [file for path in paths for file in (sorted(path.rglob("*.jsonl")) if path.is_dir() else [path])]
    if not files:
        raise BadInput(f"no .jsonl file in {', '.join(map(str, paths))}; give files or folders of judgements")
    lines = [line for file in files for line in _lines(file)]
    if not lines:
        raise BadInput(f"{', '.join(map(str, files))}: no judgement")
    baselines = {str(line["baseline"]) for line in lines if line.get("baseline")} or _baselines(lines, files)
    if not baselines and not baseline:
        raise BadInput("the files do not name the baseline; give it with --baseline MODEL")
    if baseline and baselines - {baseline}:
        raise BadInput(f"--baseline {baseline!r}, but the files were compared with {', '.join(sorted(baselines)[:5])}")
    baseline_model = _one("baseline", baselines or {str(baseline)})
    judge = _one("judge", {str(line.get("judge", "unknown")) for line in lines})
    games = [game for line in lines for game in _games(line, baseline_model)]
    categories = {game["category"] for game in games if game["category"]}
    verdicts = pl.DataFrame(games, infer_schema_length=None, schema_overrides={"label": pl.String})
    unread = {game["model"]: game["unread"] for game in reversed(games) if game["unread"]}
    in_category = ((pl.col("category") == name).alias(f"category:{name}") for name in sorted(categories))
    return Judgements(verdicts.with_columns(in_category).drop("category", "unread"), judge, baseline_model, unread)


def parsed(judgements: Judgements) -> list[ParsedJudgements]:
    """Counts of what the texts of each model hold."""
    kind, stored, label = pl.col("kind"), pl.col("stored"), pl.col("label")
    kinds = ("labels", "conflicting", "error_marks", "without_label", "empty")
    counted = judgements.verdicts.group_by("model", maintain_order=True).agg(
        judgements=pl.len(),
        **{name: (kind == name).sum() for name in kinds},
        stored_differs=((kind == "labels") & (stored != label)).sum(),
        stored_as_tie=((kind != "labels") & (stored == Label.TIE.value)).sum(),
    )
    return [ParsedJudgements.model_validate(row) for row in counted.to_dicts()]


def check_labels(judgements: Judgements) -> None:
    """Raises BadInput for a model of whose judgements fewer than half have a label."""
    for row in parsed(judgements):
        if 2 * row.labels < row.judgements:
            seen = judgements.unread.get(row.model)
            instead = f"one without has {seen!r}" if seen else "the others are empty or failed calls"
            raise BadInput(
                f"judgements of {one_line(row.model)!r}: {row.labels:,} of {row.judgements:,} have a label "
                f"({', '.join(f'[[{label.value}]]' for label in Label)}); {instead}. Leave that file out, or count "
                "what all hold with --table parsed"
            )


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file, each with its place (`at`), `question_id`, `model` and games."""
    for at, line in json_lines(file, "judgements"):
        if not isinstance(line.get("games"), list):
            raise BadInput(f"{at} has no list of games; give judgements as WildVision-Bench or Arena-Hard write them")
        line["question_id"] = line.get("question_id", line.get("uid"))
        if lacking := [name for name in ("question_id", "model") if not line[name]]:
            raise BadInput(f"{at} has no {lacking[0]}; every judgement needs question_id (or uid) and model")
        if not 1 <= len(line["games"]) <= 2:
            raise BadInput(f"{at} has {len(line['games'])} games; a pair is judged in one order or in both")
        yield line | {"at": at}


def _baselines(lines: list[dict[str, Any]], files: list[Path]) -> set[str]:
    """The baseline by the folders' names, or else the model that was compared with itself; empty if neither tells."""
    baselines = {file.parent.name.partition(_REFERENCE)[2] for file in files if _REFERENCE in file.parent.name}
    if not baselines:
        same = [(line["model"], _same_answers(line["games"][0])) for line in lines]
        baselines = {model for model, _ in same} - {model for model, equal in same if not equal}
    return baselines


def _same_answers(game: Any) -> bool:
    """Whether the judge was shown one answer twice."""
    prompt = game.get("user_prompt") if isinstance(game, dict) else None
    text = str(prompt[0].get("text", "")) if prompt and isinstance(prompt[0], dict) else ""
    first, second = (
        text.partition(f"<|The Start of Assistant {seat}'s Answer|>")[2].partition("<|The End of")[0]
        for seat in ("A", "B")
    )
    return bool(text) and first == second


def _one(what: str, names: set[str]) -> str:
    if len(names) > 1:
        raise BadInput(f"the files have {len(names)} {what}s ({', '.join(sorted(names)[:5])}); a board has one {what}")
    return names.pop()


def _games(line: dict[str, Any], baseline: str) -> Iterator[dict[str, Any]]:
    for number, game in enumerate(line["games"]):
        first, second = (baseline, line["model"]) if number == 0 else (line["model"], baseline)
        yield {
            "question_id": str(line["question_id"]),
            "model": line["model"],
            "model_a": first,
            "model_b": second,
            **_read(game or {}, line["at"]),
            "category": line.get("category"),
        }


def _read(game: dict[str, Any], at: str) -> dict[str, str | None]:
    """kind, label, stored score and `unread` of one game; without a text only the stored label, which must be known."""
    score = game.get("score")
    stored_label = labelled(score) if isinstance(score, str) else None
    stored = stored_label.value if stored_label else None
    key = next((name for name in _TEXT if name in game), None)
    if key is None:
        if score is not None and stored is None:
            raise BadInput(f"{at}: unknown label {known_values(str(score)[:20], [label.value for label in Label])}")
        return {"kind": "labels" if stored else "empty", "label": stored, "stored": stored, "unread": None}
    text = game[key]["answer"] if isinstance(game[key], dict) else game[key]
    text = text.strip() if isinstance(text, str) else ""
    labels = sorted(label.value for label in labels_in(text))
    silent = "error_marks" if _ERROR_MARK in text else "without_label" if text else "empty"
    kind = "labels" if len(labels) == 1 else "conflicting" if labels else silent
    # the last thing in brackets, or else the end of the text
    unread = one_line((_BRACKETS.findall(text) or [text[-_SHOWN_CHARACTERS:]])[-1]) if kind == "without_label" else None
    return {"kind": kind, "label": labels[0] if kind == "labels" else None, "stored": stored, "unread": unread}
