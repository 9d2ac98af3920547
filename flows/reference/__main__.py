"""Writes the generated pages: `python -m flows.reference`; with `--check` it only names those that are out of date."""

import sys
from pathlib import Path

from flows.reference.pages import measured_figures, reference_commands, reference_data

ROOT = Path(__file__).parents[2]
PAGES = {
    "docs/reference-commands.md": reference_commands,
    "docs/reference-data.md": reference_data,
    "benchmarks/README.md": measured_figures,
}

if __name__ == "__main__":
    stale = []
    for name, text in ((ROOT / page, made()) for page, made in PAGES.items()):
        if not name.exists() or name.read_text(encoding="utf-8") != text:
            stale.append(name.name)
            if "--check" not in sys.argv:
                name.write_text(text, encoding="utf-8")
    if stale and "--check" in sys.argv:
        sys.exit(f"out of date: {', '.join(stale)}; run `make docs`")
