"""A release needs memory for its ids and one block, however much its rows hold."""

from datetime import timedelta

import polars as pl

from schemas.policy import policy_hash
from schemas.settings import Settings
from tasks.release.steps import build_release
from tasks.runtime.memory import use_limits
from tasks.storage.queries.released import mark_decided
from tests.builders import NOON, VERSIONS, conversation, decision, measure_clean, store_with
from tests.small_store import POLICY

MEMORY_GB, CHATS, ANSWER = 0.05, 2_000, "An answer of many words, and so on. " * 5_555


def test_a_release_is_built_in_an_eighth_of_the_memory_that_its_rows_take(tmp_path):
    chats = [
        conversation(f"c{n:05d}", f"Question {n}?", f"{n} {ANSWER}", tstamp=NOON + timedelta(minutes=n))
        for n in range(CHATS)
    ]
    decided = [decision(chat).model_copy(update={"policy_hash": policy_hash(POLICY)}) for chat in chats]
    store = store_with(tmp_path, conversations=chats, decisions=decided)
    measure_clean(store, chats)
    store.write_bytes(f"policies/{policy_hash(POLICY)}.json", POLICY.model_dump_json().encode())
    mark_decided(store)
    assert sum(size for _, size in store.part_sizes("conversations")) >= 8 * MEMORY_GB * 1e9
    use_limits(MEMORY_GB, None)
    try:
        built = build_release.fn(Settings(store=store.root, release="1"), VERSIONS, pl.Series([], dtype=pl.String), ())
    finally:
        use_limits(None, None)
    assert built.counts["chat"] + built.counts["withheld_for_bench"] == CHATS
