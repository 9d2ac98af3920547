"""Changes a release on disk and updates its checksums, as someone who hides a change would."""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.release import Manifest
from tasks.providers.embedded_figures import stated
from tasks.release.build import DATA, released_files, seal
from tasks.release.checks.card import DATA_PAGE_SINCE, wrong_sections
from tasks.release.contents import declared_columns, schema_of_layout
from tasks.release.core_parts import CORE_PARTS
from tasks.release.dataset_card import card_sections, front_matter, split_card
from tasks.release.registered import RELEASED_TABLES, ReleasePart, stated_files
from tasks.release.shards import RELEASE_LAYOUT, feature_schema, features_of
from tasks.release.verify import LANGUAGES_SINCE
from tests.small_store import manifest_of

CHAT = "chat/data/train-00000-of-00001.parquet"
BATTLE = "battle/data/train-00000-of-00001.parquet"
BENCH = "bench/data/train-00000-of-00001.parquet"
FAILURES = "failures/data/train-00000-of-00001.parquet"
Rows = list[dict[str, Any]]


def write_manifest(release: Path, restate: bool = True, **changes: object) -> None:
    """Change values of the manifest and update its seal; with `restate`, also the files that say what it says."""
    changed = manifest_of(release) | changes
    if restate:
        restated(release, changed)
    (release / "manifest.json").write_text(json.dumps(changed | {"seal": seal(changed)}))


def restated(release: Path, changed: dict[str, Any]) -> None:
    """Write the files that say what the manifest says, where they are there and the manifest can be read."""
    with suppress(ValueError, KeyError, TypeError):
        manifest = Manifest.model_validate({**changed, "seal": None})
        for file in stated_files(CORE_PARTS):
            path = release / file.path
            if path.is_file() and file.path in changed["files"]:
                path.write_text(file.text(manifest), encoding="utf-8")
                content = path.read_bytes()
                changed["files"][file.path] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def reseal(release: Path, restate: bool = True) -> None:
    """Update the checksums of all files."""
    write_manifest(release, restate, files={name: file.model_dump() for name, file in released_files(release).items()})


def rewrite(release: Path, shard: str, change: Callable[[Rows], Rows]) -> None:
    """Replace the rows of a shard by `change(rows)`."""
    schema = pq.read_schema(release / shard)
    rows = change(pq.read_table(release / shard).to_pylist())
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), release / shard)
    reseal(release)


def as_of_layout(release: Path, layout: int) -> None:
    """Make manifest, shards and card those of an earlier layout: without tables, columns and fields that came later."""
    declared = {table: [column.model_dump() for column in own] for table, own in declared_columns(layout).items()}
    for path in release.glob("*/data/*.parquet"):
        older = schema_of_layout(path.relative_to(release).parts[0], layout)
        rows = [{name: row[name] for name in older.names} for row in pq.read_table(path).to_pylist()]
        pq.write_table(pa.Table.from_pylist(rows, feature_schema(features_of(older))), path)
    later = {
        path.partition(".")[2]
        for table in RELEASED_TABLES.values()
        for path, since in table.later.items()
        if since > layout
    }
    card, page = release / "README.md", release / DATA
    if layout < DATA_PAGE_SINCE and page.exists():  # their cards held what this page does
        _, heading, chapters = page.read_text("utf-8").partition("## Columns\n")
        card.write_text(f"{card.read_text('utf-8')}\n{heading}{chapters}", "utf-8")
    lines = card.read_text(encoding="utf-8").splitlines(keepends=True)
    card.write_text("".join(line for line in lines if line.partition(" |")[0].removeprefix("| ") not in later), "utf-8")
    for file in stated_files(CORE_PARTS):
        if file.since_layout > layout:
            (release / file.path).unlink(missing_ok=True)
    if layout < LANGUAGES_SINCE:
        text = card.read_text(encoding="utf-8")
        about, rest = split_card(text)
        about.pop("language", None)
        card.write_text(front_matter(about) + rest, encoding="utf-8")
        write_manifest(release, languages={})
    reseal(release)
    write_manifest(release, columns=declared, layout=layout)


def state_rows(release: Path, config: str, rows: int) -> None:
    """Let the manifest say how many rows a configuration has."""
    write_manifest(release, counts=manifest_of(release)["counts"] | {config: rows})


def change_row(release: Path, shard: str, **columns: object) -> None:
    """Change values in the first row of a shard."""
    rewrite(release, shard, lambda rows: [rows[0] | columns, *rows[1:]])


def add_file(release: Path, name: str, content: bytes = b"unexpected") -> None:
    """Add a file, or replace its content."""
    (release / name).parent.mkdir(parents=True, exist_ok=True)
    (release / name).write_bytes(content)
    reseal(release)


def section_problems(
    release: Path, prompts: int, parts: Sequence[ReleasePart], layout: int = RELEASE_LAYOUT
) -> list[str]:
    """Problems of the card's sections of some parts."""
    card = (release / "README.md").read_text(encoding="utf-8")
    return list(wrong_sections(card, card_sections(release, prompts, parts), parts, layout))


MEASURED = ", what the embedded models were measured to find,"
"""Words of the card about DATA.md, which says it."""


def as_production(release: Path) -> None:
    """Change manifest, card and report so that they name production providers."""
    write_manifest(release, embedded_providers=[], embedded_figures={}, limited_tags={})
    card = (release / "README.md").read_text(encoding="utf-8")
    begin, end = card.index("> **Built with embedded"), card.index("Version ")
    card = card[:begin] + card[end:]
    (release / "README.md").write_text(card.replace(MEASURED, ""), encoding="utf-8")
    report = release / "report" / "index.html"
    if report.is_file():
        page = report.read_text(encoding="utf-8")
        page = re.sub(r'<p class="note warn">Not for publishing.*?</p>\n', "", page)
        page = re.sub(r'(<tr><th>Does a stand-in measure anything\?</th><td class="n">)\d+<', r"\g<1>0<", page)
        report.write_text(page, encoding="utf-8")
    reseal(release)


def stood_in_by(release: Path, names: Sequence[str], measured: bool = True) -> None:
    """Change manifest and card of a release without stand-ins so that these are its own; `measured`: with figures."""
    figures = {name: [line.model_dump() for line in stated(name)] for name in names} if measured else {}
    write_manifest(release, embedded_providers=list(names), embedded_figures=figures)
    accepted = "It is published only if each is accepted by name\n> (`curate publish --accept-embedded`)."
    accepted += " What they were measured to find stands in DATA.md." if measured else ""
    notice = f"> **Built with embedded stand-ins** ({', '.join(names)}). {accepted}"
    card_says(release, "Version 1.0.0 of", f"{notice}\n\nVersion 1.0.0 of")
    if measured:
        card_says(release, "has every column and", f"has every column{MEASURED} and")


def card_says(release: Path, old: str, new: str) -> None:
    """Replace `old`, which occurs once, in the card."""
    card = release / "README.md"
    text = card.read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    card.write_text(text.replace(old, new), encoding="utf-8")
    reseal(release)
