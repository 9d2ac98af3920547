"""Checks of names of written benchmarks."""

from schemas.errors import BadInput, known_values
from tasks.storage.queries.benches.written_items import item_members
from tasks.storage.tables import Store


def check_known(store: Store, bench: str) -> None:
    """Raises BadInput when the store has no item of the benchmark."""
    if item_members(store, bench).is_empty():
        named = sorted(store.read("bench_items", ["bench"])["bench"].unique())
        known = known_values(bench, [*named, "sampled"])
        raise BadInput(f"bench {known} Take one in with `curate bench collect`")
