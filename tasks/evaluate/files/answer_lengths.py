"""Mean tokens of answers, from answer files as WildVision-Bench and Arena-Hard publish them."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from schemas.errors import BadInput


class Lengths(NamedTuple):
    """What answer files say."""

    models: dict[str, float]
    """Model -> mean tokens of its answers."""
    questions: set[str]
    """Every question that is answered."""


def answer_lengths(paths: Sequence[Path]) -> Lengths:
    """Lengths of the answers in files and folders of .jsonl files.

    Raises BadInput for a file that cannot be read, a line without question_id, model or length, and a question that
    one model answers twice.
    """
    tokens: dict[str, dict[str, int]] = defaultdict(dict)
    for file in [file for path in paths for file in (sorted(path.rglob("*.jsonl")) if path.is_dir() else [path])]:
        if not file.is_file():
            raise BadInput(f"{str(file)!r} does not exist; give files or folders of answers")
        for number, content in enumerate(file.read_bytes().splitlines(), 1):
            try:
                row = orjson.loads(content)
                question, model = str(row.get("question_id") or row["uid"]), str(row.get("model") or row["model_id"])
                length = _tokens(row)
            except (orjson.JSONDecodeError, AttributeError, KeyError, IndexError, TypeError):
                raise BadInput(f"{str(file)!r} line {number} is no answer with question_id, model and length") from None
            if question in tokens[model]:
                raise BadInput(f"{str(file)!r} line {number}: model {model!r} answers question {question!r} twice")
            tokens[model][question] = length
    means = {model: sum(of_model.values()) / len(of_model) for model, of_model in tokens.items()}
    return Lengths(means, {question for of_model in tokens.values() for question in of_model})


def _tokens(row: dict[str, Any]) -> int:
    """token_len of the line, of its metadata, or of its first turn."""
    if "token_len" in row:
        return int(row["token_len"])
    return int((row.get("metadata") or row["choices"][0]["turns"][0])["token_len"])
