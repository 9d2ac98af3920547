"""Renders pages with Jinja2. Everything is escaped; no page has inline script or style, so a strict policy can hold."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import polars as pl

from schemas.benches.judging import JudgeRating
from schemas.errors import BadInput
from schemas.items.review import Stretch
from schemas.rating import FEW_VOTES, OVERALL
from schemas.tables import TABLES
from tasks.explore import topic_map
from tasks.explore.answers import ID_COLUMNS, first_rows, ids_of_answer
from tasks.explore.facets import SQL_CHARACTERS_MAX, NoSelection, Query, find, matching
from tasks.explore.listing import FACETS, KIND_FACET
from tasks.explore.summaries import PAIR_MODELS_MAX, dropped, pair_counts, selection_board
from tasks.images.small import thumb
from tasks.leaderboard.shown_boards import grouped, moved_models, shown_board, slices
from tasks.look import LINKED, LOOK
from tasks.runtime.untrusted import one_file, one_line
from tasks.shown import BATTLE, CONVERSATION, FAILURE, PROMPT, Comparison, Source, item_key, rounds
from tasks.storage.queries.bench import RANK_RULE, checked_votes, contests

_STATIC = Path(__file__).with_name("static")
_EXPORTED = ("explore.js", "static.js", "map.js", "lasso.js", "deck.gl-9.1.15.min.js", "deck.gl-LICENSE")
ASSETS = LINKED | {name: _STATIC / name for name in _EXPORTED}
"""The only files that are exported as they are."""
EXPLORER_FILES = ASSETS | {"review.js": _STATIC / "review.js"}
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
    board_of: Callable[[Query], str]
    """The leaderboard of the votes of a selection; empty where none can be made."""
    ids: Callable[[Query], str]
    """The ids of a selection as a CSV file; empty where none can be made."""
    sql: Callable[[str], str]
    """The page for questions in SQL, with this question; empty where none is answered."""
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
        self._answered: tuple[pl.DataFrame | None, str, pl.Series] = (None, "", pl.Series([], dtype=pl.String))
        """The listing, the last question in SQL that chose rows of it, and their ids."""
        self.opened = 0
        """Number of times that masked content was asked for."""
        self.more_tabs: list[tuple[str, str]] = []
        """(name, address) of pages that others add to the server."""

    @property
    def listing(self) -> pl.DataFrame:
        """The rows that are shown."""
        return self._source.listing if self._sample is None else self._sample

    def _rows(self, query: Query) -> pl.DataFrame:
        """The same, with the columns by which the rows of a query are looked for. Raises NoSelection."""
        rows = self._source.searchable if query.search and self._sample is None else self.listing
        if query.like:
            rows = rows.with_columns(self._closeness(query.like))
        if query.sql:
            rows = rows.with_columns(is_asked=pl.col("id").is_in(self._asked_ids(query.sql).implode()))
        return rows

    def _closeness(self, key: str) -> pl.Series:
        """Cosine of each row of the listing to an item. Raises NoSelection."""
        item = self.listing.filter(key=key)
        if item.is_empty():
            raise NoSelection("There is no such item to be like, or it was taken down")
        try:
            cosine = self._source.closeness(item["id"][0])
        except BadInput as error:
            raise NoSelection(str(error)) from None
        if cosine is None:
            raise NoSelection("This item has no vector of the model in use; `curate measure` makes them")
        return cosine

    def _asked_ids(self, question: str) -> pl.Series:
        """The ids of items in the answer to a question in SQL; kept until another is asked. Raises NoSelection."""
        listing = self.listing
        if self._answered[0] is not listing or self._answered[1] != question:
            self._answered = (listing, question, ids_of_answer(self._source.asked, question))
        return self._answered[2]

    def selected(self, query: Query) -> pl.DataFrame:
        """The rows of a query, nearest first where it asks for items like one. Raises NoSelection."""
        rows = self._rows(query)
        chosen = rows.filter(matching(rows, query))
        return chosen.sort("cosine", descending=True, maintain_order=True) if query.like else chosen

    def sql(self, question: str) -> str:
        """The page for questions in SQL, and the first rows of the answer."""
        tables = self._source.asked
        answer, problem = None, ""
        try:
            if len(question) > SQL_CHARACTERS_MAX:
                raise BadInput(
                    f"SQL: the question has more than {SQL_CHARACTERS_MAX:,} characters; `curate sql` takes it"
                )
            answer = first_rows(tables, question) if question else None
        except BadInput as error:
            problem = str(error)
        keys = dict(self.listing.select("id", "key").iter_rows())
        views = [
            (name, about, tables.columns(name) if name in TABLES else []) for name, about in tables.views().items()
        ]
        return self._page(
            "sql.html", "SQL", question=question, answer=answer, problem=problem, views=views, keys=keys,
            id_columns=ID_COLUMNS, as_selection=Query(sql=question), most=SQL_CHARACTERS_MAX,
        )  # fmt: skip

    def browse(self, query: Query) -> str:
        """Facets, search and cards."""
        found_rows = find(self._rows(query), query)
        return self._page("browse.html", "Browse", found=found_rows, query=query, rows=found_rows.rows.to_dicts())

    def item(self, key: str, opened: bool, whole: bool) -> str | None:
        """One item; None for a key that no item has."""
        item = self._source.item(key, opened)
        if item is None:
            return None
        row = self.listing.row(by_predicate=pl.col("key") == key, named=True)
        alike = Query(like=key) if self._source.has_vectors and self._links.opens else None
        return self._page("item.html", "", item=item, opened=opened, whole=whole, outcome=row["outcome"], alike=alike)

    def map(self, query: Query) -> str:
        """The topic map, facets, and a table of topics."""
        points = topic_map.on_map(self._rows(query))
        found_rows = find(points, query.but(page=1))
        of_kinds = query.cleared().but(
            chosen={name: query.chosen[name] for name in query.chosen if name == KIND_FACET.name}
        )
        placed = points.filter(matching(points, of_kinds))
        return self._page(
            "map.html", "Topics", found=found_rows, query=query, topics=topic_map.map_topics(placed),
            placed=placed.height, elsewhere=int(matching(self.listing, of_kinds).sum()) - placed.height, deck=DECK,
        )  # fmt: skip

    def points(self, query: Query) -> str:
        """The script with all places of the map."""
        points = topic_map.on_map(self._rows(query))
        return topic_map.points_script(points, matching(points, query), self._links.piece, query.outliers)

    def piece(self, number: int) -> str:
        """The script with prompts and links of some rows of the map."""
        points = topic_map.on_map(self.listing)
        return topic_map.piece_script(points, number, self._links.item, self._links.thumb)

    def board_of(self, query: Query) -> str:
        """The leaderboard of the votes of a selection. Raises NoSelection."""
        chosen = self.selected(query)
        rated, count = selection_board(chosen, self._source.boards())
        return self._page(
            "selection_board.html", "Leaderboards", query=query, board=rated, votes=count, items=chosen.height,
            few=FEW_VOTES, rank_rule=RANK_RULE,
        )  # fmt: skip

    def boards(self, name: str) -> str:
        """One board, and who beats whom."""
        ratings = self._source.boards()
        every = slices(ratings)
        name = name if name in every else next(iter(every), OVERALL)
        rows = shown_board(ratings, name) if every else []
        models = [row.model for row in rows][:PAIR_MODELS_MAX]
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
        listed_keys = set(self.listing["key"])
        keys = [item_key(_KINDS[change.config], change.id) for change in self._comparison.changes]
        changes = [
            {**change.model_dump(), "key": key if key in listed_keys else ""}
            for change, key in zip(self._comparison.changes, keys, strict=True)
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
        page_values = {"about": about, "links": self._links, "tab": tab, "hidden": self._source.hidden_image}
        page_values |= {"place": "RELEASE" if not self._source.private else "STORE"}
        return _ENVIRONMENT.get_template(template).render(**page_values, **values)

    def _about(self) -> dict[str, Any]:
        private = self._source.private
        tabs = [("Browse", self._links.browse()), ("Topics", self._links.map()), ("Leaderboards", self._links.boards())]
        tabs += [("Dropped", self._links.dropped)] if private else []
        tabs += [("Compare", self._links.compare)] if self._comparison else []
        tabs += [("SQL", self._links.sql(""))] if self._links.sql("") else []
        tabs += self.more_tabs
        heading = f"{'Store' if private else 'Release'} {self._source.title}"
        times = f"{self.opened:,} {'time' if self.opened == 1 else 'times'}"
        footer = f"Private: for this machine only. Masked content was shown {times}." if private else "Read only."
        whole_count, listed_count = self._source.listing.height if self._sample is not None else 0, self.listing.height
        note = (
            f"A sample of {listed_count:,} of {whole_count:,} items, drawn evenly over topics."
            if whole_count > listed_count
            else ""
        )
        return {"title": heading, "heading": heading, "tabs": tabs, "note": note, "footer": footer}


def compared_topics_page(rows: Sequence[topic_map.ComparedTopic], sources: Sequence[Source]) -> str:
    """One file with two releases' topics side by side, and thumbnails of both inside."""
    titles = [source.title for source in sources]
    rows_with_images = [(row, [_inline(row.images, sources[0]), _inline(row.other_images, sources[1])]) for row in rows]
    from tasks.explore.one_map import map_figure, one_map  # imported late: matplotlib is slow to load

    common = one_map(*(source.listing for source in sources))
    drawn = base64.b64encode(map_figure(common, titles).svg.encode()).decode() if common.rows else ""
    template, sheets = _ROOT / "compared_topics.html", [LINKED["explore.css"]]
    return one_file(
        template, {"line": one_line}, sheets, rows=rows_with_images, titles=titles, rule=topic_map.MATCHED, drawn=drawn,
        common=common.words,
    )  # fmt: skip


def _inline(image_ids: Sequence[str], source: Source) -> list[str]:
    """Thumbnails in base64."""
    small = (thumb(content) for image_id in image_ids if (content := source.image(image_id)))
    return [base64.b64encode(small_image).decode() for small_image in small if small_image]


def _shortened(parts: Sequence[Stretch], whole: bool) -> list[Stretch]:
    characters_left, shortened_parts = LONG_CHARACTERS, []
    for part in parts:
        shortened_parts.append(part if whole else part._replace(text=part.text[:characters_left]))
        characters_left = max(0, characters_left - len(part.text))
    return shortened_parts


def _is_long(parts: Sequence[Stretch]) -> bool:
    return sum(len(part.text) for part in parts) > LONG_CHARACTERS


def _shown(value: str, facet: str) -> str:
    """A value of a facet in words."""
    words = _VOTES.get(value, value) if facet == "vote" else value
    return one_line(words.replace("_", " ") if facet in ("reason", "tag", "vote") else words, 80) or "(empty)"


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
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
    environment.filters.update(filters)
    return environment


_ENVIRONMENT = _environment()
