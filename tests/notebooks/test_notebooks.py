"""Notebooks of a store, and examples of docs/extending.md and python.md, run in a kernel; none has outputs."""

import ast
import os
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tasks.storage.records import funnel
from tests.builders import USER_KEY, image_bytes
from tests.small_store import HOSTILE_PROMPT, make_release, small_store
from tests.tasks.ingest.logs import DAY, chat, write

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
OF_A_STORE = [NOTEBOOKS[0], NOTEBOOKS[5]]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    made = small_store(tmp_path_factory.mktemp("notebooks"))
    make_release(made, release="1.0.0")
    return made


@pytest.fixture(scope="module")
def executed(store):
    """Notebook name -> the notebook with its outputs, run where Jupyter runs it."""
    done = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CURATE_STORE", store.root)
        patch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
        for path in OF_A_STORE:
            notebook = nbformat.read(path, as_version=4)
            NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(FOLDER)}}).execute()
            done[path.name] = notebook
    return done


def _outputs(notebook):
    """Everything that is shown, as text."""
    shown = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            shown += [output.get("text", ""), *map(str, output.get("data", {}).values())]
    return "\n".join(shown)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_without_outputs_and_defines_no_functions(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert cells
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells)
    nodes = [node for cell in cells for node in ast.walk(ast.parse(cell.source))]
    assert not [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda)]


@pytest.mark.parametrize("path", OF_A_STORE, ids=lambda path: path.stem)
def test_a_notebook_runs_to_its_end_and_every_section_shows_something(executed, path):
    cells = [cell for cell in executed[path.name].cells if cell.cell_type == "code"]
    assert all(cell.outputs for cell in cells[1:])  # the first one opens the store
    assert not [o for cell in cells for o in cell.outputs if o.output_type == "error" or o.get("name") == "stderr"]


@pytest.mark.parametrize("path", OF_A_STORE, ids=lambda path: path.stem)
def test_no_notebook_shows_a_message_of_a_user(executed, path):
    shown = _outputs(executed[path.name])
    assert HOSTILE_PROMPT not in shown
    assert "What is in picture" not in shown


def test_what_was_dropped_shows_the_funnel_a_figure_and_an_example_for_each_reason(executed, store):
    gone = funnel(store)
    shown = _outputs(executed["01_what_was_dropped.ipynb"])
    assert f"in {gone.lines} = kept {gone.kept} + dropped {gone.dropped} + rejected {gone.rejected}" in shown
    assert any(
        "image/png" in o.get("data", {})
        for c in executed["01_what_was_dropped.ipynb"].cells
        for o in c.get("outputs", [])
    )
    for reason in {**gone.dropped_by, **gone.rejected_by}:
        assert reason in shown
    for line in (50, 51, 52, 199, 500, 600, 602):  # one example for each of the seven reasons
        assert f"2024-09-18-conv.json:{line}" in shown


def test_what_can_be_asked_shows_tables_reasons_an_account_and_a_board(executed, store):
    shown = _outputs(executed["06_what_can_be_asked.ipynb"])
    for text in ("line_outcomes", "pii_text", "dropped by policy public_release", "vicuna-13b", "withheld_for_bench"):
        assert text in shown, text


ROOT = Path(__file__).parents[2]
_, _, _FROM_PYTHON = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8").partition("\n## From Python\n")
PAGE = _FROM_PYTHON.partition("\n## ")[0]
CHECKS = """
assert set(dropped_by["reasons"]) == {"face", "pii_text", "duplicate", "same_model"}
assert faces.columns == ["content_id", "confidence_max"] and faces.height > 0
kept = decisions.filter("keep", item_kind="conversation")["item_id"]
of_wanted = store.read("conversations").filter(
    pl.col("conversation_id").is_in(kept.implode()), pl.col("model").is_in(wanted["model"].implode())
)
assert kept_by_model["conversations"].sum() == len(kept)
assert characters == sum(len(turn["content"]) for turns in of_wanted["turns"] for turn in turns) > 0
assert dict(board.select("model", "rank").iter_rows()) == {"a": 1, "b": 1}
assert board.filter(model="b")["rating"].item() == 1100
assert chat.height > 0 and chart.svg.startswith("<svg") and ">German<" in chart.svg
assert {"overall", "language:English"} <= {row.slice for row in ranks}
assert (len(hashes.phash), personal.types) == (16, ["email"])
assert [report.stage for report in reports][-1] == "decide"
assert reports[-1].counts["conversations"] + reports[-1].counts["battles"] == decisions.height
assert battles_rated >= 0 and store.read("ratings").height >= battles_rated
"""


def test_every_example_runs_in_a_notebook_without_a_server(tmp_path, monkeypatch):
    store = small_store(tmp_path)
    (tmp_path / "image.png").write_bytes(image_bytes(1, (32, 24)))
    make_release(store, reported=True, release="1.0.0")
    page = PAGE.replace("path/to/store", store.root).replace("path/to/release", f"{store.root}/releases/1.0.0")
    page = page.replace("path/to/image.png", str(tmp_path / "image.png"))
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == PAGE.count("```python") >= 5
    _run_in_a_kernel([*blocks, CHECKS], tmp_path, monkeypatch)


PYTHON_PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
PYTHON_CHECKS = """
assert votes["votes"].sum() == release.manifest.counts["battle"] and texts.height == 20
assert board.filter(model="b")["rating"].item() == 1100
assert {"overall", "language:English"} <= {*by_language["slice"]} and records.height > 0
assert reports[-1].stage == "release" and arena_curation.verify(new_release) == []
"""


def test_every_example_of_the_public_module_runs_in_a_notebook(tmp_path, monkeypatch):
    store = small_store(tmp_path)
    (tmp_path / "image.png").write_bytes(image_bytes(1, (32, 24)))
    make_release(store, reported=True, release="1.0.0")
    write(tmp_path / "logs", DAY, chat("one"))
    page = PYTHON_PAGE.replace("path/to/store", store.root).replace("path/to/release", f"{store.root}/releases/1.0.0")
    blocks = re.findall(r"```python\n(.*?)```", page.replace("path/to/", f"{tmp_path}/"), re.DOTALL)
    assert len(blocks) == PYTHON_PAGE.count("```python") >= 5
    monkeypatch.setenv("CURATE_USER_KEY", USER_KEY)
    _run_in_a_kernel([*blocks, PYTHON_CHECKS], tmp_path, monkeypatch)


def _run_in_a_kernel(blocks, tmp_path, monkeypatch):
    """Run code where Jupyter runs it, without a Prefect server."""
    for name in [name for name in os.environ if name.startswith("PREFECT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    monkeypatch.setenv("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "120")  # on a busy machine
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in blocks])
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(ROOT)}}).execute()
