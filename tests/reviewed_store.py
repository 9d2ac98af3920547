"""A copy of the hostile store in which some conversations are held, and a reviewer who has signed in."""

import re
import shutil
from pathlib import Path
from typing import NamedTuple

import polars as pl
from fastapi.testclient import TestClient

from flows.products import PRODUCTS
from tasks.explore.of_store import OfStore
from tasks.explore.server import explorer
from tasks.policy.explained import explained
from tasks.review.held import HeldQueue
from tasks.review.routes import review_routes
from tasks.review.session import ReviewSession
from tasks.storage.tables import Store
from tests.looked_store import PORT

HELD = ("c0", "c1", "face", "personal")


def held_store(looked: Store, folder: Path, *held: str) -> Store:
    """A copy of the hostile store in `folder`/store in which these conversations are held."""
    store = Store(str(shutil.copytree(looked.root, folder / "store")))
    ours = pl.col("item_id").is_in(held or HELD)
    waits = [pl.when(ours).then(pl.lit(value)).otherwise(name).alias(name) for name, value in _WAITS.items()]
    reasons = pl.when(ours).then(pl.lit(["odd_image"])).otherwise("reasons").alias("reasons")
    store.replace("decisions", store.read("decisions").with_columns(*waits, reasons))
    return store


_WAITS = {"held": True, "keep": False}


def shown_of(html: str) -> str:
    """The hash of what a page shows, which its form sends back."""
    return re.search(r'name="shown" value="([^"]*)"', html)[1]


class Reviewing(NamedTuple):
    """A reviewer's browser, and the session behind it."""

    client: TestClient
    session: ReviewSession

    def page(self, queue: str = "held") -> tuple[str, dict[str, str], str]:
        """Address, fields and HTML of the next item."""
        answer = self.client.get(f"/review/{queue}")
        html = answer.text
        fields = dict(re.findall(r'name="(token|shown)" value="([^"]*)"', html))
        return answer.url.path, fields, html

    def give(self, verdict: str, queue: str = "held"):
        """Give the next item a verdict; returns its path and the answer."""
        path, fields, _ = self.page(queue)
        return path, self.client.post(path, data=fields | {"verdict": verdict})


def reviewing(store: Store, reviewer: str = "Ada", queues=None, figures=None) -> Reviewing:
    """A reviewer who has followed the link and signed in."""
    session = ReviewSession(store, queues or [HeldQueue()], *filter(None, [figures]))
    app, path = explorer(
        OfStore(store, explained, PRODUCTS), lambda: PORT, None, [review_routes(session, lambda: PORT)]
    )
    client = TestClient(app, base_url=f"http://127.0.0.1:{PORT}")
    home = client.get(path)
    assert home.url.path == "/review"
    token = re.search(r'name="token" value="([^"]*)"', home.text)[1]
    assert client.post("/review", data={"token": token, "reviewer": reviewer}).status_code == 200
    return Reviewing(client, session)
