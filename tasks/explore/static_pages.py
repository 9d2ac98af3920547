"""Writes a release's pages as files that any web host serves and that open from a disk without a server."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from schemas.errors import BadInput
from tasks.explore import topic_map
from tasks.explore.facets import Query
from tasks.explore.listing import FACETS, NO_TOPIC
from tasks.explore.pages import ASSETS, Links, Pages
from tasks.images.small import media_type, thumb
from tasks.leaderboard.shown_boards import slices
from tasks.look import POLICY
from tasks.runtime.untrusted import one_line
from tasks.shown import Comparison, Source

STATIC_ROWS_MAX = 5_000
_SEARCHED_CHARACTERS = 4_000
"""Characters of prompt and answers that the search of static pages looks at."""
_NAME_CHARACTERS = 80
_META_POLICY = POLICY.replace("; frame-ancestors 'none'", "").replace("form-action 'self'", "form-action 'none'")
"""A policy in a meta element cannot speak of frames."""


def static_links(root: str, endings: dict[str, str], boards: list[str]) -> Links:
    """Addresses in a folder, to which `root` leads from a page. Boards are numbered: slices may be named anything.

    A script reads the filter behind the # of listing and map.
    """

    def filtered(name: str, query: Query | None) -> str:
        encoded = query.encoded() if query else ""
        return f"{root}{name}" + (f"#{encoded}" if encoded else "")

    return Links(
        policy=_META_POLICY,
        opens=False,
        whole=False,
        rows="data/rows.js",
        browse=lambda query=None: filtered("index.html", query),
        map=lambda query=None: filtered("topics.html", query),
        item=lambda key: f"{root}items/{key}.html",
        opening=lambda key: "",
        image=lambda image_id, opened: f"{root}images/{image_id}{endings.get(image_id, '')}",
        thumb=lambda image_id: f"{root}thumbs/{image_id}.webp",
        boards=lambda name="": f"{root}boards-{boards.index(name) if name in boards else 0}.html",
        board_of=lambda query: "",
        ids=lambda query: "",
        sql=lambda question: "",
        asset=lambda name: f"{root}static/{name}",
        points=lambda query: f"{root}data/points.js",
        piece=f"{root}data/piece-{{}}.js",
        dropped="",
        compare=f"{root}compare.html",
    )


def export_pages(source: Source, folder: Path, rows_max: int, comparison: Comparison | None) -> int:
    """Write the pages of a release to a new or empty folder; returns the number of items.

    The folder appears whole or not at all. Raises BadInput when it holds something, or the source is a store.
    """
    if source.private:
        raise BadInput("--export: a store is private; export a release of it")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"--export {str(folder)!r} exists and is not an empty folder; name a new one")
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        rows = _write(source, staging, rows_max, comparison)
        staging.chmod(0o755)
        staging.replace(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return rows


def sampled(listing: pl.DataFrame, rows_max: int) -> pl.DataFrame:
    """At most `rows_max` rows, evenly over topics: of each topic the same number while it has as many, by hash."""
    if listing.height <= rows_max:
        return listing
    topic = pl.col("topic").cast(pl.String).fill_null(NO_TOPIC)
    order = (
        listing.select("key", topic=topic)
        .with_row_index("row")
        .with_columns(turn=pl.col("key").rank("ordinal").over("topic"))
    )
    chosen = order.sort("turn", "topic").head(rows_max)["row"].sort()
    return listing[chosen]


def _write(source: Source, folder: Path, rows_max: int, comparison: Comparison | None) -> int:
    for name in ("items", "images", "thumbs", "data", "static"):
        (folder / name).mkdir()
    for name, path in ASSETS.items():
        shutil.copyfile(path, folder / "static" / name)
    rows = sampled(source.listing, rows_max)
    endings = dict(_images(source, rows, folder))
    boards = slices(source.boards())
    links = static_links("", endings, boards)
    pages = Pages(source, links, comparison, rows)
    named = {"index.html": pages.browse(Query()), "topics.html": pages.map(Query()), "compare.html": pages.compare()}
    named |= {f"boards-{number}.html": pages.boards(name) for number, name in enumerate(boards or [""])}
    points = topic_map.on_map(rows)
    named["data/rows.js"] = rows_script(rows, links)
    named["data/points.js"] = pages.points(Query())
    pieces = range(-(-points.height // topic_map.PIECE_ROWS))
    named |= {f"data/piece-{number}.js": pages.piece(number) for number in pieces}
    below = Pages(source, static_links("../", endings, boards), comparison, rows)
    named |= {f"items/{key}.html": below.item(key, opened=False, whole=False) for key in rows["key"]}
    for name, text in named.items():
        if text is not None:
            (folder / name).write_text(text, encoding="utf-8", errors="replace")
    return rows.height


def _images(source: Source, rows: pl.DataFrame, folder: Path) -> Iterator[tuple[str, str]]:
    """Write every image and its small copy; yields (image id, ending)."""
    for image_id in rows["image_ids"].explode().drop_nulls().unique(maintain_order=True):
        content = source.image(image_id)
        small = content and thumb(content)
        if content and small:
            ending = ".png" if media_type(content) == "image/png" else ".jpeg"
            (folder / "images" / f"{image_id}{ending}").write_bytes(content)
            (folder / "thumbs" / f"{image_id}.webp").write_bytes(small)
            yield image_id, ending


def rows_script(rows: pl.DataFrame, links: Links) -> str:
    """A script that calls `exploreRows` with what cards, facets and the search need."""
    facets = []
    for facet in FACETS:
        values = rows[facet.column].cast(pl.List(pl.String) if facet.many else pl.String).to_list()
        values_by_row = values if facet.many else [[] if value is None else [value] for value in values]
        # the values of the facet, in the order in which rows first have them, each with its number
        place_of_value = {
            value: place
            for place, value in enumerate(
                dict.fromkeys(facet_value for row_values in values_by_row for facet_value in row_values)
            )
        }
        if place_of_value:
            facets.append(
                {
                    "name": facet.name,
                    "title": facet.title,
                    "values": list(place_of_value),
                    "rows": [[place_of_value[value] for value in row_values] for row_values in values_by_row],
                }
            )
    cards = [
        [
            row["snippet"] or "",
            links.item(row["key"]),
            links.thumb(row["image_ids"][0]) if row["image_ids"] else "",
            [one_line(model, _NAME_CHARACTERS) for model in row["models"]],
            row["vote"] or "",
            row["x"] is not None and row["y"] is not None,
            (row["searched"] or "")[:_SEARCHED_CHARACTERS],
            row["x"],
            row["y"],
        ]
        for row in rows.select("snippet", "key", "image_ids", "models", "vote", "x", "y", "searched").iter_rows(
            named=True
        )
    ]
    data = json.dumps({"facets": facets, "cards": cards}, separators=(",", ":")).replace("<", "\\u003c")
    return f"exploreRows({data});\n"
