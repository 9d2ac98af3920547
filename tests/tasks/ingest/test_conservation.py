"""Every line ends in exactly one place, and the tables say what a plain reading of the lines says."""

from collections import Counter, defaultdict

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.ingest.log_line import Place
from tasks.ingest.read_logs import LogContent
from tasks.storage.keyed_ids import Pseudonyms
from tests.tasks.ingest.logs import DAY, chat, conv_id, image_name, ingested, line, state, vote, write

GOOD = [
    chat("a", images=[image_name("p")]),
    chat("b", beside=[image_name("q")]),
    chat("c", has_csam_image=False),
    vote("a", "b"),
    vote(state("c"), state("d"), models=["### Model A: model-x", "### Model B: model-x"]),
]
odd_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300)
@given(record=st.sampled_from(GOOD), damage=st.data())
def test_a_mutated_line_never_raises_and_is_always_counted(record, damage):
    record = orjson.loads(line(record))
    if damage.draw(st.booleans(), "cut bytes out or put bytes in"):
        raw = bytearray(line(record))
        start = damage.draw(st.integers(0, len(raw)))
        raw[start : start + damage.draw(st.integers(0, 30))] = damage.draw(st.binary(max_size=10))
        raw = bytes(raw).replace(b"\n", b"")
    else:
        raw = line(_with_another_value(record, damage))
    _assert_counted(raw)


def _with_another_value(record, damage):
    """The record with one value, anywhere in it, replaced by something else."""
    place = record
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return record
        key = damage.draw(st.sampled_from(keys))
        if isinstance(place[key], dict | list) and damage.draw(st.booleans()):
            place = place[key]
            continue
        place[key] = damage.draw(odd_json.filter(lambda value: value == value))
        return record


def _assert_counted(raw: bytes) -> LogContent:
    content = LogContent()
    content.add_line(raw, Place("log", 2), False, Pseudonyms(b"k" * 16), {})
    lines = {seen.line for seen in content.sightings} | {row.line for row in content.rejects}
    assert content.line_count == 1 and lines == {2}
    assert not (content.sightings and content.rejects)
    return content


NAMES, MODELS = "abcd", ["gpt-4", "llava", "qwen-vl"]
WINNERS = {"leftvote": "model_a", "rightvote": "model_b", "tievote": "tie", "bothbad_vote": "tie_bothbad"}
SIDE_BY_SIDE = [*WINNERS, "share"]
FILES = ["vision-tmp-2024-06-20-conv.json", "server1/2024-06-20-conv.jsonl.zst", "2024-06-21-conv.json"]
SHOWN = {
    "hidden": lambda models: ["", ""],
    "revealed": lambda models: [f"### Model {side}: {model}" for side, model in zip("AB", models, strict=True)],
    "named": lambda models: models,
}
said = st.lists(st.sampled_from(["Q", "A", "", None, "é\n\u2028"]), min_size=1, max_size=4)


@st.composite
def states(draw, name: str):
    """A state of one of the conversations, half of which have an image."""
    texts, model = draw(said), draw(st.sampled_from(MODELS))
    images = [image_name(name)] if name in "ab" else None
    shots = draw(st.sampled_from([[], ["shot", "shot"]]))
    made = state(name, *texts, images=images, model_name=model)
    made["messages"] = [["user", text] for text in shots] + made["messages"]
    return made | {"offset": len(shots)}, texts


@st.composite
def records(draw):
    """(record, its states as (conv_id, texts, model), the names shown) in one of the spellings."""
    at = draw(st.integers(0, 300))
    if draw(st.booleans()):
        name, kind = draw(st.sampled_from(NAMES)), draw(st.sampled_from(["chat", "upvote", "downvote", "flag"]))
        made, texts = draw(states(name))
        return chat(state=made, model=made["model_name"], at=at, kind=kind), [(name, texts, made["model_name"])], None
    names, kind = draw(st.permutations(NAMES).map(lambda order: order[:2])), draw(st.sampled_from(SIDE_BY_SIDE))
    sides = [draw(states(name)) for name in names]
    models, shown = [made["model_name"] for made, _ in sides], draw(st.sampled_from(sorted(SHOWN)))
    record = vote(*(made for made, _ in sides), kind, at=at, models=SHOWN[shown](models))
    return record, [(name, texts, model) for name, (_, texts), model in zip(names, sides, models, strict=True)], shown


def plainly(files) -> tuple[Counter, Counter]:
    """(conversations, battles) of a log: the last that is said of each opening of each conv_id.

    A battle is the last vote of both its conversations.
    """
    lines = [
        (record["tstamp"], file.removesuffix(".zst"), line, record["type"], sides, shown)
        for file, found in files.items()
        for line, (record, sides, shown) in enumerate(found, 1)
    ]
    of_key, votes, last_vote_of = defaultdict(list), [], {}
    for *_, kind, sides, shown in sorted(lines, key=lambda line: line[:3]):
        keys = [(conv_id(name), texts[0] or "") for name, texts, _ in sides]
        for key, (_, texts, model) in zip(keys, sides, strict=True):
            of_key[key].append((texts, model, kind))
        if kind in WINNERS:
            last_vote_of |= dict.fromkeys(keys, len(votes))
            votes.append((tuple(keys), (WINNERS[kind], *(model for *_, model in sides), shown != "named")))
    conversations = Counter(
        (
            key,
            tuple(text or "" for text in seen[-1][0]),
            tuple(place for place, text in enumerate(seen[-1][0]) if text is None),
            seen[-1][1],
            any(kind in WINNERS for *_, kind in seen),
            frozenset(kind for *_, kind in seen) & {"upvote", "downvote", "flag"},
        )
        for key, seen in of_key.items()
    )
    battles = (vote for number, vote in enumerate(votes) if all(last_vote_of[key] == number for key in vote[0]))
    return conversations, Counter(battles)


def told(store) -> tuple[Counter, Counter]:
    """The same of the tables."""
    rows = store.read("conversations").to_dicts()
    keys = {row["conversation_id"]: (row["conversation_id"][:32], row["turns"][0]["content"]) for row in rows}
    conversations = Counter(
        (
            keys[row["conversation_id"]],
            tuple(turn["content"] for turn in row["turns"]),
            tuple(row["null_turns"]),
            row["model"],
            row["voted"],
            frozenset(row["feedback"]),
        )
        for row in rows
    )
    battles = store.read("battles").select(
        "conversation_a", "conversation_b", "winner", "model_a", "model_b", "anonymous"
    )
    return conversations, Counter(((keys[a], keys[b]), tuple(rest)) for a, b, *rest in battles.iter_rows())


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(files=st.dictionaries(st.sampled_from(FILES), st.lists(records(), min_size=1, max_size=12), min_size=1))
def test_the_tables_say_what_the_lines_say(tmp_path_factory, files):
    logs = tmp_path_factory.mktemp("logs")
    for file, found in files.items():
        write(logs, file, *(record for record, *_ in found))
    store = ingested(logs, logs / "store")
    assert store.read("rejects").drop_nulls("line").is_empty()
    assert store.read("sightings").height == sum(len(sides) for found in files.values() for _, sides, _ in found)
    assert told(store) == plainly(files)


def test_an_unknown_format_is_one_clear_line(refused, tmp_path):
    write(tmp_path / "logs", DAY, chat("a"))
    given = ("--logs", tmp_path / "logs", "--store", tmp_path / "store", "--format", "vision-arena-chta")
    for command in ("ingest", "run"):
        assert "Did you mean vision-arena-chat?" in refused(command, *given)


def test_a_folder_of_something_else_says_what_could_be_there(refused, tmp_path):
    write(tmp_path / "logs", "rows.jsonl", {"prompt": "alice@example.com"})
    err = refused("ingest", "--logs", tmp_path / "logs", "--store", tmp_path / "store")
    assert "columns: prompt" in err and "lmsys-chat" in err and "alice" not in err
