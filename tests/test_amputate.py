"""Products that are taken out of a copy of the tree: what goes with them, and which tests stand without them."""

import ast
from pathlib import Path

import networkx
import pytest

from tests.amputate import (
    GONE,
    LIST,
    ROOT,
    commands_of,
    import_graph,
    importing,
    modules_of,
    product_named,
    products_of,
    standing_on,
    take_out,
)

PRODUCTS = products_of(ROOT)
SMALL_TREE = {
    "flows/products.py": """
from tasks.judging.product import JUDGING
from tasks.written_bench.product import WRITTEN_BENCH

PRODUCTS = (
    WRITTEN_BENCH,
    JUDGING,
)
""",
    "tasks/written_bench/product.py": "WRITTEN_BENCH = 1",
    "tasks/judging/product.py": "from tasks.written_bench.product import WRITTEN_BENCH\nJUDGING = WRITTEN_BENCH",
    "tasks/core.py": "",
    "tests/test_core.py": "import tasks.core",
    "tests/test_typed.py": "def test_it(curate):\n    curate('review', 'out', 'preferences')",
    "tests/test_late.py": "def test_it():\n    from tasks.judging.product import JUDGING",
}


@pytest.fixture
def tree(tmp_path) -> Path:
    for name, text in SMALL_TREE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text.lstrip(), encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def modules():
    return {name: path for name, path in modules_of(ROOT).items() if name.startswith(("flows", "tasks", "benchmarks"))}


@pytest.mark.parametrize("product", PRODUCTS)
def test_nothing_outside_imports_a_product_or_what_stands_on_it(modules, product):
    assert importing(modules, [product, *standing_on(modules, product, PRODUCTS)]) == []


def test_products_stand_on_each_other_as_the_design_says(modules):
    above = {product: standing_on(modules, product, PRODUCTS) for product in PRODUCTS}
    assert above == {
        "written_bench": {"judging", "demo"},
        "judging": {"demo"},
        **{name: set() for name in ("generated_bench", "demo", "arena", "explore")},
    }


def test_what_stands_on_a_product_goes_with_it(tree):
    take_out(tree, ["written_bench", *standing_on(modules_of(tree), "written_bench", products_of(tree))])
    assert not any((tree / "tasks").glob("*/product.py"))
    assert "PRODUCTS = (\n)" in (tree / LIST).read_text(encoding="utf-8")


def test_a_product_that_needs_none_goes_alone(tree):
    take_out(tree, ["judging", *standing_on(modules_of(tree), "judging", products_of(tree))])
    assert products_of(tree) == ["written_bench"]
    ast.parse((tree / LIST).read_text(encoding="utf-8"))


def test_a_test_that_imports_a_product_late_or_types_its_commands_does_not_stand(tree):
    take_out(tree, ["judging"])
    graph = import_graph(modules_of(tree), ["judging"])
    tests = {name for name in graph if name.startswith("tests.test_")}
    assert tests & networkx.ancestors(graph, GONE) == {"tests.test_typed", "tests.test_late"}


def test_commands_are_those_that_people_type():
    assert commands_of(["written_bench"]) == {"bench collect", "bench write", "review items"}
    assert "judge" in commands_of(["judging"])


def test_a_number_names_the_product_at_its_place_in_a_circle():
    assert [product_named(str(number), ["a", "b"]) for number in (0, 1, 2)] == ["a", "b", "a"]


def test_an_unknown_product_is_one_line():
    with pytest.raises(SystemExit, match="lists no product 'arena2'; there are a, b"):
        product_named("arena2", ["a", "b"])
