"""What is shown together is masked together, and what was read before a change is shown to nobody after it."""

import shutil
from datetime import UTC, datetime
from random import Random

import fsspec
import polars as pl
import pytest
from fsspec.implementations.local import LocalFileSystem

from schemas.items.reject import Quarantined
from tasks.explore.asked_store import AskedStore
from tasks.explore.of_store import OfStore, without_sources
from tasks.policy.explained import explained
from tasks.shown import item_key
from tasks.storage.content_id import text_id
from tasks.storage.tables import Store, frame_of
from tasks.takedown.take_down import take_down
from tests.builders import battle, conversation, decision, facts_frame, measure_clean, sides, store_with, verdict
from tests.looked_store import SOURCE
from tests.visit_bench import stored_answer

NAME = "Ana Lopez"


def found(*texts: str) -> dict:
    """The name as personal data of these texts."""
    spans = {text: {"type": "person", "start": text.index(NAME), "end": text.index(NAME) + len(NAME)} for text in texts}
    return {text_id(text): {"spans": [span | {"confidence": 0.9}], "types": ["person"]} for text, span in spans.items()}


def shown_texts(item) -> str:
    parts = [part for side in item.sides for message in side.messages for part in message.parts]
    parts += [*item.vote_reason, *(part for section in item.sections for text in section.texts for part in text.parts)]
    return "|".join(part.text or f"[{part.hidden}]" for part in parts)


def places_of_battle(folder) -> tuple[Store, str, list[str]]:
    texts = [f"I am {NAME}.", f"Hello {NAME}!", f"Good day, {NAME}.", f"It calls me {NAME}"]
    image = "1" * 32
    left = conversation("b", *texts[:2], image_ids=[image])
    right = conversation("b-right", texts[0], texts[2], image_ids=[image])
    vote = battle(left, right, vote_reason=texts[3], vote_reason_id=text_id(texts[3]))
    store = store_with(folder, conversations=[left, right], battles=[vote])
    read = f"Badge of {NAME}"
    measure_clean(store, [left, right], image_text={image: {"text": read}})
    return store, item_key("battle", "b"), [*texts, read]


def places_of_question(folder) -> tuple[Store, str, list[str]]:
    texts = [f"I am {NAME}.", f"Hello {NAME}!", f"Good day, {NAME}.", f"Assistant A greets {NAME}", f"Badge of {NAME}"]
    image = "1" * 32
    asked = conversation("q", *texts[:2], image_ids=[image])
    store = store_with(
        folder,
        conversations=[asked],
        answers=[stored_answer(asked, "m", texts[2])],
        verdicts=[verdict(question_id="q", text=texts[3])],
    )
    measure_clean(store, [asked], image_text={image: {"text": texts[4]}})
    return store, item_key("conversation", "q"), texts


@pytest.mark.parametrize("made", [places_of_battle, places_of_question])
@pytest.mark.parametrize("place", range(5))
def test_a_value_found_in_one_text_of_an_item_is_masked_in_all(tmp_path, made, place):
    store, key, texts = made(tmp_path)
    clean = {text_id(text): {} for text in texts}
    store.append("signals/text_pii", facts_frame("text_pii", clean | found(texts[place])))
    text = shown_texts(OfStore(store, explained).item(key, False))
    assert NAME not in text and text.count("[person]") >= 4


@pytest.mark.parametrize("shown", ["snippet", "searched", "left page", "right page"])
@pytest.mark.parametrize("place", range(5))
def test_a_value_found_in_one_text_of_a_battle_is_masked_wherever_the_battle_is_shown(tmp_path, place, shown):
    store, _, texts = places_of_battle(tmp_path)
    clean = {text_id(text): {} for text in texts}
    store.append("signals/text_pii", facts_frame("text_pii", clean | found(texts[place])))
    source = OfStore(store, explained)
    if shown.endswith("page"):
        side = "b-right" if shown == "right page" else "b"
        text = shown_texts(source.item(item_key("side of a battle", side), False))
    else:
        text = "|".join(source.searchable[shown])
    assert NAME.lower() not in text.lower() and text.count("[person]") >= 2


@pytest.mark.parametrize("place", range(5))
def test_a_value_found_in_one_text_of_a_battle_is_masked_in_answers_to_questions(tmp_path, place):
    store, _, texts = places_of_battle(tmp_path)
    clean = {text_id(text): {} for text in texts}
    store.append("signals/text_pii", facts_frame("text_pii", clean | found(texts[place])))
    asked = AskedStore(store.root)
    messages = asked.ask('SELECT unnest("turns.content") AS text FROM conversations')["text"].to_list()
    words = asked.ask("SELECT vote_reason FROM battles")["vote_reason"].to_list()
    assert len(messages + words) == 5
    assert all(NAME not in text and "[person]" in text for text in messages + words)


class _Held(LocalFileSystem):
    """A disk on which something happens once, just before it gives the list of decisions for the second time.

    A listing then has all its conversations, and reads the decisions about battles.
    """

    protocol = "held"
    asked, happening = 0, None

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix("held://") if isinstance(path, str) else path)

    def cat_file(self, path, start=None, end=None, **options):
        _Held.asked += path.endswith("tables/decisions/parts.json")
        if _Held.happening and _Held.asked == 2:
            happening, _Held.happening = _Held.happening, None
            happening()
        return super().cat_file(path, start, end, **options)


@pytest.fixture
def held():
    """The disk."""
    fsspec.register_implementation("held", _Held, clobber=True)
    yield _Held
    _Held.happening = None


@pytest.mark.parametrize("read", ["listing", "searchable"])
def test_what_another_request_read_before_a_takedown_is_shown_to_nobody_after_it(looked, tmp_path, held, read):
    root = shutil.copytree(looked.store.root, tmp_path / "store")
    source = OfStore(Store(f"held://{root}"), explained)

    def taken_down() -> None:
        take_down(Store(str(root)), ["c4"], [], datetime.now(UTC), dry_run=False)
        source.refresh()
        assert "c4" not in getattr(source, read)["id"]

    assert read == "listing" or source.listing.height
    held.asked, held.happening = 0, taken_down
    assert "c4" in getattr(source, read)["id"]  # it had begun before the takedown, and ends after it
    assert held.happening is None
    assert "c4" not in getattr(source, read)["id"]


def test_a_text_is_searched_in_its_own_item_although_a_run_has_changed_the_tables_meanwhile(tmp_path):
    rows = [conversation(name, f"Question of {name}", "Answer.") for name in "abcd"]
    store = store_with(tmp_path, conversations=rows[:3])
    measure_clean(store, rows)
    source = OfStore(store, explained)
    assert source.listing.height == 3
    store.replace("conversations", store_with(tmp_path / "later", conversations=rows[1:]).read("conversations"))
    searched = source.searchable.drop_nulls("searched")
    assert dict(searched.select("id", "searched").iter_rows()) == {
        name: f"question of {name}\nanswer." for name in "bc"
    }


def test_of_a_twin_that_is_quarantined_nothing_is_shown(tmp_path):
    first, later = (conversation(name, "Same?", "Yes.", image_ids=[digit * 32]) for name, digit in ("a1", "b2"))
    decided = [decision(first), decision(later, "duplicate").model_copy(update={"duplicate_of": "a"})]
    store = store_with(tmp_path, conversations=[first, later], decisions=decided)
    measure_clean(store, [first, later])
    key = item_key("conversation", "b")
    assert [image.image_id for image in OfStore(store, explained).item(key, False).twin_images] == ["1" * 32]
    store.replace("quarantine", frame_of(Quarantined, [Quarantined(kind="conversation", key="a", cause="flagged")]))
    item = OfStore(store, explained).item(key, False)
    assert (item.twins, item.twin_images) == ([], [])


@pytest.mark.parametrize("gone", ["b", "b-right"])
def test_of_a_battle_that_lost_a_side_meanwhile_no_side_is_shown_in_its_place(tmp_path, gone):
    left, right = sides("b", "Who?", "Me.")
    store = store_with(tmp_path, conversations=[left, right], battles=[battle(left, right)])
    measure_clean(store, [left, right])
    source = OfStore(store, explained)
    assert len(source.item(item_key("battle", "b"), False).sides) == 2
    store.replace("conversations", store.read("conversations").filter(pl.col("conversation_id") != gone))
    assert source.item(item_key("battle", "b"), False) is None


@pytest.mark.parametrize("seed", range(8))
def test_no_name_of_a_log_file_stands_in_an_account_however_deep_it_lies(seed):
    random = Random(seed)

    def account(depth: int) -> dict:
        inner = account(depth - 1) if depth else {"source": f"{SOURCE}:{random.randrange(99)}"}
        shape = random.choice([lambda: inner, lambda: [inner, 7], lambda: [[inner], None], lambda: {"deeper": inner}])
        return {"kind": "chat", "inside": shape()}

    cleaned = str(without_sources(account(random.randrange(1, 5))))
    assert SOURCE not in cleaned and "'source': 'line " in cleaned
