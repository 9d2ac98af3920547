"""Outputs printed in docs/tutorial.md and README.md, written from a demo: `python -m tests.printed DEMO`.

In: the folder that `make demo` made. Each command of the tutorial is typed in a temporary folder, and each line that
the page shows is replaced by the most similar line of the output. Lines with `…` are shortened by hand, and stay.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path

from tests.places import ROOT

TUTORIAL, README = ROOT / "docs" / "tutorial.md", ROOT / "README.md"
BLOCK = re.compile(r"^```\n\$ (?P<command>curate [^\n]*)\n(?P<shown>.*?)^```", re.DOTALL | re.MULTILINE)
"""A command of the page with the lines that it prints."""
SERVED = ("curate view", "curate publish out/releases/1.0.1 --repo ORG/NAME --accept")
"""Beginnings of commands that serve a page, or that need the Hub."""
SUM = re.compile(r"^in \d+ = .*$", re.MULTILINE)
CURATE = [sys.executable, "-c", "from flows.commands import main; main()"]


def printed_lines(shown: Sequence[str], output: Sequence[str]) -> list[str]:
    """The lines of a page with today's numbers: each as the most similar line of `output` with the same first word.

    A line with `…` stays as it is. Raises LookupError for a line whose first word begins no line of the output.
    """
    current = []
    for line in shown:
        same_start = [other for other in output if other.split()[:1] == line.split()[:1]]
        if "…" in line or not line.strip():
            current.append(line)
            continue
        if not same_start:
            raise LookupError(f"nothing printed begins as this line of the page does: {line!r}")
        current.append(max(same_start, key=lambda other: SequenceMatcher(None, line, other).ratio()).rstrip())
    return current


def _typed(command: str, folder: Path) -> list[str]:
    """What a command prints in the folder, standard error last."""
    variables = {"PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "any"}
    ran = subprocess.run(
        [*CURATE, *shlex.split(command)[1:]], cwd=folder, capture_output=True, text=True, env=os.environ | variables
    )
    return [*ran.stdout.splitlines(), *ran.stderr.splitlines()]


def main(demo: Path) -> None:
    """Write both pages anew. Takes as long as the tutorial's commands, some minutes."""
    page = TUTORIAL.read_text(encoding="utf-8")
    total = ""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "demo").symlink_to(demo.resolve())
        (folder / "ours.yaml").write_text(page.split("```yaml\n")[1].split("```")[0], encoding="utf-8")
        for block in BLOCK.finditer(page):
            command, shown = block["command"], block["shown"]
            if command.startswith(SERVED):
                continue
            lines = printed_lines(shown.splitlines(), _typed(command, folder))
            page = page.replace(f"$ {command}\n{shown}", f"$ {command}\n" + "".join(f"{line}\n" for line in lines))
            if command == "curate run --logs demo/logs --store out":
                total = lines[-1]
    TUTORIAL.write_text(page, encoding="utf-8")
    README.write_text(SUM.sub(total, README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
