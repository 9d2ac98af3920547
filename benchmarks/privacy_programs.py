"""False alarms among what `public_release` drops for personal data, on documentation and code that nobody wrote for it.

    python -m benchmarks.privacy_programs [--part forms|0|1] [--sample N]

Each docstring, and each function with its code, of some installed packages for mathematics and programs counts as a
message: what people paste into a chat when they ask about code. The versions are pinned by `constraints.txt`. Findings
were read and labelled as those of `privacy_unseen`. Half 0 (by hash of the file's name) served to mend the finder,
half 1 was measured once, at the end. A finding that nobody labelled is listed as `unread` and counts as a false alarm.
The forms of secrets, and machine-readable zones, are also searched for alone, in whole files.
"""

import argparse
import ast
import base64
import hashlib
import importlib.util
import random
import re
from collections.abc import Iterator, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from benchmarks.privacy_quality import figure
from benchmarks.privacy_unseen import Chat, false_alarms, labels
from tasks.providers import Providers
from tasks.providers.embedded.pii.machine_zone import MACHINE_READABLE, machine_readable
from tasks.providers.embedded.pii.secrets import SECRET_FORMS, formed_secrets

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


DOCUMENTATION = (".md", ".rst", ".txt", ".csv", ".dat", ".afm")
ZONE = re.compile(MACHINE_READABLE)
ENCODED_SHARE = 20
"""One file in so many is searched for zones in base64 and base32 too."""


def form_figures(share: int) -> list[dict[str, Any]]:
    """For each form of a secret, and for zones: its matches in one file in `share`, all listed, to be read.

    Code: the Python files of the packages. Documentation: their texts and tables, and what every installed
    distribution says of itself.
    """
    files = list(dict.fromkeys(file for name in PACKAGES for file in _files(name)))[::share]
    about = [(each.name, each.read_text("METADATA") or "") for each in distributions()]
    code = [(file.name, file.read_text("utf-8", "replace")) for file in files if file.suffix == ".py"]
    documents = [(file.name, file.read_text("utf-8", "replace")) for file in files if file.suffix != ".py"] + about
    figures = []
    for source, texts in (("code", code), ("documentation", documents)):
        print(f"{source}: {len(texts)} files, {sum(len(text) for _, text in texts)} characters")
        alarms: dict[str, list[str]] = {form.name: [] for form in SECRET_FORMS} | {"zone": []}
        for name, text in texts:
            for form, match in _matches(text):
                alarms[form].append(f"{name}: {match[:80]!r}")
        figures += [figure(f"{source}, {form}", len(given), len(texts), given) for form, given in alarms.items()]
    encoded = [each for _, text in code[::ENCODED_SHARE] for each in _encoded(text)]
    for name, given in (("encoded files", encoded), ("signs", list(signs(random.Random("zones"))))):
        wrong = [repr(text[:80]) for text in given if list(_zones(text))]
        figures.append(figure(f"{name}, zone", len(wrong), len(given), wrong))
    return figures


def _files(package: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    files = sorted(Path(str(spec.origin)).parent.rglob("*")) if spec else []
    return [file for file in files if file.suffix in (".py", *DOCUMENTATION) and file.is_file()]


def _matches(text: str) -> Iterator[tuple[str, str]]:
    yield from ((form.name, match.group()) for form, match in formed_secrets(text))
    yield from (("zone", found) for found in _zones(text))


def _zones(text: str) -> Iterator[str]:
    return (match.group() for match in ZONE.finditer(text) if machine_readable(match))


def _encoded(text: str) -> Iterator[str]:
    """A file as lines of base64 and of base32."""
    for encode, width in ((base64.b64encode, 64), (base64.b32encode, 44), (base64.b32encode, 30)):
        letters = encode(text.encode("utf-8", "replace")).decode()
        yield "\n".join(letters[start : start + width] for start in range(0, len(letters), width))


def signs(draw: random.Random) -> Iterator[str]:
    """Lines of `<`, comparisons, shifts and templates of capital letters, and frames: 2,000 texts."""
    for _ in range(2000):
        words = ["".join(draw.choices("ABCDEIOPSTX0158_", k=draw.randint(1, 12))) for _ in range(draw.randint(2, 6))]
        wide = "<" * draw.randint(1, 44)
        yield draw.choice(
            (
                wide, f"{wide} {words[0]}", f"{wide}\n{wide}", f"|{wide}|{words[0]}|\n|{wide}|{words[1]}|",
                "<".join(words), "<<".join(words), " << ".join(words), f"{'<'.join(words)}{'>' * (len(words) - 1)}",
                f"cat <<{words[0]}\n{words[1]}\n{words[0]}", f"<{words[0]}><{words[1]}></{words[1]}></{words[0]}>",
            )
        )  # fmt: skip


def main(halves: Sequence[int], share: int) -> list[dict[str, Any]]:
    """The figures of one message in `share` of each half."""
    finder, known, figures = Providers()["text_pii"], labels(), list[dict[str, Any]]()
    for half in halves:
        given = list(messages(half))[::share]
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
    parser.add_argument("--part", choices=("forms", "0", "1"), help="forms, or a half of the messages; default all")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="search one file or message in N")
    told = parser.parse_args()
    if told.part in ("forms", None):
        form_figures(told.sample)
    main([half for half in (0, 1) if told.part in (str(half), None)], told.sample)
