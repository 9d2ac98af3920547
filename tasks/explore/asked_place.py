"""A store or a release that is asked in SQL: opened with its masks; the audit log says when they are off.

In: the place, and whether texts are asked for as they are. Out: `AskedPlace`, which `curate sql` and
`arena_curation.sql` ask.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from schemas.errors import BadInput
from schemas.upkeep import Audited
from tasks.explore.asked_store import AskedStore
from tasks.explore.questions import OfAskedRelease, OfAskedStore, Questions
from tasks.release.fetched import fetched_of_store, is_store, read_manifest
from tasks.shown import ViewColumn
from tasks.storage.keyed_ids import UNFINISHED
from tasks.storage.queries.signals import Versions, versions_in_use
from tasks.storage.records import add_audit_entry
from tasks.storage.tables import Store


@dataclass(frozen=True)
class AskedPlace:
    """An open store or release."""

    questions: Questions
    store: Store | None
    """The store, or that which contains the release; None for a release elsewhere."""
    version: str
    """Version of a release; empty for a store."""

    def views(self) -> Mapping[str, str]:
        """Name of each table and view -> what one of its rows is."""
        return self.questions.views()

    def columns(self, view: str) -> list[ViewColumn]:
        """The columns of a table or view. Raises BadInput for an unknown one."""
        return self.questions.columns(view)

    def answer(self, question: str) -> Iterator[pa.RecordBatch]:
        """The rows of a question, in at least one batch. Raises BadInput for one that cannot be asked.

        The audit log says first that somebody looks at what is masked.
        """
        self.questions.check(question)
        if self.questions.masks_lifted and self.store is not None:
            add_audit_entry(self.store, Audited.LOOKED, {"questions": 1})
        return self.questions.answer(question)


@contextmanager
def asked_place(place: str, unmask: bool, versions: Callable[[], Versions]) -> Iterator[AskedPlace]:
    """The store or release at a place, until the block ends. `versions` gives those of all signals, where needed.

    Raises BadInput where it cannot be asked, and for `unmask` with a release.
    """
    if not is_store(place):
        if unmask:
            raise BadInput(f"--unmask: nothing of a release is masked; {place!r} is a release")
        with fetched_of_store(place) as (folder, store):
            yield AskedPlace(OfAskedRelease(folder), store, read_manifest(folder).version)
        return
    asked_store = AskedStore.existing(place)
    if asked_store.read_bytes(UNFINISHED) is not None:
        raise BadInput(
            f"{place!r} cannot be asked: a takedown is under way, or was interrupted; finish it with `curate takedown`"
        )
    asked_store.unmasked = unmask
    yield AskedPlace(OfAskedStore(asked_store, lambda: versions_in_use(versions())), asked_store, "")
