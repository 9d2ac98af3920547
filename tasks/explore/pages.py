"""Renders pages with Jinja2. Everything is escaped; no page has inline script or style, so a strict policy can hold."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import polars as pl

from schemas.benches.judging import JudgeRating
from schemas.items.review import Stretch
from tasks.explore import topic_map
from tasks.explore.facets import Query, find, matching
from tasks.explore.listing import FACETS, KIND
from tasks.explore.summaries import MODELS_MAX, dropped, pair_counts
from tasks.images.small import thumb
from tasks.leaderboard.shown_boards import OVERALL, grouped, moved_models, shown_board, slices
from tasks.look import LINKED, LOOK
from tasks.runtime.untrusted import one_file, one_line
from tasks.shown import BATTLE, CONVERSATION, FAILURE, PROMPT, Comparison, Source, item_key, rounds
from tasks.storage.queries.bench import RANK_RULE, checked_votes, contests

_STATIC = Path(__file__).with_name("static")
_EXPORTED = ("explore.js", "static.js", "map.js", "deck.gl-9.1.15.min.js", "deck.gl-LICENSE")
ASSETS = LINKED | {name: _STATIC / name for name in _EXPORTED}
"""The only files that are exported as they are."""
SERVED = ASSETS | {"review.js": _STATIC / "review.js"}
"""The only files that are served as they are."""
DECK = "deck.gl-9.1.15.min.js"
LONG_CHARACTERS = 20_000
_ROOT = Path(__file__).with_name("pages")
_VOTES = {"model_a": "left preferred", "model_b": "right preferred", "tie": "tie", "tie_bothbad": "both bad"}
_KINDS = {"chat": CONVERSATION, "battle": BATTLE, "bench": PROMPT, "failures": FAILURE}


@dataclass(frozen=True, kw_only=True)
class Links:
    """Addresses of pages and files, on a server or in a folder."""

    policy: str
    """Content policy for a meta element; empty where a server sends it as a header."""
    opens: bool
    """Whether masked content can be asked for."""
    whole: bool
    """Whether a page with the whole of a long message exists."""
    rows: str
    """The script with all rows, for pages that are filtered without a server; else empty."""
    browse: Callable[..., str]
    """The listing, of all rows or of a query."""
    map: Callable[..., str]
    """The topic map, of all rows or of a query."""
    item: Callable[[str], str]
    """An item, by its key."""
    opening: Callable[[str], str]
    """The address at which to ask for the masked content of an item."""
    image: Callable[[str, bool], str]
    """An image; its address differs once it is opened, so that no browser shows the blurred one again."""
    thumb: Callable[[str], str]
    """A small image."""
    boards: Callable[..., str]
    """A leaderboard, the overall one or that of a slice."""
    asset: Callable[[str], str]
    """A style sheet or script."""
    points: Callable[[Query], str]
    """The script with the places of the map."""
    piece: str
    """The script with prompts of some rows of the map; {} is its number."""
    dropped: str
    """The page of reasons for dropping; empty where there is none."""
    compare: str
    """The comparison with an earlier release."""


class Pages:
    """The pages of a source, with the addresses of `links`."""

    def __init__(
        self, source: Source, links: Links, comparison: Comparison | None = None, sample: pl.DataFrame | None = None
    ) -> None:
        """`sample`: rows of the listing that are shown in place of all; boards still count all votes."""
        self._source, self._links, self._comparison, self._sample = source, links, comparison, sample
        self.opened = 0
        """Number of times that masked content was asked for."""
        self.more_tabs: list[tuple[str, str]] = []
        """(name, address) of pages that others add to the server."""

    @property
    def listing(self) -> pl.DataFrame:
        """The rows that are shown."""
        return self._source.listing if self._sample is None else self._sample

    def _rows(self, query: Query) -> pl.DataFrame:
        """The same, to look for the rows of a query."""
        return self._source.searchable if query.search and self._sample is None else self.listing

    def browse(self, query: Query) -> str:
        """Facets, search and cards."""
        found = find(self._rows(query), query)
        return self._page("browse.html", "Browse", found=found, query=query, rows=found.rows.to_dicts())

    def item(self, key: str, opened: bool, whole: bool) -> str | None:
        """One item; None for a key that no item has."""
        item = self._source.item(key, opened)
        if item is None:
            return None
        row = self.listing.row(by_predicate=pl.col("key") == key, named=True)
        return self._page("item.html", "", item=item, opened=opened, whole=whole, outcome=row["outcome"])

    def map(self, query: Query) -> str:
        """The topic map, facets, and a table of topics."""
        points = topic_map.on_map(self._rows(query))
        found = find(points, query.but(page=1))
        of_kinds = query.cleared().but(chosen={name: query.chosen[name] for name in query.chosen if name == KIND.name})
        placed = points.filter(matching(points, of_kinds))
        return self._page(
            "map.html", "Topics", found=found, query=query, topics=topic_map.map_topics(placed), placed=placed.height,
            elsewhere=int(matching(self.listing, of_kinds).sum()) - placed.height, deck=DECK,
        )  # fmt: skip

    def points(self, query: Query) -> str:
        """The script with all places of the map."""
        points = topic_map.on_map(self._rows(query))
        return topic_map.points_script(points, matching(points, query), self._links.piece, query.outliers)

    def piece(self, number: int) -> str:
        """The script with prompts and links of some rows of the map."""
        points = topic_map.on_map(self.listing)
        return topic_map.piece_script(points, number, self._links.item, self._links.thumb)

    def boards(self, name: str) -> str:
        """One board, and who beats whom."""
        ratings = self._source.boards()
        every = slices(ratings)
        name = name if name in every else next(iter(every), OVERALL)
        rows = shown_board(ratings, name) if every else []
        models = [row.model for row in rows][:MODELS_MAX]
        votes = pair_counts(self._source.listing, name)
        verdicts, rests_on = self._source.judged()
        return self._page(
            "boards.html", "Leaderboards", groups=grouped(every), slice=name, board=rows, models=models, pairs=votes,
            rank_rule=RANK_RULE, query=Query(), judged=shown_board(verdicts, name, JudgeRating.board), judge=rests_on,
            contests=contests(self._source.of_votes("fragility").filter(slice=name)).to_dicts(),
            item_boards=self._source.item_boards(), checks=checked_votes(self._source.of_votes("vote_checks")),
        )  # fmt: skip

    def dropped(self) -> str:
        """The page of reasons for dropping, with examples."""
        return self._page("dropped.html", "Dropped", reasons=dropped(self._source), query=Query())

    def compare(self) -> str | None:
        """The comparison with an earlier release; None without one."""
        if self._comparison is None:
            return None
        known = set(self.listing["key"])
        keys = [item_key(_KINDS[each.config], each.id) for each in self._comparison.changes]
        changes = [
            {**each.model_dump(), "key": key if key in known else ""}
            for each, key in zip(self._comparison.changes, keys, strict=True)
        ]
        moved = moved_models(self._comparison.ratings, self._source.boards())
        return self._page(
            "compare.html", "Compare", against=self._comparison.against, diff=self._comparison.diff, changes=changes,
            moved=moved.to_dicts(), rank_rule=RANK_RULE,
        )  # fmt: skip

    def more(self, template: str, tab: str, **values: Any) -> str:
        """A page that others add to the server."""
        return self._page(template, tab, **values)

    def message(self, heading: str, text: str) -> str:
        """A page with one sentence; it needs nothing of the source."""
        about = {"title": heading, "heading": "Explorer", "tabs": [], "note": "", "footer": "", "problems": []}
        return _ENVIRONMENT.get_template("message.html").render(
            about=about, links=self._links, tab="", heading=heading, text=text
        )

    def _page(self, template: str, tab: str, **values: Any) -> str:
        about = self._about() | {"problems": self._source.problems, "with_map": True}
        shown = {"about": about, "links": self._links, "tab": tab, "hidden": self._source.hidden_image}
        return _ENVIRONMENT.get_template(template).render(**shown, **values)

    def _about(self) -> dict[str, Any]:
        private = self._source.private
        tabs = [("Browse", self._links.browse()), ("Topics", self._links.map()), ("Leaderboards", self._links.boards())]
        tabs += [("Dropped", self._links.dropped)] if private else []
        tabs += [("Compare", self._links.compare)] if self._comparison else []
        tabs += self.more_tabs
        heading = f"{'Store' if private else 'Release'} {self._source.title}"
        times = f"{self.opened:,} {'time' if self.opened == 1 else 'times'}"
        footer = f"Private: for this machine only. Masked content was shown {times}." if private else "Read only."
        every, some = self._source.listing.height if self._sample is not None else 0, self.listing.height
        note = f"A sample of {some:,} of {every:,} items, drawn evenly over topics." if every > some else ""
        return {"title": heading, "heading": heading, "tabs": tabs, "note": note, "footer": footer}


def compared_topics_page(rows: Sequence[topic_map.ComparedTopic], sources: Sequence[Source]) -> str:
    """One file with two releases' topics side by side, and thumbnails of both inside."""
    titles = [source.title for source in sources]
    shown = [(row, [_inline(row.images, sources[0]), _inline(row.other_images, sources[1])]) for row in rows]
    template, sheets = _ROOT / "compared_topics.html", [LINKED["explore.css"]]
    return one_file(template, {"line": one_line}, sheets, rows=shown, titles=titles, rule=topic_map.MATCHED)


def _inline(image_ids: Sequence[str], source: Source) -> list[str]:
    """Thumbnails in base64."""
    small = (thumb(content) for image_id in image_ids if (content := source.image(image_id)))
    return [base64.b64encode(each).decode() for each in small if each]


def _shortened(parts: Sequence[Stretch], whole: bool) -> list[Stretch]:
    left, found = LONG_CHARACTERS, []
    for part in parts:
        found.append(part if whole else part._replace(text=part.text[:left]))
        left = max(0, left - len(part.text))
    return found


def _is_long(parts: Sequence[Stretch]) -> bool:
    return sum(len(part.text) for part in parts) > LONG_CHARACTERS


def _shown(value: str, facet: str) -> str:
    """A value of a facet in words."""
    words = _VOTES.get(value, value) if facet == "vote" else value
    return one_line(words.replace("_", " ") if facet in ("reason", "tag", "vote") else words, 80) or "(empty)"


def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader([_ROOT, LOOK.parent]), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    filters: dict[str, Callable[..., Any]] = {
        "line": one_line,
        "rounds": rounds,
        "slug": lambda text: "".join(letter for letter in text if letter.isascii() and letter.isalnum()),
        "vote": lambda vote: _VOTES.get(vote, vote),
        "shown": _shown,
        "facet_title": lambda name: next(facet.title for facet in FACETS if facet.name == name),
        "shortened": _shortened,
        "is_long": _is_long,
        "capitalize_first": lambda text: text[:1].upper() + text[1:],
    }
    made.filters.update(filters)
    return made


_ENVIRONMENT = _environment()
