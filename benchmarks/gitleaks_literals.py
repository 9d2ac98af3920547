"""Secrets and lookalikes in the tests of gitleaks' own rules: how many of them the finder of secrets finds.

    python -m benchmarks.gitleaks_literals SOURCES

SOURCES is a checkout of gitleaks 8.30. Each of its rules comes with texts that have a secret and texts that have none,
in `cmd/generate/config/rules/*.go`. Read are those that stand there as one plain literal, without repeats; those that
gitleaks draws at random, and secrets told by the name of a file alone, are left out. A lookalike of one rule that has a
secret of another counts as a secret. What is not found, and each lookalike that is, is listed. No text is kept here.
"""

import argparse
import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.privacy_quality import Figure, figure
from tasks.providers.embedded.pii.patterns import find_patterns
from tasks.providers.embedded.pii.secrets import API_KEY, IN_URL

RULES = Path("cmd") / "generate" / "config" / "rules"
_TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/|`[^`]*`|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\])+'|[A-Za-z_][\w.]*|:=|\S", re.S)
"""Comments, strings, runes, names with dots, the sign that declares, and every other sign of Go."""
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
Tokens = Sequence[str]


class Literals(NamedTuple):
    """The plain literals of the tests of gitleaks' rules, without repeats."""

    secrets: tuple[str, ...]
    """Texts in which a rule finds a secret."""
    lookalikes: tuple[str, ...]
    """Texts in which no rule finds one."""


def literals(sources: Path) -> Literals:
    """The literals of all rules below a checkout; both empty where it has none."""
    secrets, lookalikes = dict[str, None](), dict[str, None]()
    for file in sorted((sources / RULES).glob("*.go")):
        for name, texts in _lists(file.read_text("utf-8")):
            kept = {"tps": secrets, "fps": lookalikes}.get(name.rpartition(".")[2].lower(), {})
            kept.update(dict.fromkeys(text for text in texts if text.strip()))
    return Literals(tuple(secrets), tuple(text for text in lookalikes if text not in secrets))


def _lists(source: str) -> Iterator[tuple[str, list[str]]]:
    """Each assignment of a Go file: the name that is assigned to, and the plain literals of the value."""
    tokens = [token for token in _TOKEN.findall(source) if not token.startswith(("//", "/*"))]
    known: dict[str, list[str]] = {}
    for place, token in enumerate(tokens[:-1]):
        if token in ("=", ":=") and place:
            name = tokens[place - 1]
            texts = _texts(_value(tokens[place + 1 :]), known)
            yield name, texts
            known[name] = texts if name not in ("tps", "fps") else []


def _value(tokens: Tokens) -> Tokens:
    """The tokens of a value: up to the brace or bracket that closes the first one it opens, `[]string` aside."""
    depth = 0
    for place, token in enumerate(tokens):
        depth += (token in _OPENING) - (token in _CLOSING)
        if depth < 0:
            return tokens[:place]
        if not depth and token in ("}", ")"):
            return tokens[: place + 1]
    return tokens


def _texts(tokens: Tokens, known: Mapping[str, list[str]]) -> list[str]:
    """The plain literals of a value; `known` has the lists of the file by name."""
    match tokens:
        case ["[", "]", "string", "{", *inner, "}"] | ["map", "[", "string", "]", "string", "{", *inner, "}"]:
            return [text for part in _parts(inner) for text in _texts(part, known)]
        case ["append", "(", *inner, ")"]:
            return [text for part in _parts(inner) for text in _texts(part, known)]
        case [name, "(", identifier, ",", value, ")"] | [name, "(", identifier, ",", value, ",", ")"]:
            is_sample = name.lower().removeprefix("utils.").startswith("generatesamplesecret")
            return [f'{a}Token = "{b}"' for a in _string(identifier) for b in _string(value) if is_sample]
        case [name]:
            return _string(name) or known.get(name.rstrip("."), [])
        case [_, ":", value]:
            return _string(value)
        case [*value, ".", ".", "."]:
            return _texts(value, known)
    return []


def _parts(tokens: Tokens) -> Iterator[Tokens]:
    """The tokens between the outermost commas."""
    depth, start = 0, 0
    for place, token in enumerate([*tokens, ","]):
        depth += (token in _OPENING) - (token in _CLOSING)
        if token == "," and not depth:
            yield list(tokens[start:place])
            start = place + 1


def _string(token: str) -> list[str]:
    """The text of a literal; nothing for another token."""
    if token.startswith("`"):
        return [token.strip("`")]
    return [ast.literal_eval(token)] if token.startswith('"') else []


def figures(given: Literals) -> Iterator[Figure]:
    """Name, hits, number and failures: secrets that are found, and lookalikes that are taken for one."""
    found = frozenset(_with_secret(given.secrets))
    missed = [text for text in given.secrets if text not in found]
    yield "gitleaks' secrets: found", len(found), len(given.secrets), missed
    taken = _with_secret(given.lookalikes)
    yield "gitleaks' lookalikes: taken for a secret", len(taken), len(given.lookalikes), taken


def _with_secret(texts: Sequence[str]) -> list[str]:
    """The texts in which a secret is found."""
    kinds = [{span.type for span in spans} for spans in find_patterns(texts)]
    return [text for text, of_text in zip(texts, kinds, strict=True) if of_text & {API_KEY, IN_URL}]


def main(sources: Path) -> list[dict[str, Any]]:
    """Print the figures of a checkout."""
    return [figure(*row) for row in figures(literals(sources))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gitleaks_literals", description=__doc__)
    parser.add_argument("sources", type=Path)
    given = parser.parse_args()
    if not (given.sources / RULES).is_dir():
        parser.error(f"SOURCES {str(given.sources)!r} has no {RULES.as_posix()}: give a checkout of gitleaks 8.30")
    main(given.sources)
