"""Pages of stores and releases, as a product shows them: what is open at a place, and the server."""

import socket
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.tables import note
from schemas.errors import BadInput, why_unreadable

if TYPE_CHECKING:
    from tasks.shown import Comparison, MorePages, Source
    from tasks.storage.queries.signals import Versions

PORT = 8384
_CHANGES_MAX = 200
"""Rows that differ which the page lists; `curate diff` lists all."""
PortOption = Annotated[
    int | None,
    typer.Option("--port", min=1, max=65_535, help="Port on this machine.", show_default=f"{PORT}, or a free one"),
]
NoBrowserOption = Annotated[bool, typer.Option("--no-browser", help="Only print the link.")]


@contextmanager
def opened(
    place: str, against: str | None, told: bool = True, versions: "Callable[[], Versions]" = dict
) -> Iterator[tuple["Source", "Comparison | None"]]:
    """The source at a place, and the comparison with an earlier release.

    `told`: with the reasons that the store has for removed rows; an export leaves the machine without them. `versions`:
    those of all signals of a store, by which vectors are read.
    """
    from flows.products import PRODUCTS, explorer_here, parts_of_release
    from tasks.release.build import WITHDRAWN
    from tasks.release.fetched import fetched_of_store, is_store, read_manifest, why_withdrawn
    from tasks.release.registered import OpenRelease
    from tasks.storage.tables import Store

    if is_store(place):
        if against:
            raise BadInput(f"--against {against!r}: {place!r} is a store; two releases can be compared")
        yield explorer_here().of_store(Store.existing(place), PRODUCTS, versions), None
        return
    with fetched_of_store(place) as (folder, store):
        manifest, at = read_manifest(folder), Store(place)

        def withdrawn() -> str:
            at.fs.invalidate_cache()
            mark = at.read_bytes(WITHDRAWN)
            return "" if mark is None else why_withdrawn(mark)

        comparison = _compared(against, folder, store if told else None) if against else None
        parts = parts_of_release(OpenRelease(folder, manifest, None))
        yield explorer_here().of_release(folder, manifest.version, withdrawn, parts), comparison


def _compared(against: str, folder: Path, store: object) -> "Comparison":
    from flows.products import explorer_here, parts_of_release
    from schemas.publication import RowChange
    from tasks.release.diff import diff_releases
    from tasks.release.fetched import fetched, read_manifest
    from tasks.shown import Comparison
    from tasks.storage.queries.explain import removal_reasons
    from tasks.storage.tables import Store

    changes: list[RowChange] = []

    def tell(change: RowChange) -> None:
        if len(changes) < _CHANGES_MAX:
            changes.append(change)

    reasons = {"why": removal_reasons(store)} if isinstance(store, Store) else {}
    with fetched(against) as earlier:
        difference = diff_releases(earlier, folder, parts_of_release, tell=tell, **reasons)
        boards = explorer_here().of_release(earlier, "", lambda: "", ()).boards()
        return Comparison(read_manifest(earlier).version, difference, changes, boards)


def serve(
    source: "Source", comparison: "Comparison | None", port: int | None, browse: bool,
    more: "Sequence[Callable[[Callable[[], int]], MorePages]]" = (),
) -> None:  # fmt: skip
    """Serve the pages until Ctrl-C. Each of `more` is given the port and makes further pages."""
    from flows.products import explorer_here
    from tasks.runtime.serving import serve_on

    source.refresh()
    _ = source.listing  # read before the link is printed
    with listening(port, PORT) as listener:
        chosen = listener.getsockname()[1]
        app, path = explorer_here().app(source, lambda: chosen, comparison, [make(lambda: chosen) for make in more])
        link = f"http://127.0.0.1:{chosen}{path}"
        print(f"{link}\nCtrl-C ends it", flush=True)
        if browse and not webbrowser.open(link):
            note("no browser was found; open the link above")
        serve_on(listener, app, lifespan="off")


@contextmanager
def listening(
    port: int | None, usual: int, host: str = "127.0.0.1", option: str = "--port "
) -> Iterator[socket.socket]:
    """A socket that listens on this machine only, unless `host` is another address.

    On a free port when none was named and the usual one is taken. `option`: how the port is named.
    """
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port or usual))
        except OSError as error:
            if port is not None:
                raise BadInput(
                    f"{option}{port} cannot be used ({why_unreadable(error)}); name another one, or leave it out"
                ) from None
            listener.bind((host, 0))
        listener.listen()  # who follows the link before the server runs waits
        yield listener
