"""What the core is given of the products: nothing of them is imported for logs without benchmarks and judges."""

import os
import subprocess
import sys

from tests.builders import image_bytes
from tests.tasks.ingest.logs import DAY, chat, image_name, write

PRODUCTS = (
    "tasks.written_bench", "tasks.generated_bench", "tasks.judging", "tasks.review", "tasks.explore", "tasks.arena",
    "tasks.demo",
)  # fmt: skip
RUN = """
import sys
from pathlib import Path
from flows.curate import curate
from flows.products import problems_of
from schemas.settings import Settings

folder = Path(sys.argv[1])
made = curate(Settings(logs=str(folder / "logs"), store=str(folder / "store"), workers=1))[-1]
assert problems_of(folder / "store" / str(made.result)) == []
"""


def _products(code: str, *arguments: str) -> list[str]:
    """The products' modules that some code loads in an interpreter of its own."""
    code += '\nimport sys; print(*sorted(sys.modules), sep="\\n")'
    environment = os.environ | {"PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120"}  # on a busy machine
    command = [sys.executable, "-c", code, *arguments]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    loaded = ran.stdout.splitlines()
    assert "tasks.release.verify" in loaded
    return [name for name in loaded if f"{name}.".startswith(tuple(f"{each}." for each in PRODUCTS))]


def test_what_releases_reports_verifies_and_publishes_imports_no_product():
    stages = ("release.steps", "release.verify", "report.content", "publish.steps")
    assert _products("import " + ", ".join(f"tasks.{name}" for name in stages)) == []


def test_a_run_without_benchmarks_and_judges_loads_no_product(tmp_path):
    folder, name = tmp_path, image_name("p")
    write(folder / "logs", DAY, chat("a", images=[name]))
    (folder / "logs" / "serve_images").mkdir()
    (folder / "logs" / "serve_images" / f"{name}.png").write_bytes(image_bytes(1, (64, 64)))
    assert _products(RUN, str(folder)) == []
