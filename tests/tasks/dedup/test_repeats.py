"""Conversations that repeat another: which go, which stays for them, whatever order the rows are in."""

import random
from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.items.conversation import Conversation
from schemas.policy import DuplicateRule
from tasks.dedup import near_images
from tasks.dedup.near_images import close_rows, cosine_pairs
from tasks.dedup.repeats import asked_ids, duplicates_of
from tasks.runtime.arrays import PAIRS_AT_ONCE, cosines_of_pairs
from tasks.storage.content_id import id_of, number_of, text_id
from tasks.storage.tables import frame_of
from tests.builders import NOON, battle, conversation, sides, store_with

IMAGE, OTHER = "1" * 32, "2" * 32
RULE = "name: mine\nrules: []\nduplicates: {{{}}}"


def _chat(name: str, minute: int = 0, prompt: str = "What is this?", **changes) -> Conversation:
    defaults = {"image_ids": [IMAGE], "tstamp": NOON + timedelta(minutes=minute)}
    return conversation(name, prompt, f"Answer of {name}.", **defaults | changes)


def _matches(decided: dict) -> dict[str, str]:
    return {item: row["duplicate_of"] for item, row in decided.items() if row["duplicate_of"]}


@pytest.fixture(scope="module")
def thrice(new_deciding):
    """Decisions on one chat and two repeats of it."""
    return new_deciding().given([_chat("later", 2), _chat("first", 1), _chat("last", 3)]).decide()


def test_each_repeated_chat_names_its_match(thrice):
    assert _matches(thrice) == {"later": "first", "last": "first"}


def test_a_repeated_chat_is_dropped_as_a_duplicate(thrice):
    assert thrice["later"]["reasons"] == ["duplicate"]


def test_the_first_of_equal_chats_is_kept(thrice):
    assert thrice["first"]["keep"]


@pytest.mark.parametrize(
    "changes",
    [{"image_ids": [OTHER]}, {"image_ids": []}, {"image_ids": [IMAGE, OTHER]}, {"prompt": "Who drew this?"}],
    ids=str,
)
def test_another_image_or_another_prompt_is_no_repeat(deciding, changes):
    decided = deciding.given([_chat("a"), _chat("b", 1, **changes)]).decide()
    assert all(row["keep"] for row in decided.values())


@pytest.mark.parametrize(("cosine", "repeats"), [(0.91, True), (0.89, False)])
def test_a_prompt_that_says_the_same_in_other_words_is_a_repeat(deciding, cosine, repeats):
    a, b = _chat("a"), _chat("b", 1, "What's this?")
    turned = [cosine, float(np.sqrt(1 - cosine**2))]
    vectors = {a.prompt_id: {"vector": [1.0, 0.0]}, b.prompt_id: {"vector": turned}}
    decided = deciding.given([a, b], facts={"text_embedding": vectors}).decide()
    assert _matches(decided) == ({"b": "a"} if repeats else {})


def _talk(name: str, minute: int, *asked: str, **changes) -> Conversation:
    """A conversation whose embedding is that of every other one."""
    texts = [text for question in asked for text in (question, f"Answer of {name}.")]
    return conversation(name, *texts, **{"image_ids": [IMAGE], "tstamp": NOON + timedelta(minutes=minute)} | changes)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["What is this?"], ["What is this?", "And that?"]),
        (["What is this?", "And that?"], ["What is this?"]),
        (["What is this?", "And that?"], ["What is this?", "And these?"]),
        (["What is this?\n\nAnd that?"], ["What is this?", "And that?"]),
    ],
)
def test_conversations_are_compared_whole_whatever_their_embeddings_say(deciding, first, second):
    talks = [_talk("a", 0, *first), _talk("b", 1, *second)]
    vectors = {each.prompt_id: {"vector": [1.0, 0.0]} for each in talks}
    assert _matches(deciding.given(talks, facts={"text_embedding": vectors}).decide()) == {}


def test_questions_repeat_others_whatever_their_case_blanks_or_closing_signs(deciding):
    talks = [_talk("a", 0, "What is this?", "And that?"), _talk("b", 1, "what  is this", "And that ?!")]
    assert _matches(deciding.given(talks).decide()) == {"b": "a"}


@pytest.mark.parametrize(
    ("asked", "matches"), [("Question 19: why?", {}), ("Question 1-7: why?", {}), ("question 17:\nWHY", {"b": "a"})]
)
def test_without_an_image_the_texts_must_be_the_same(deciding, asked, matches):
    talks = [_talk("a", 0, "Question 17: why?", image_ids=[]), _talk("b", 1, asked, image_ids=[])]
    vectors = {each.prompt_id: {"vector": [1.0, 0.0]} for each in talks}
    assert _matches(deciding.given(talks, facts={"text_embedding": vectors}).decide()) == matches


def test_likeness_is_not_handed_on(deciding):
    chats = [_chat("a"), _chat("b", 1, "What's this?"), _chat("c", 2, "What's that?")]
    angles = [0.0, 0.4, 0.8]  # neighbours have cosine 0.92, the ends 0.70
    vectors = {chat.prompt_id: {"vector": [np.cos(t), np.sin(t)]} for chat, t in zip(chats, angles, strict=True)}
    assert _matches(deciding.given(chats, facts={"text_embedding": vectors}).decide()) == {"b": "a"}


def test_a_prompt_that_was_not_embedded_repeats_equal_ones_alone(deciding):
    chats = [_chat("a"), _chat("b", 1), _chat("c", 2, "What's this?")]
    unknown = {each.prompt_id: None for each in chats}
    assert _matches(deciding.given(chats, facts={"text_embedding": unknown}).decide()) == {"b": "a"}


@pytest.fixture(scope="module")
def chat_before_votes(new_deciding):
    """Decisions on two voted battles with one question, and a chat that asked it before them."""
    first, second = (sides(name, "What is this?", f"{name}.", image_ids=[IMAGE]) for name in ("b1", "b2"))
    return new_deciding().given([*first, *second, _chat("chat", -60)], [battle(*first), battle(*second)]).decide()


def test_a_voted_battle_is_never_a_repeat(chat_before_votes):
    assert [item for item, row in chat_before_votes.items() if not row["keep"]] == ["chat"]


def test_a_voted_battle_stands_for_an_earlier_chat(chat_before_votes):
    assert _matches(chat_before_votes) == {"chat": "b1"}


def test_what_a_rule_drops_stands_for_nobody(deciding):
    chats = [_chat("a", 1), _chat("b", 2), _chat("c", 3)]
    leak = {chats[0].turns[1].text_id: {"types": ["email"]}}
    decided = deciding.given(chats, facts={"text_pii": leak}).decide()
    assert {item: row["reasons"] for item, row in decided.items()} == {"a": ["pii_text"], "b": [], "c": ["duplicate"]}
    assert _matches(decided) == {"c": "b"}


def test_a_policy_may_keep_several_copies(deciding):
    deciding.given([_chat(str(n), n) for n in range(5)]).under(RULE.format("copies_max: 3"))
    assert _matches(deciding.decide()) == {"3": "0", "4": "0"}


def test_a_policy_may_only_mark_repeats(deciding):
    deciding.given([_chat("a"), _chat("b", 1)]).under(RULE.format("action: tag, reason: again"))
    decided = deciding.decide()
    assert (decided["b"]["keep"], decided["b"]["tags"], decided["b"]["duplicate_of"]) == (True, ["again"], "a")


@pytest.mark.parametrize(("images", "matchs"), [("ignore", {"b": "a"}), ("same", {}), ("near", {})])
def test_a_policy_says_whether_images_matter(deciding, images, matchs):
    deciding.given([_chat("a"), _chat("b", 1, image_ids=[OTHER])]).under(RULE.format(f"images: {images}"))
    assert _matches(deciding.decide()) == matchs


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_rows_decides_nothing(deciding, shuffled, seed):
    """Of three images in a row, each like its neighbour alone, the first that was used stands for the others."""
    images = [str(n) * 32 for n in range(3)]
    chats = [_chat(f"c{n}", n % 3, f"Question {n % 2}", image_ids=[images[n % 3]]) for n in range(16)]
    same = {"pdq": "0" * 64, "grey": "00" * 1024}
    alike = {"image_hash": {name: {"phash": f"{(1 << 8 * n) - 1:016x}", **same} for n, name in enumerate(images)}}
    voted = sides("b", "Question 1", "Yes.", image_ids=[images[1]])
    first = deciding.given([*chats, *voted], facts=alike).decide()
    for table in ("conversations", "signals/text_embedding", "signals/image_hash", "signals/text_pii"):
        shuffled(deciding.store, table, seed)
    assert deciding.decide() == first
    assert len(_matches(first)) > 5


@pytest.mark.parametrize("seed", range(12))
def test_what_is_compared_is_the_wanted_users_messages_without_case_blanks_and_closing_signs(tmp_path, seed):
    chance = random.Random(seed)
    words = {"Who? ": "who", "who": "who", "a  b!!": "a b", "": "", "?": "?", "É\u0301": "é\u0301", "a\nb …": "a b"}
    texts = [chance.choices([*words], k=chance.randint(1, 5)) for _ in range(12)]
    chats = [conversation(f"c{number}", *some) for number, some in enumerate(texts)]
    right = {
        chat.conversation_id: text_id("\0".join(words[text] for text in some[::2]))
        for chat, some in zip(chats, texts, strict=True)
        if chance.random() < 0.7
    }
    store = store_with(tmp_path, conversations=chats)
    found = asked_ids(store, pl.DataFrame({"conversation_id": [*right, "gone"]}))
    assert {own: id_of(number) for own, number in found.iter_rows()} == right


CHATS = st.lists(
    st.tuples(st.sampled_from("pqr"), st.sampled_from(["", "x", "y"]), st.integers(0, 3), st.booleans()), max_size=12
)


def _repeats(chats: list[tuple], copies_max: int, seed: int | None = None) -> tuple[dict[str, Conversation], dict]:
    """Conversations by their names, and what each repeat repeats; a seed shuffles the rows."""
    rows = [
        _chat(str(n), minute, prompt, voted=voted, image_ids=[image] * bool(image))
        for n, (prompt, image, minute, voted) in enumerate(chats)
    ]
    frame = frame_of(Conversation, rows).with_columns(number_of(pl.col("prompt_id"))).with_columns(asked="prompt_id")
    frame = frame if seed is None else frame.sample(fraction=1, shuffle=True, seed=seed)
    repeats = duplicates_of(frame, lambda _: {}, {}, DuplicateRule(copies_max=copies_max))
    return {row.conversation_id: row for row in rows}, repeats


COPIES = st.integers(1, 3)


@settings(max_examples=25)
@given(CHATS, COPIES, st.integers(0, 9))
def test_the_order_of_rows_decides_no_repeat(chats, copies_max, seed):
    assert _repeats(chats, copies_max, seed)[1] == _repeats(chats, copies_max)[1]


@settings(max_examples=25)
@given(CHATS, COPIES)
def test_no_repeat_stands_for_another(chats, copies_max):
    _, repeats = _repeats(chats, copies_max)
    assert set(repeats).isdisjoint(repeats.values())


@settings(max_examples=25)
@given(CHATS, COPIES)
def test_no_voted_conversation_is_a_repeat(chats, copies_max):
    by_name, repeats = _repeats(chats, copies_max)
    assert not [name for name in repeats if by_name[name].voted]


@settings(max_examples=25)
@given(CHATS, COPIES)
def test_a_repeat_asks_what_its_match_asks(chats, copies_max):
    by_name, repeats = _repeats(chats, copies_max)
    for name, match in repeats.items():
        assert by_name[match].prompt_id == by_name[name].prompt_id
        assert by_name[match].image_ids == by_name[name].image_ids


@settings(max_examples=25)
@given(CHATS, COPIES)
def test_of_equal_conversations_all_voted_ones_stay_or_as_many_as_the_limit(chats, copies_max):
    by_name, repeats = _repeats(chats, copies_max)
    for key in {(row.prompt_id, *row.image_ids) for row in by_name.values()}:
        members = [row for row in by_name.values() if (row.prompt_id, *row.image_ids) == key]
        kept = [row for row in members if row.conversation_id not in repeats]
        voted = sum(row.voted for row in members)
        assert len(kept) == max(voted, min(copies_max, len(members)))


def _vectors(count: int, seed: int, dimension: int = 24) -> np.ndarray:
    """Unit vectors in a cone, some of them copies of others with noise of all sizes."""
    generator = np.random.default_rng(seed)
    vectors = generator.normal(size=(count, dimension)) + 0.3
    copies = generator.integers(0, count, count // 2)
    noise = generator.normal(size=(len(copies), dimension)) * generator.uniform(0, 1.5, (len(copies), 1))
    vectors[: len(copies)] = vectors[copies] + noise
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(near_images, "PRODUCT_SIDE", 7)


def test_more_pairs_than_are_in_memory_at_a_time_have_the_cosines_that_each_has_alone():
    vectors, count = _vectors(40, 0), PAIRS_AT_ONCE + 7
    one, other = np.arange(count) % 40, np.arange(count) // 40 % 40
    alone = [cosines_of_pairs(vectors, vectors, one[[n]], other[[n]])[0] for n in range(count)]
    assert cosines_of_pairs(vectors, vectors, one, other).tolist() == alone


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(0, 60), cosine_min=st.sampled_from([0.0, 0.5, 0.9, 0.99]))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_exactly_the_pairs_within_the_cosine_are_found(small_blocks, seed, count, cosine_min):
    vectors = _vectors(count, seed)
    i, j, _ = cosine_pairs(vectors, cosine_min)
    found = list(zip(i.tolist(), j.tolist(), strict=True))
    exact = vectors.astype(np.float64) @ vectors.T.astype(np.float64)
    sure, possible = (
        set(zip(*np.nonzero(np.triu(exact >= cosine_min + off, 1)), strict=True)) for off in (1e-6, -1e-6)
    )
    assert found == sorted(set(found))
    assert sure <= set(found) <= possible


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(0, 60), cosine_min=st.sampled_from([0.0, 0.5, 0.9, 0.99]))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_pair_has_its_cosine(small_blocks, seed, count, cosine_min):
    vectors = _vectors(count, seed)
    i, j, cosines = cosine_pairs(vectors, cosine_min)
    exact = vectors.astype(np.float64) @ vectors.T.astype(np.float64)
    assert np.allclose(cosines, exact[i, j], atol=1e-6)


def test_a_cosine_does_not_depend_on_which_rows_are_compared_together(small_blocks):
    vectors = _vectors(40, 0)
    _, _, together = close_rows(vectors, vectors, -1.0)
    alone = [close_rows(vectors[i : i + 1], vectors[j : j + 1], -1.0)[2][0] for i in range(40) for j in range(40)]
    assert together.tolist() == alone


def _in_tf32(vectors: np.ndarray, _: str) -> np.ndarray:
    """Each number cut to 10 bits, which is the worst that a card may do."""
    return (vectors.view(np.uint32) & 0xFFFFE000).view(np.float32)


@pytest.mark.parametrize("on_device", [_in_tf32, near_images._on_device])
def test_pairs_are_the_same_on_every_device(small_blocks, monkeypatch, on_device):
    pytest.importorskip("torch")
    vectors = _vectors(100, 1, 256)
    limits = [float(each) for each in cosine_pairs(vectors, 0.5)[2]]
    expected = [cosine_pairs(vectors, limit) for limit in limits]
    monkeypatch.setattr(near_images, "_on_device", on_device)
    found = [cosine_pairs(vectors, limit, "cpu:0") for limit in limits]  # a device of torch, not numpy's `cpu`
    assert [[each.tobytes() for each in some] for some in found] == [[e.tobytes() for e in some] for some in expected]


def test_a_vector_that_is_no_number_hides_no_pair(small_blocks):
    vectors = np.vstack([_vectors(40, 2), np.full((1, 24), np.nan, np.float32)])
    assert cosine_pairs(vectors, 0.9)[0].tolist() == cosine_pairs(vectors[:-1], 0.9)[0].tolist() != []
