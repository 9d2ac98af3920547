"""Writes the generated pages: `python -m flows.reference`; with `--check` it only names those that are out of date.

Both refuse a figure of an embedded model that has no material, in the file of figures or on a page that people write.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from flows.reference.pages import measured_figures, reference_commands, reference_data

ROOT = Path(__file__).parents[2]
PAGES = {
    "docs/reference-commands.md": reference_commands,
    "docs/reference-data.md": reference_data,
    "benchmarks/README.md": measured_figures,
}

SHARE_PATTERN = re.compile(r"\d\.\d+ \[\d\.\d+, \d\.\d+\]|\b(?:precision|recall)\b[^.|]{0,20}\d\.\d", re.IGNORECASE)
"""A share with its interval, or a number behind precision or recall."""


def figures_without_material(root: Path) -> Iterator[str]:
    """Figures of detectors on pages and cards that people write: only generated tables have their material beside."""
    pages = [root / "README.md", *sorted(root.glob("docs/*.md")), *sorted(root.glob("flows/reference/*.md"))]
    for page in (*pages, *sorted(root.glob("tasks/**/*card.md"))):
        if page.relative_to(root).as_posix() not in PAGES:
            yield from (
                f"{page.name}: {hit.group()}" for hit in SHARE_PATTERN.finditer(page.read_text(encoding="utf-8"))
            )


if __name__ == "__main__":
    if loose := list(figures_without_material(ROOT)):
        sys.exit(f"figures without their material, which are for embedded_figures.yaml: {'; '.join(loose)}")
    stale = []
    for name, text in ((ROOT / page, made()) for page, made in PAGES.items()):
        if not name.exists() or name.read_text(encoding="utf-8") != text:
            stale.append(name.name)
            if "--check" not in sys.argv:
                name.write_text(text, encoding="utf-8")
    if stale and "--check" in sys.argv:
        sys.exit(f"out of date: {', '.join(stale)}; run `make docs`")
