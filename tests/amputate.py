"""Takes a product out of a copy of the tree and runs what stands: `python -m tests.amputate PRODUCT [TESTS]`.

With it go the products that stand on it: those that import it, and those that import these. Gone are their folders,
their tests and their lines in `flows/products.py`. Every test file runs that imports nothing of them, in whatever
depth and also late, and types none of their commands; but the one about pages, which speak of every product. `TESTS`:
only those whose path begins so. A module outside that still imports them ends it: a product is deleted by its folders
and its line alone. `PRODUCT` may be a number, such as that of commits: the product at this place, counted in a circle.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import networkx

from flows.commands.listed import typed_name
from tasks.product import Product
from tests.places import DATA

ROOT = Path(__file__).parents[1]
FOLDERS = ("tasks", "flows", "benchmarks", "tests.tasks")
"""Packages in which a product has a folder."""
LIST = Path("flows/products.py")
GONE = "what is taken out"
"""Node of the graph of imports that stands for all modules of the products that are taken out."""
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


def kept_as_repository(root: Path) -> None:
    """Make the copy a repository with one commit: some tests clone it or list its files."""
    who = ("-c", "user.name=amputate", "-c", "user.email=amputate@localhost")
    for command in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "A copy without a product"]):
        subprocess.run(["git", *command], cwd=root, check=True)


def products_of(root: Path) -> list[str]:
    """The products of the list in `flows/products.py`, in the order of its imports."""
    return re.findall(r"^from tasks\.(\w+)\.product import ", (root / LIST).read_text(encoding="utf-8"), re.MULTILINE)


def product_named(word: str, products: Sequence[str]) -> str:
    """The product of a name, or at a number. Ends the program for an unknown name."""
    if word.isdecimal():
        return products[int(word) % len(products)]
    if word not in products:
        raise SystemExit(f"{LIST} lists no product {word!r}; there are {', '.join(products)}")
    return word


def standing_on(modules: Mapping[str, Path], product: str, products: Iterable[str]) -> set[str]:
    """The products that import this one, or one that does; their tests do not count."""
    graph: networkx.DiGraph[str] = networkx.DiGraph()
    graph.add_node(product)
    for other in products:
        importers = importing(modules, [other])
        folders = {each: tuple(f"{folder}.{each}." for folder in FOLDERS[:-1]) for each in products}
        of_products = (each for each in products for name in importers if f"{name}.".startswith(folders[each]))
        graph.add_edges_from((each, other) for each in of_products)
    return set(networkx.ancestors(graph, product)) - {product}


def importing(modules: Mapping[str, Path], products: Iterable[str]) -> list[str]:
    """The modules that import one of the products, in no folder of theirs; the list of products and tests apart."""
    inside = tuple(f"{folder}.{each}." for folder in FOLDERS for each in products)
    found = []
    for name, path in modules.items():
        if f"{name}.".startswith((*inside, "tests.", "flows.products.")):
            continue
        text = path.read_text(encoding="utf-8")
        # parsing is slow: only where the text has the name of a folder at all
        if any(word.removesuffix(".").rpartition(".")[2] in text for word in inside):
            imports = _named([ast.parse(text)])
            if any(f"{each}.".startswith(inside) for each in imports):
                found.append(name)
    return sorted(found)


def take_out(root: Path, products: Iterable[str]) -> None:
    """Delete the products' folders and their lines in the list, with their imports."""
    file = root / LIST
    text = file.read_text(encoding="utf-8")
    for product in products:
        for folder in FOLDERS:
            shutil.rmtree(root / folder.replace(".", "/") / product, ignore_errors=True)
        imported = re.compile(rf"^from tasks\.{product}\.product import (\w+)\n", re.MULTILINE)
        names = imported.findall(text)
        text = re.sub(rf"^    ({'|'.join(names)}),\n", "", imported.sub("", text), flags=re.MULTILINE)
    file.write_text(text, encoding="utf-8")


def modules_of(root: Path) -> dict[str, Path]:
    """Name of a module -> its file."""
    files = {path.relative_to(root): path for path in root.rglob("*.py") if ".venv" not in path.parts}
    return {".".join(name.with_suffix("").parts).removesuffix(".__init__"): path for name, path in files.items()}


def commands_of(products: Iterable[str]) -> set[str]:
    """What people type to reach the products: `view`, `judge`, `bench write`, and `review items` for a kind."""
    names = {each: import_module(f"tasks.{each}.product").__dict__.values() for each in products}
    phrases = set[str]()
    for product in (each for values in names.values() for each in values if isinstance(each, Product)):
        for added in import_module(product.commands).COMMANDS if product.commands else ():
            group = "" if added.to[0].isupper() else f"{added.to} "  # a heading of the help is not typed
            phrases.add(f"{group}{typed_name(added.listed)}")
        phrases |= {f"review {kind}" for kind in (import_module(product.kinds).KINDS if product.kinds else ())}
    return phrases


def _typed(node: ast.AST) -> set[str]:
    """Beginnings of what may be a command: the first word, and that with the second or the third.

    It may be a list or a tuple, or arguments of the fixtures `curate` and `refused`.
    """
    values: list[ast.expr] = node.elts if isinstance(node, ast.List | ast.Tuple) else []
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("curate", "refused"):
        values = node.args
    words = [each.value if isinstance(each, ast.Constant) else None for each in values[:3]]
    if not words or not isinstance(words[0], str):
        return set()
    alone = set() if isinstance(node, ast.Tuple) else {words[0]}
    return alone | {f"{words[0]} {word}" for word in words[1:] if isinstance(word, str)}


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


def import_graph(modules: Mapping[str, Path], products: Iterable[str]) -> "networkx.DiGraph[str]":
    """Edges from a module to each one that it imports, to its packages and, from a test, to the fixtures that it names.

    All modules of the products are the one node `GONE`; tests that type one of their commands lead there, too.
    """
    gone, commands = tuple(f"{folder}.{each}." for folder in FOLDERS for each in products), commands_of(products)
    pieces = {name: _pieces(name, path.read_text(encoding="utf-8")) for name, path in modules.items()}
    graph: networkx.DiGraph[str] = networkx.DiGraph()
    graph.add_edge(ON_PAGES, GONE)
    for module, own in pieces.items():
        above = [module.rsplit(".", depth)[0] for depth in range(1, module.count(".") + 1)]
        by_pytest = module.rpartition(".")[2].startswith(("test_", "conftest"))
        fixtures = [fixture for each in above if by_pytest for fixture in pieces.get(f"{each}.conftest", ())]
        for name, nodes in own.items():
            words = {word for node in nodes for each in ast.walk(node) for word in _words(each, module)}
            named = {*_named(nodes), *above, module}
            used = {fixture for fixture in fixtures if fixture in modules or fixture.rpartition(".")[2] in words}
            graph.add_edges_from((name, each) for each in (named & modules.keys() | used) - {name})
            graph.add_edges_from((name, GONE) for each in named if f"{each}.".startswith(gone))
            if by_pytest and any(_typed(each) & commands for node in nodes for each in ast.walk(node)):
                graph.add_edge(name, GONE)
    return graph


def main(word: str, wanted: str = "tests") -> int:
    """Take out, print, run; returns the status of pytest, or 1 where a module outside still imports what is gone."""
    product = product_named(word, listed := products_of(ROOT))
    with TemporaryDirectory(prefix="without_") as folder:
        root = Path(folder).resolve()
        copied(root)
        products = [product, *sorted(standing_on(modules_of(root), product, listed))]
        print(f"taking out {product}" + f", and what stands on it: {', '.join(products[1:])}" * (len(products) > 1))
        take_out(root, products)
        kept_as_repository(root)
        modules = modules_of(root)
        left = importing(modules, products)
        print(f"{len(left)} modules outside still import it:", *left, sep="\n  ")
        tests = {name for name, path in modules.items() if path.name.startswith("test_")}
        able = tests - networkx.ancestors(import_graph(modules, products), GONE)
        print(
            f"{len(able)} of {len(tests)} test files stand without it; they do not:", *sorted(tests - able), sep="\n  "
        )
        files = sorted(name for each in able if (name := modules[each].relative_to(root).as_posix()).startswith(wanted))
        # the copy stands elsewhere, and real data is beside the tree
        environment = (
            os.environ | {"PYTHONPATH": str(root)} | ({"CURATE_TEST_DATA": str(DATA)} if DATA.is_dir() else {})
        )
        subprocess.run(
            [sys.executable, "-c", PROBE, str(root), f"tasks.{product}"], cwd=root, env=environment, check=True
        )
        print(f"running {len(files)} test files", flush=True)
        if left or not files:
            return 1
        command = [sys.executable, "-m", "pytest", "-q", "-n", "3", "--durations=25", *files]
        return subprocess.run(command, cwd=root, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
