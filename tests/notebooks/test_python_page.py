"""The examples of docs/extending.md run in a Jupyter kernel, where no Prefect server runs."""

import os
import re
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from tests.builders import image_bytes
from tests.small_store import make_release, small_store

ROOT = Path(__file__).parents[2]
_, _, _FROM_PYTHON = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8").partition("\n## From Python\n")
PAGE = _FROM_PYTHON.partition("\n## ")[0]
CHECKS = """
assert set(dropped_by["reasons"]) == {"face", "pii_text", "duplicate", "same_model"}
assert faces.columns == ["content_id", "confidence_max"] and faces.height > 0
assert dict(board.select("model", "rank").iter_rows()) == {"a": 1, "b": 1}
assert board.filter(model="b")["rating"].item() == 1100
assert chat.height > 0 and chart.startswith("<svg") and ">German<" in chart
assert {"overall", "language:English"} <= {row.slice for row in ranks}
assert (len(hashes.phash), personal.types) == (16, ["email"])
assert [report.stage for report in reports][-1] == "decide" and reports[-1].counts["items"] == decisions.height
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
    for name in [name for name in os.environ if name.startswith("PREFECT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    monkeypatch.setenv("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "120")  # on a busy machine
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in [*blocks, CHECKS]])
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(ROOT)}}).execute()
