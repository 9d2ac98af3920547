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

_CLOCK = "the clock: nobody waits as long as a user would"
_MACHINE = "the environment: what another machine, install or operator has"
_WIRE = "the far end of a wire: a package of others, or its limits"
_SIZE = "a size, made small: many pieces of the real size take minutes or gigabytes"
_COUNTED = "how much is read at a time, which no table shows"
_LATER = "what a later version will have, and today's has not"
_BROKEN = "a guard has to catch a product that is broken here"
PATCHED = {
    "captcha._signed._clock": _CLOCK,
    "tasks.providers.production.calls.Service.first_seconds": _CLOCK,
    "tasks.publish.hub.time": _CLOCK,
    "tasks.runtime.serving.BODY_BYTES_A_SECOND": _CLOCK,
    "tasks.runtime.serving.BODY_SECONDS": _CLOCK,
    "tasks.runtime.serving.HEAD_SECONDS": _CLOCK,
    "tasks.storage.lock.Terms.__new__.__defaults__": _CLOCK,
    "flows.commands.command_line": "made once for all tests, because typer takes 25 ms a command",
    "flows.demo.demo_run.until_drawn": "the store is curated already, which takes a minute",
    "tasks.arena.words._HERE": _MACHINE,
    "tasks.dedup.near_images._on_device": _MACHINE,
    "tasks.providers.PROVIDERS": "one capability, because `curate doctor` tries each that there is",
    "tasks.providers.embedded_figures.FIGURES": _MACHINE,
    "tasks.runtime.parallel.cards": _MACHINE,
    "api.bytes_max": _WIRE,
    "api.requests_max": _WIRE,
    "model._pipeline": _WIRE,
    "tasks.dedup.hamming.cheapest_bands": _SIZE,
    "tasks.bench.contamination.prompt_index.INDEXED_BYTES": _SIZE,
    "tasks.dedup.near_images.PRODUCT_SIDE": _SIZE,
    "tasks.dedup.near_prompts.GROUP_MAX": _SIZE,
    "flows.running.costs.TRIED": _SIZE,
    "{module}.DECIDED_MIN": _SIZE,
    "{module}.DOCUMENTS_AT_ONCE": _SIZE,
    "tasks.ingest.assemble.CONVERSATIONS_A_PART": _SIZE,
    "tasks.ingest.assemble.SIGHTINGS_AT_ONCE": _SIZE,
    "tasks.ingest.database.ROWS_LISTED_AT_ONCE": _SIZE,
    "tasks.ingest.log_files.READ_BYTES": _SIZE,
    "tasks.ingest.read_new.BATCHES_ALONE": _SIZE,
    "tasks.ingest.read_new.LINES_BYTES": _SIZE,
    "module.LINES_BYTES": _SIZE,
    "module.LOG_PART_BYTES": _SIZE,
    "tasks.ingest.take_in.FILES_A_SHARD": _SIZE,
    "tasks.ingest.take_in.PIXELS_AT_ONCE": _SIZE,
    "tasks.leaderboard.agreement.SAMPLES": _SIZE,
    "tasks.release.diff._BATCH_ROWS": _SIZE,
    "tasks.release.gather.MEAN_ROW_BYTES": _SIZE,
    "tasks.release.shards.FEW": _SIZE,
    "tasks.release.shards.ROW_GROUP_BYTES": _SIZE,
    "tasks.release.shards.SHARD_BYTES": _SIZE,
    "tasks.release.shards.SHARD_ROWS_MAX": _SIZE,
    "tasks.release.verify.ROWS_ALONE": _SIZE,
    "tasks.report.content.POINTS_MAX": _SIZE,
    "tasks.review.alarms.CONTEXT_CHARACTERS": _SIZE,
    "tasks.runtime.json_rows.TABLE_BYTES_MAX": _SIZE,
    "tasks.runtime.json_rows._READ_BYTES": _SIZE,
    "tasks.signals.run.IMAGES_A_PART": _SIZE,
    "tasks.signals.run.TEXTS_A_PART": _SIZE,
    "tasks.storage.parts.PART_BYTES": _SIZE,
    "tasks.storage.queries.signals.VECTORS_A_BLOCK": _SIZE,
    "tasks.topics.engines.COSINES_A_THREAD": _SIZE,
    "tasks.topics.fit.DOCUMENTS_AT_ONCE": _SIZE,
    "tasks.storage.tables.Store.batches": _COUNTED,
    "tasks.storage.tables.Store.read": _COUNTED,
    "tasks.storage.tables.Store.read_slices": _COUNTED,
    "tasks.dedup.near_images.read_block": "others compare vectors, and this process none",
    "tasks.signals.run.MeasuringObserver.measure": "others measure images, and this process none",
    "tasks.storage.migrate.STEPS": _LATER,
    "tasks.ingest.known_images.PDQ_DISTANCE": _BROKEN,
    "tasks.providers.embedded.known_tags.WordsAndLayout": "an answer of each kind for every tag",
    "tasks.providers.embedded.known_tags.tag_answers": "figures of tags as they would be after another measurement",
    "tasks.ingest.database.database_days": "the database ends in the midst of one day",
}
"""Names of this repository, or of what a test made of it, that tests replace, with the reason. No name joins them."""
PATCHES = 79
"""How often tests replace one of them. The number only falls."""
OTHERS = {"datasets", "ray", "openai", "uvicorn"}
"""Packages of others that a test imports only where they are installed, so that their names are bound in it."""


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


def _imported(tree: ast.Module) -> dict[str, str]:
    """Name in a module -> what it was imported as."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            tops = [alias.name if alias.asname else alias.name.partition(".")[0] for alias in node.names]
            names |= {alias.asname or top: top for alias, top in zip(node.names, tops, strict=True)}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _patched(tree: ast.Module) -> Iterator[str]:
    """Targets of `setattr` and `mock.patch` in a test module that are ours, or objects of the test, made of ours.

    A star stands for an attribute that is no literal.
    """
    names = _imported(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called, target = ast.unparse(node.func), node.args[0]
        if called.endswith(".setattr") and not isinstance(target, ast.Constant | ast.JoinedStr):
            root, _, rest = ast.unparse(target).partition(".")
            attribute = str(node.args[1].value) if isinstance(node.args[1], ast.Constant) else "*"
            top = names.get(root, "tests").partition(".")[0]
            if top in (*FOLDERS, "tests") and root not in OTHERS:
                yield ".".join(part for part in (names.get(root, root), rest, attribute) if part)
        elif called.endswith((".setattr", "mock.patch")) or names.get(called) == "unittest.mock.patch":
            name = ast.unparse(target).removeprefix("f").strip("'\"")
            if name.partition(".")[0] in (*FOLDERS, "{module}"):
                yield name


def test_nothing_that_is_tested_is_patched_without_a_reason():
    trees = [ast.parse(path.read_text("utf-8")) for path in sorted((ROOT / "tests").rglob("*.py"))]
    targets = Counter(target for tree in trees for target in _patched(tree))
    assert set(targets) == set(PATCHED)
    assert targets.total() <= PATCHES


def test_a_docstring_begins_with_its_noun_or_verb():
    said = [(module, text) for module, tree in _modules().items() for text in _docstrings(module, tree)]
    assert [f"{module}: {text[:60]}" for module, text in said if SECOND_READING.match(text)] == []


NAMED_IN_WORDS = {
    "MODEL_BENCHMARK", "PERSON_1", "EMAIL_1", "CONTENT_ID", "USER_ID", "TEXT_ID",  # parts of forms
    "NUMBA_CACHE_DIR", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "FPDF_ERR_PASSWORD",  # names of libraries
}  # fmt: skip


def test_a_constant_that_a_docstring_names_is_one_of_the_project_or_a_variable_of_the_environment():
    of_constant = re.compile(r"\b_?[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
    nodes = [node for tree in _modules().values() for node in ast.walk(tree)]
    known = {node.id for node in nodes if isinstance(node, ast.Name)}
    known |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    words = [node.value for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    in_words = {id(constant) for constant in words}
    values = [node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in in_words]
    known.update(*(of_constant.findall(value) for value in values if isinstance(value, str)))
    named = {name for text in words if isinstance(text.value, str) for name in of_constant.findall(text.value)}
    assert named - known - NAMED_IN_WORDS == set()


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
