"""Items for judges: the captions and references that count."""

from schemas.benches.bench import BenchItem
from schemas.benches.written import Split, WrittenBy
from tasks.written_bench.written_items import hidden_texts, items_for_judging, split_of
from tests.builders import conversation, decision, store_with
from tests.written import caption, reference, written_item

PAIR = conversation("pair", "What changed?", image_ids=["0" * 32, "1" * 32])
ALONE = conversation("alone", "What is this?", image_ids=["2" * 32])
GONE = conversation("gone", "What was this?", image_ids=["3" * 32])
MODEL = {"written_by": WrittenBy.MODEL, "provider": "m", "version": "m-1"}


def _store(folder, **tables):
    decisions = [decision(PAIR), decision(ALONE), decision(GONE, "face")]
    items = [written_item(each) for each in (PAIR, ALONE, GONE)]
    return store_with(
        folder, conversations=[PAIR, ALONE, GONE], decisions=decisions, bench_items=items,
        bench=[BenchItem(conversation_id="alone", document_id=ALONE.document_id, topic=0)], **tables,
    )  # fmt: skip


def test_only_kept_items_with_current_captions_and_references_are_given(tmp_path):
    captions = [
        caption(PAIR, "before", 0), caption(PAIR, "after", 1), caption(PAIR, "a draft", 1, later=9, **MODEL),
        caption(ALONE, "a draft", later=1, **MODEL), caption(ALONE, "another draft", later=2, **MODEL),
        caption(GONE, "of another form", document_id="f" * 32),
    ]  # fmt: skip
    references = [
        reference(PAIR, "it moved", ["before", "after"]), reference(ALONE, "stale", ["a draft"], later=3, **MODEL),
    ]  # fmt: skip
    store = _store(tmp_path, captions=captions, references=references)
    alone, pair = items_for_judging(store, "b")
    assert (pair.captions, pair.reference, pair.instruction) == (["before", "after"], "it moved", "What changed?")
    assert pair.image_ids == ("0" * 32, "1" * 32) and pair.document_id == PAIR.document_id
    assert (alone.captions, alone.reference) == (["another draft"], None)


def test_an_item_without_a_caption_for_every_image_has_none(tmp_path):
    store = _store(tmp_path, captions=[caption(PAIR, "after", 1)])
    assert [(item.item_id, item.captions) for item in items_for_judging(store, "b")] == [("alone", []), ("pair", [])]
    assert items_for_judging(store, "another") == []


def test_the_sampled_benchmark_has_items_too(tmp_path):
    store = _store(tmp_path, captions=[caption(ALONE, "a cup")])
    store.replace("bench_items", store.empty("bench_items"))
    (item,) = items_for_judging(store, "sampled")
    assert (item.item_id, item.captions, item.family, item.split) == ("alone", ["a cup"], "", split_of("alone"))
    shares = [split_of(f"item{number}") is Split.VALIDATION for number in range(2000)]
    assert 0.17 < sum(shares) / 2000 < 0.23


def test_what_is_hidden_in_one_benchmark_is_hidden_in_all(tmp_path):
    again = PAIR.model_copy(update={"conversation_id": "again"})
    items = [written_item(PAIR), written_item(again, bench="c", split=Split.VALIDATION)]
    items.append(written_item(ALONE, bench="c", split=Split.VALIDATION))
    texts = [caption(each, "a text", place) for each in (PAIR, again, ALONE) for place in range(len(each.image_ids))]
    kept = [PAIR, again, ALONE]
    store = store_with(
        tmp_path, conversations=kept, decisions=[decision(each) for each in kept], bench_items=items, captions=texts
    )
    splits = {item.item_id: item.split for item in items_for_judging(store, "c")}
    assert splits == {"alone": Split.VALIDATION, "again": Split.HIDDEN}
    assert set(hidden_texts(store)["item_id"]) == {"pair", "again"}
