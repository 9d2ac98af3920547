"""False alarms among what `public_release` drops for personal data, on documentation and code that nobody wrote for it.

    python -m benchmarks.privacy_programs [--half 0|1]

Each docstring, and each function with its code, of some installed packages for mathematics and programs counts as a
message: what people paste into a chat when they ask about code. The versions are pinned by `constraints.txt`. Findings
were read and labelled as those of `privacy_unseen`. Half 0 (by hash of the file's name) served to mend the finder,
half 1 was measured once, at the end. A finding that nobody labelled is listed as `unread` and counts as a false alarm.
"""

import argparse
import ast
import hashlib
import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.privacy_quality import figure
from benchmarks.privacy_unseen import Chat, false_alarms, labels
from tasks.providers import Providers
from tasks.providers.embedded.pii.secrets import BEHIND_WORDS, is_irregular

PACKAGES = (
    "numpy", "scipy", "sympy", "sklearn", "networkx", "polars", "matplotlib", "skimage", "pandas", "mpmath", "dask",
    "requests", "sqlalchemy", "flask", "tornado", "pyparsing", "shapely", "duckdb",
)  # fmt: skip
CHARACTERS = range(200, 4000)
FILES = {"documentation": 5, "code": 20}
"""One file in so many is read."""


def messages(half: int) -> Iterator[Chat]:
    """The messages of one half, without repeats."""
    seen = set[str]()
    for name in PACKAGES:
        found = importlib.util.find_spec(name)
        root = Path(str(found.origin)).parent if found else Path()
        for file in sorted(root.rglob("*.py")) if found else ():
            number = int.from_bytes(hashlib.sha256(file.relative_to(root.parent).as_posix().encode()).digest()[:4])
            for source, text in texts_of(file, number // 2) if number % 2 == half else ():
                if len(text) in CHARACTERS and text not in seen:
                    seen.add(text)
                    yield Chat(source, text, (text,))


def texts_of(file: Path, number: int) -> Iterator[tuple[str, str]]:
    """Documentation and functions of a file, if it is one of the sample."""
    if all(number % share for share in FILES.values()):
        return
    try:
        source = file.read_text("utf-8")
        nodes = list(ast.walk(ast.parse(source)))
    except (ValueError, SyntaxError):
        return
    lines = source.split("\n")
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and number % FILES["documentation"] == 0:
            yield "documentation", ast.get_docstring(node) or ""
        if isinstance(node, ast.FunctionDef) and number % FILES["code"] == 0:
            yield "code", "\n".join(lines[node.lineno - 1 : node.end_lineno])


def secret_forms() -> list[dict[str, Any]]:
    """For each form of a secret: its matches in the Python files of the packages, all listed, to be read."""
    files = list(dict.fromkeys(file for name in PACKAGES for file in _python_files(name)))
    texts = [file.read_text("utf-8", "replace") for file in files]
    print(f"{len(texts)} files, {sum(map(len, texts))} characters")
    figures = []
    for form, pattern, hints in BEHIND_WORDS:
        alarms = []
        for file, text in zip(files, texts, strict=True):
            if any(hint in text.lower() for hint in hints):
                alarms += [
                    f"{file.name}: {match.group()[:80]!r}"
                    for match in pattern.finditer(text)
                    if not form.irregular or is_irregular(match["data"])
                ]
        figures.append(figure(f"programs, secrets: {form.name}", len(alarms), len(files), alarms))
    return figures


def _python_files(package: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    return sorted(Path(str(spec.origin)).parent.rglob("*.py")) if spec else []


def main(halves: Sequence[int]) -> list[dict[str, Any]]:
    """The figures of each half."""
    finder, known, figures = Providers()["text_pii"], labels(), secret_forms()
    for half in halves:
        given = list(messages(half))
        for source in FILES:
            some = [chat for chat in given if chat.source == source]
            (_, false, dropped, _), _, (_, _, _, shown) = false_alarms(some, finder, known)
            print(
                f"half {half}: {len(some)} messages of {source}, {sum(len(chat.question) for chat in some)} characters"
            )
            figures.append(
                figure(f"programs, half {half}, {source}: messages dropped for nothing", false, len(some), shown)
            )
            figures.append(figure(f"programs, half {half}, {source}: dropped, false alarms", false, dropped))
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.privacy_programs", description=__doc__)
    parser.add_argument("--half", type=int, choices=(0, 1))
    told = parser.parse_args()
    main((0, 1) if told.half is None else (told.half,))
