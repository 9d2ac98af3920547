"""The house rules that a machine can count: first words, sizes, names, circles of imports."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import networkx
import typer

from flows.commands import command_line
from flows.products import PRODUCTS

ROOT = Path(__file__).parents[1]
FOLDERS = ("arena_curation", "flows", "tasks", "schemas")
FILES = {path: path.read_text("utf-8") for top in FOLDERS for path in (ROOT / top).rglob("*.py")}
SECOND_READING = re.compile(r"(Of|Those|Its|What|As|That|Which|Such|These|Their|Also|And|Only)\b")
"""First words after which a reader has to guess the noun."""
SAME_NAME = {
    "hidden_texts": "in flows/products.py, gives the product's function of this name to the core",
    "item_findings": "in flows/products.py, gives the product's function of this name to the core",
    "item_images": "in flows/products.py, gives the product's function of this name to the core",
    "validation_texts": "in flows/products.py, gives the product's function of this name to the core",
    "COMMANDS": "the commands of a product, which its line in flows/products.py names",
    "ESTIMATES": "the estimates of a product, which its line names",
    "KINDS": "the kinds of reviews of a product, which its line names",
}
"""Names that two modules may define, with the reason."""


@cache
def _modules() -> dict[str, ast.Module]:
    """Name of a module -> its tree."""
    parts = {path: path.relative_to(ROOT).with_suffix("").parts for path in FILES}
    return {".".join(parts[path]).removesuffix(".__init__"): ast.parse(text) for path, text in FILES.items()}


def _docstrings(module: str, tree: ast.Module) -> Iterator[str]:
    """Docstrings of modules, classes, functions and attributes.

    Fields of schemas are left out: their docstrings are comments in released files, whose bytes stay the same.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
        if isinstance(node, ast.Module) or (isinstance(node, ast.ClassDef) and not module.startswith("schemas.")):
            for before, after in pairwise(node.body):
                if isinstance(before, ast.AnnAssign | ast.Assign) and isinstance(after, ast.Expr):
                    yield str(getattr(after.value, "value", ""))


def _defined(tree: ast.Module) -> Iterator[str]:
    """Names of the classes, functions, constants and aliases of a module; type variables belong to their functions."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not re.search("TypeVar|ParamSpec", ast.unparse(node)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))


def _commands(app: typer.Typer) -> Iterator[str]:
    """Names of the functions of all commands."""
    yield from (command.callback.__name__ for command in app.registered_commands if command.callback)
    for group in app.registered_groups:
        yield from _commands(group.typer_instance)


def test_a_docstring_begins_with_its_noun_or_verb():
    said = [(module, text) for module, tree in _modules().items() for text in _docstrings(module, tree)]
    assert [f"{module}: {text[:60]}" for module, text in said if SECOND_READING.match(text)] == []


def test_a_public_name_is_defined_once():
    """A command's function is not counted: it has the name that users type, as its flow and the public one may have."""
    commands = set(_commands(command_line()))
    places = (
        "arena_curation",
        "flows.commands",
        *(each.commands.rpartition(".")[0] for each in PRODUCTS if each.commands),
    )
    names = Counter(
        name
        for module, tree in _modules().items()
        for name in _defined(tree)
        if not (name.startswith("_") or (module.startswith(places) and name in commands))
    )
    assert {name for name, places in names.items() if places > 1} == set(SAME_NAME)


def test_no_modules_import_each_other():
    imports = networkx.DiGraph()
    for module, tree in _modules().items():
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module:
                targets = {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
                imports.add_edges_from((module, target) for target in targets & _modules().keys())
    assert [circle for circle in networkx.strongly_connected_components(imports) if len(circle) > 1] == []
