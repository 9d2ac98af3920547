"""Takes a product out of a copy of the tree and runs what stands: `python -m tests.amputate PRODUCT [TESTS]`.

Gone are its folders, its tests and its line in `flows/products.py`. Every test file runs that imports nothing of it, in
whatever depth and also late, and types none of its commands; but the one about pages, which speak of every product.
`TESTS`: only those whose path begins so. Modules outside that still import it are printed: they are what is left to do.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from tempfile import TemporaryDirectory

import networkx

ROOT = Path(__file__).parents[1]
FOLDERS = ("tasks", "flows", "benchmarks", "tests.tasks")
"""Packages in which a product has a folder."""
ON_PAGES = "tests.flows.test_pages"
NOT_INSTALLED = """\
import sys
sys.meta_path[:] = [each for each in sys.meta_path if not getattr(each, "__module__", "").startswith("__editable__")]
"""
"""`sitecustomize.py` of the copy: without it, modules that the copy lacks are found in the tree that is installed."""
PROBE = """\
import importlib.util, sys, tasks
assert tasks.__file__.startswith(sys.argv[1]), tasks.__file__
assert importlib.util.find_spec(sys.argv[2]) is None, "found in another tree"
"""


def copied(target: Path) -> None:
    """Copy the tracked files, and link what is ignored and needed."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    for name in filter(None, tracked.split("\0")):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name, follow_symlinks=False)
    (target / ".venv").symlink_to((ROOT / ".venv").resolve())
    (target / "sitecustomize.py").write_text(NOT_INSTALLED, encoding="utf-8")


def take_out(root: Path, product: str) -> None:
    """Delete the product's folders and its line in the list, with its import."""
    for folder in FOLDERS:
        shutil.rmtree(root / folder.replace(".", "/") / product, ignore_errors=True)
    file = root / "flows" / "products.py"
    imported = re.compile(rf"^from tasks\.{product}\.product import (\w+)\n", re.MULTILINE)
    text = file.read_text(encoding="utf-8")
    if (found := imported.search(text)) is None:
        raise SystemExit(f"flows/products.py lists no product {product!r}")
    text = re.sub(rf"^    {found[1]},\n", "", imported.sub("", text), flags=re.MULTILINE)
    file.write_text(text, encoding="utf-8")


def modules_of(root: Path) -> dict[str, Path]:
    """Name of a module -> its file."""
    files = {path.relative_to(root): path for path in root.rglob("*.py") if ".venv" not in path.parts}
    return {".".join(name.with_suffix("").parts).removesuffix(".__init__"): path for name, path in files.items()}


def commands_of(root: Path, product: str) -> set[str]:
    """Names in the product's `COMMANDS`: its commands, and a few words that nobody types."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in (root / "flows" / product).glob("*.py"))
    listed = [each for tree in trees for each in tree.body if ast.unparse(each).startswith("COMMANDS = ")]
    nodes = [node for each in listed for node in ast.walk(each)]
    return {node.id if isinstance(node, ast.Name) else node.attr for node in nodes if isinstance(node, _NAMES)}


_NAMES = (ast.Name, ast.Attribute)


def _typed(node: ast.AST) -> set[str]:
    """The first words of what may be a command: of a list, or of arguments of the fixtures `curate` and `refused`."""
    words: list[ast.expr] = node.elts[:1] if isinstance(node, ast.List) else []
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("curate", "refused"):
        words = node.args[:2]
    return {each.value for each in words if isinstance(each, ast.Constant) and isinstance(each.value, str)}


def _named(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Names that may be modules: of imports, and words such as `flows.release`, by which flows are loaded."""
    for each in nodes:
        if isinstance(each, ast.If) and ast.unparse(each.test) == "TYPE_CHECKING":
            continue
        if isinstance(each, ast.Import):
            yield from (alias.name for alias in each.names)
        elif isinstance(each, ast.ImportFrom) and each.module:
            yield from (each.module, *(f"{each.module}.{alias.name}" for alias in each.names))
        elif isinstance(each, ast.Constant) and isinstance(each.value, str) and "." in each.value:
            yield each.value
        yield from _named(ast.iter_child_nodes(each))


def _pieces(name: str, text: str) -> dict[str, list[ast.stmt]]:
    """A module as one piece; a `conftest` in pieces, because a test has only those of its fixtures that it names."""
    pieces: dict[str, list[ast.stmt]] = {name: []}
    for each in ast.parse(text).body:
        piece = name
        if name.endswith(".conftest") and isinstance(each, ast.FunctionDef) and not _for_all(each):
            piece = f"{name}.{each.name}"
        pieces.setdefault(piece, []).append(each)
    return pieces


def _words(node: ast.AST, module: str) -> Iterator[str]:
    """Names of fixtures: parameters and strings, and in a `conftest` also its own functions."""
    if isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and module.endswith("conftest"):
        yield node.id


def _for_all(function: ast.FunctionDef) -> bool:
    """Whether pytest calls a function of a `conftest` though no test names it."""
    return function.name.startswith("pytest_") or any(
        "autouse" in ast.unparse(each) for each in function.decorator_list
    )


def import_graph(modules: Mapping[str, Path], product: str, commands: Set[str]) -> "networkx.DiGraph[str]":
    """Edges from a module to each one that it imports, to its packages and, from a test, to the fixtures that it names.

    All modules of the product are the one node of its name; tests that type one of its commands lead there, too.
    """
    gone = tuple(f"{folder}.{product}." for folder in FOLDERS)
    pieces = {name: _pieces(name, path.read_text(encoding="utf-8")) for name, path in modules.items()}
    graph: networkx.DiGraph[str] = networkx.DiGraph()
    graph.add_edge(ON_PAGES, product)
    for module, own in pieces.items():
        above = [module.rsplit(".", depth)[0] for depth in range(1, module.count(".") + 1)]
        by_pytest = module.rpartition(".")[2].startswith(("test_", "conftest"))
        fixtures = [fixture for each in above if by_pytest for fixture in pieces.get(f"{each}.conftest", ())]
        for name, nodes in own.items():
            words = {word for node in nodes for each in ast.walk(node) for word in _words(each, module)}
            named = {*_named(nodes), *above, module}
            used = {fixture for fixture in fixtures if fixture in modules or fixture.rpartition(".")[2] in words}
            graph.add_edges_from((name, each) for each in (named & modules.keys() | used) - {name})
            graph.add_edges_from((name, product) for each in named if f"{each}.".startswith(gone))
            if by_pytest and any(_typed(each) & commands for node in nodes for each in ast.walk(node)):
                graph.add_edge(name, product)
    return graph


def main(product: str, wanted: str = "tests") -> int:
    """Take out, print, run; returns the status of pytest."""
    with TemporaryDirectory(prefix="without_") as folder:
        root = Path(folder).resolve()
        copied(root)
        commands = commands_of(root, product)
        take_out(root, product)
        modules = modules_of(root)
        graph = import_graph(modules, product, commands)
        left = sorted(name for name in graph.predecessors(product) if not name.startswith("tests."))
        print(f"{len(left)} modules outside still import {product}:", *left, sep="\n  ")
        tests = {name for name, path in modules.items() if path.name.startswith("test_")}
        able = tests - networkx.ancestors(graph, product)
        print(
            f"{len(able)} of {len(tests)} test files stand without it; they do not:", *sorted(tests - able), sep="\n  "
        )
        files = sorted(name for each in able if (name := modules[each].relative_to(root).as_posix()).startswith(wanted))
        environment = os.environ | {"PYTHONPATH": str(root)}
        subprocess.run(
            [sys.executable, "-c", PROBE, str(root), f"tasks.{product}"], cwd=root, env=environment, check=True
        )
        print(f"running {len(files)} test files", flush=True)
        if not files:
            return 1
        return subprocess.run([sys.executable, "-m", "pytest", "-q", *files], cwd=root, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
