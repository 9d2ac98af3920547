"""The explorer as a product of the core: one command, and pages of stores and releases."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tasks.product import Explorer, Product
from tasks.storage.tables import Store

if TYPE_CHECKING:
    from tasks.shown import ComparedTopics, Source


def _explorer() -> Explorer:
    from tasks.explore.asked_place import asked_place
    from tasks.explore.of_release import OfRelease
    from tasks.explore.of_store import OfStore
    from tasks.explore.server import explorer
    from tasks.explore.static_pages import export_pages
    from tasks.policy.explained import explained

    def of_store(store: Store, products: Sequence[Product]) -> OfStore:
        return OfStore(store, explained, products)

    return Explorer(of_store, OfRelease, explorer, export_pages, _compared_topics, asked_place)


def _compared_topics(one: "Source", other: "Source") -> "ComparedTopics":
    from tasks.explore.pages import compared_topics_page
    from tasks.explore.topic_map import MATCHED, compared_topics
    from tasks.shown import ComparedTopics

    rows = compared_topics(one.listing, other.listing)
    told = [{name: value for name, value in row._asdict().items() if "images" not in name} for row in rows]
    return ComparedTopics(told, MATCHED, lambda: compared_topics_page(rows, (one, other)))


EXPLORE = Product(commands="flows.explore.command", explorer=_explorer)
