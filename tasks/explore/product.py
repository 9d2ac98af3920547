"""The explorer as a product of the core: pages of stores and releases, answers in SQL, and a command for each."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from tasks.product import Explorer, Product
from tasks.storage.tables import Store

if TYPE_CHECKING:
    from tasks.shown import AskedTables, ComparedTopics, Source
    from tasks.storage.queries.signals import Versions


def _explorer() -> Explorer:
    from tasks.explore.of_release import OfRelease
    from tasks.explore.of_store import OfStore
    from tasks.explore.server import explorer
    from tasks.explore.static_pages import export_pages
    from tasks.policy.explained import explained

    def of_store(store: Store, products: Sequence[Product], versions: "Callable[[], Versions]") -> OfStore:
        return OfStore(store, explained, products, versions)

    return Explorer(of_store, OfRelease, explorer, export_pages, _compared_topics)


def _compared_topics(one: "Source", other: "Source") -> "ComparedTopics":
    from tasks.explore.pages import compared_topics_page
    from tasks.explore.topic_map import MATCHED, compared_topics
    from tasks.shown import ComparedTopics

    rows = compared_topics(one.listing, other.listing)
    rows_without_images = [
        {name: value for name, value in row._asdict().items() if "images" not in name} for row in rows
    ]
    return ComparedTopics(rows_without_images, MATCHED, lambda: compared_topics_page(rows, (one, other)))


def _asked_tables(
    place: str, unmask: bool, versions: "Callable[[], Versions]"
) -> "AbstractContextManager[AskedTables]":
    from tasks.explore.asked_place import asked_place

    return asked_place(place, unmask, versions)


EXPLORE = Product(commands="flows.explore.command", explorer=_explorer, asked_tables=_asked_tables)
