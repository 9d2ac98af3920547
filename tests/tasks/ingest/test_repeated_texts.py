"""Lines grow: what a later line says again is stored once, and nothing that any line said is lost."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tasks.ingest.logs import DAY, chat, conv_id, image_name, ingested, rejected, state, texts, vote, write

TURNS = ("Q1", "A1", "Q2", "A2", "Q3", "A3")


def stored(store) -> dict[int, list[list[str] | None]]:
    """Line -> the texts stored with its states."""
    rows = store.read("sightings").sort("line", "side").group_by("line", maintain_order=True).agg("texts")
    return dict(rows.iter_rows())


def test_texts_that_the_next_line_of_a_conversation_begins_with_are_stored_once(tmp_path):
    left, right = state("a", *TURNS[:4]), state("b", *TURNS[:2], model_name="y")
    write(
        tmp_path / "logs", DAY, chat("a", *TURNS[:2]), chat("a", *TURNS[:4]), chat("b", *TURNS[:2]), vote(left, right)
    )
    store = ingested(tmp_path / "logs", tmp_path / "store")
    assert stored(store) == {1: [None], 2: [None], 3: [None], 4: [list(TURNS[:4]), list(TURNS[:2])]}
    assert store.read("sightings").sort("line", "side")["num_messages"].to_list() == [2, 4, 2, 4, 2]
    assert [texts(row) for row in store.read("conversations").to_dicts()] == [
        list(TURNS[:4]),
        list(TURNS[:2]),
    ]


def test_an_answer_that_was_regenerated_keeps_the_texts_of_both(tmp_path):
    write(tmp_path / "logs", DAY, chat("a", "Q", "first"), chat("a", "Q", "second", at=5))
    assert stored(ingested(tmp_path / "logs", tmp_path / "store")) == {1: [["Q", "first"]], 2: [["Q", "second"]]}


def test_a_line_that_is_last_by_its_time_has_its_own_messages_and_no_more(tmp_path):
    write(tmp_path / "logs", DAY, chat("a", *TURNS[:2], at=9), chat("a", *TURNS[:4], at=5), chat("a", *TURNS, at=1))
    store = ingested(tmp_path / "logs", tmp_path / "store")
    assert stored(store)[1] == [None]
    (row,) = store.read("conversations").to_dicts()
    assert (texts(row), row["line"], row["num_turns"]) == (list(TURNS[:2]), 1, 1)


def test_nothing_leans_on_a_last_line_that_a_server_may_still_be_writing(tmp_path):
    path = write(tmp_path / "logs", DAY, chat("a", *TURNS[:2]), chat("a", *TURNS[:4], at=5), end=b"")
    (row,) = ingested(tmp_path / "logs", tmp_path / "store").read("conversations").to_dicts()
    assert texts(row) == list(TURNS[:4])
    path.write_bytes(path.read_bytes() + b"x\n")
    store = ingested(tmp_path / "logs", tmp_path / "store")
    assert rejected(store) == {(DAY, 2): "not_json"}
    assert [texts(row) for row in store.read("conversations").to_dicts()] == [list(TURNS[:2])]


names = st.sampled_from("ab")
shown = st.none() | st.sampled_from("pq").map(lambda name: [image_name(name)])
grown = st.builds(
    lambda name, count, images, at: (name, TURNS[:count], images, at),
    names,
    st.integers(1, 6),
    shown,
    st.integers(0, 50),
)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(lines=st.lists(grown, min_size=1, max_size=12))
def test_conversations_are_those_of_lines_that_are_read_one_a_file(tmp_path_factory, lines):
    """Nothing is left out across files, so one line a file is the reading without leaving out."""
    folder = tmp_path_factory.mktemp("lines")
    records = [chat(name, *said, images=images, at=at) for name, said, images, at in lines]
    write(folder / "together", DAY, *records)
    for number, record in enumerate(records):
        write(folder / "apart", f"{number:02d}/{DAY}", record)
    together, apart = (ingested(folder / name, folder / f"{name}-store") for name in ("together", "apart"))
    one, other = (store.read("conversations").drop("source", "line", "user_id") for store in (together, apart))
    assert one.equals(other)
    assert set(one["conversation_id"].str.slice(0, 32)) == {conv_id(name) for name, *_ in lines}
    assert apart.read("sightings")["texts"].null_count() == 0
