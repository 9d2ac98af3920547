"""Picture files -> shards, taken in by threads of this process or by the worker processes of a task runner."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from pydantic import SecretBytes

from schemas.errors import BadInput
from schemas.takedown import TakenDownKind
from tasks.ingest.known_hashes import load_known_hashes
from tasks.ingest.look import Looker
from tasks.ingest.picture_files import PictureSource
from tasks.ingest.picture_parts import WrittenShard, write_shard
from tasks.ingest.take_in import FILES_AT_ONCE, Intake, TakenIn, take_in
from tasks.pixels.pictures import Pixels
from tasks.running.progress import Advance
from tasks.running.shards import ShardRunner
from tasks.store.tombstones import Tombstones
from tasks.tables import Store

FILES_A_SHARD = 16 * FILES_AT_ONCE
"""Whole batches. A shard's files are rows of one part at most, and about two minutes of one core."""


class ShardTaker(NamedTuple):
    """Takes shards of picture files in, and writes their parts; travels to other processes."""

    store: str
    known_hashes: tuple[str, ...]
    """Files of the operator's lists, which every worker reads for itself."""
    lists_digest: str
    """What the lists must say there."""
    key: SecretBytes | None
    """The store's key, where something was taken down."""
    run: str
    """Differs between runs: what a process has loaded serves one."""
    looker: Looker
    pdq: Callable[[Pixels], str]

    def take_in(self, files: Sequence[PictureSource]) -> WrittenShard:
        """One shard. Pictures that were listed when this process took its first one are linked, not looked at."""
        known_ids, intake = _loaded(self)
        taken = TakenIn()
        for batch in take_in(files, known_ids, intake, workers=1):
            taken.add(batch)
        return write_shard(Store(self.store), taken, self.looker)

    def intake(self) -> Intake:
        """What is done with every file. Raises BadInput when the lists are not what they are at the caller's."""
        listed = load_known_hashes(self.known_hashes)
        if listed.digest != self.lists_digest:
            raise BadInput("--known-hashes: a worker reads other lists than this process; give it the same files")
        tombstones = Tombstones(Store(self.store), self.key.get_secret_value()) if self.key else None

        def taken_down(image_id: str) -> bool:
            return tombstones is not None and bool(tombstones.holds(TakenDownKind.PICTURE, [image_id]))

        return Intake(self.looker.look, listed, self.pdq, taken_down)


def picture_ids(store: Store) -> set[str]:
    """Content ids of all pictures of a store."""
    return {image_id for part in store.read_parts("images", ["image_id"]) for image_id in part["image_id"]}


def take_in_shards(
    files: Iterable[PictureSource], taker: ShardTaker, runner: ShardRunner, advance: Advance
) -> Iterator[WrittenShard]:
    """Every shard of `files`, in order, by the workers of a task runner."""
    ahead = iter(files)
    shards = iter(lambda: list(islice(ahead, FILES_A_SHARD)), [])
    for written in runner.map_ordered(taker.take_in, shards):
        advance(written.files + len(written.known))
        yield written


def take_in_here(
    files: Iterable[PictureSource], taker: ShardTaker, known_ids: set[str], workers: int, advance: Advance
) -> Iterator[WrittenShard]:
    """The same shards by threads of this process, which go on over the end of a shard."""
    store, taken = Store(taker.store), TakenIn()
    for number, batch in enumerate(take_in(files, known_ids, taker.intake(), workers), 1):
        advance(len(batch.files) + len(batch.known))
        taken.add(batch)
        if number * FILES_AT_ONCE % FILES_A_SHARD == 0:
            yield write_shard(store, taken, taker.looker)
            taken = TakenIn()
    yield write_shard(store, taken, taker.looker)


_of_run: dict[str, tuple[set[str], Intake]] = {}


def _loaded(taker: ShardTaker) -> tuple[set[str], Intake]:
    """What a run's shards share in this process."""
    if taker.run not in _of_run:
        _of_run.clear()
        _of_run[taker.run] = picture_ids(Store(taker.store)), taker.intake()
    return _of_run[taker.run]
