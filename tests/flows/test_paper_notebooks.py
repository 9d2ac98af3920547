"""The notebooks with the paper's figures run on the demo's release, in one kernel, and say what its files say."""

import re
from pathlib import Path

import nbformat
import polars as pl
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

ROOT = Path(__file__).parents[2]
PAPER = sorted((ROOT / "notebooks").glob("0[2-5]_*.ipynb"))


@pytest.fixture(scope="module")
def shown(curated):
    """Heading -> everything that is shown below it. No name of one notebook is left for the next."""
    cells, below = [], []
    for path in PAPER:
        heading = ""
        for cell in [new_code_cell("%reset -f"), *nbformat.read(path, as_version=4).cells]:
            heading = cell.source.partition("\n")[0] if cell.cell_type == "markdown" else heading
            cells += [new_code_cell(cell.source)] if cell.cell_type == "code" else []
            below += [heading] if cell.cell_type == "code" else []
    whole = new_notebook(cells=cells)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CURATE_RELEASE", str(curated.release))
        patch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
        NotebookClient(whole, timeout=120, resources={"metadata": {"path": str(ROOT / "notebooks")}}).execute()
    outputs = [each for cell in whole.cells for each in cell.outputs]
    assert not [each for each in outputs if each.output_type == "error" or each.get("name") == "stderr"]
    texts = [
        "\n".join(str(value) for o in cell.outputs for value in o.get("data", {}).values()) for cell in whole.cells
    ]
    return {heading: text for heading, text in zip(below, texts, strict=True) if heading.startswith("## ")}


def test_every_figure_and_table_of_the_paper_is_shown_on_a_release(curated, shown):
    assert all(shown.values())
    chat = pl.read_parquet(curated.release / "chat/data/*.parquet", columns=["model", "num_turns"])
    board = pl.read_parquet(curated.release / "leaderboard/overall.parquet").filter(slice="overall")
    of = {
        re.match(r"## (\w+ \d+)", heading.replace("Figures", "Figure"))[1]: text
        for heading, text in shown.items()
        if "map" not in heading
    }
    assert f"| **this release, chat** | {chat.height:,} |" in of["Table 1"]
    assert all(
        f">{model}<" in of["Figure 14"] and f">{rows}<" in of["Figure 14"]
        for model, rows in chat["model"].value_counts().iter_rows()
    )
    assert all(f">{rows}<" in of["Figure 18"] for rows in chat["num_turns"].value_counts()["count"])
    assert all(
        f">{model}<" in of["Figure 12"] and f">{battles}<" in of["Figure 12"]
        for model, battles in board.select("model", "battles").iter_rows()
    )
    assert ">tokens<" in of["Figure 6"] and "Bradley-Terry rating" in of["Figure 2"]
    assert re.findall(r"category:(\w+)", of["Table 2"])
