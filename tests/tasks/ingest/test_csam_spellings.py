"""However a server spells that something is child abuse, it is held back; whoever only writes about it is not."""

import json
import random
from itertools import chain

import pytest

from schemas.errors import BadInput
from tasks.ingest.log_files import log_files
from tasks.ingest.quarantine import line_is_flagged, row_is_flagged
from tests.tasks.ingest.logs import DAY, chat, conv_id, image_name, ingested, line, rejected, served, state, vote, write
from tests.tasks.ingest.test_csam_flags import KINDS, NO, ROW_PLACES, YES, states_of
from tests.tasks.ingest.test_formats import ROWS, put

BAD, GOOD = image_name("bad"), image_name("good")
SEPARATORS = [*"_-./:|~+ \t", "__", " - ", "\u2013", "\u00b7", "\u200b"]
WORDS = ["has", "is", "image", "Flagged", "scan", "v2", "CHECK", "by", "server"]
LISTS = ["flags", "labels", "tags", "reasons", "category", "note", "flag_type", "verdicts"]


def letters(chance: random.Random, separators: list[str]) -> str:
    """The letters in any case, with any of the separators between them or none."""
    sides = [chance.choice([str.lower, str.upper])(letter) for letter in "csam"]
    between = [chance.choice(separators) if chance.random() < 0.7 else "" for _ in range(3)]
    return "".join(chain(*zip(sides, [*between, ""], strict=True)))


def spelled(chance: random.Random, separators: list[str] = SEPARATORS) -> str:
    """A name with the letters in it: with words before and after, in camel case or with separators."""
    before, after = (chance.sample(WORDS, chance.randrange(3)) for _ in range(2))
    joint = chance.choice([*separators, ""])
    word = letters(chance, chance.choice([[""], separators]))
    return joint.join([*before, word, *after])


def minors(chance: random.Random) -> str:
    name = chance.choice(["/", "_", "-", "", " ", "\\/"]).join(["sexual", chance.choice(["minors", "Minors"])])
    return chance.choice([str, str.upper])(name)


def flag(chance: random.Random) -> dict:
    """A flag: a key with a value that is no plain no, a true category, or a string that names one."""
    form = chance.randrange(4)
    if form == 0:
        return {spelled(chance): chance.choice(YES)}
    if form == 1:
        scores = {"category_scores": {"sexual/minors": 0.9}}
        return {
            "moderation": {"categories": {"sexual": False, minors(chance): chance.choice([True, "true", 1])}, **scores}
        }
    named = chance.choice([spelled(chance, [""]), spelled(chance, ["_"]), spelled(chance, ["-"]), minors(chance)])
    return {chance.choice(LISTS): [named] if form == 2 else named}


def nested(chance: random.Random, found: dict) -> dict:
    """The same deep in objects, lists and JSON in strings."""
    for _ in range(chance.randrange(4)):
        found = chance.choice(
            [{"meta": found}, {"all": [1, found]}, {"json": json.dumps(found)}, {"x": {"y": [found]}}]
        )
    return found


def placed(chance: random.Random, record: dict, found: dict) -> dict:
    """The record with something in any place: the record itself, a state, its parameters, or a message."""
    record, place = json.loads(line(record)), chance.randrange(5)
    if place == 0:
        return record | nested(chance, found)
    if place == 1:
        return nested(chance, found) | record
    if place == 2:
        chance.choice(states_of(record)).update(nested(chance, found))
    elif place == 3:
        record["gen_params"] = nested(chance, found)
    else:  # strings in a message are somebody's words, unless they are under a key such as `flags`
        states_of(record)[0]["messages"].append(["user", {"moderation": found}])
    return record


@pytest.mark.parametrize("seed", range(20))
def test_a_flag_of_any_spelling_in_any_place_of_any_record_is_found(seed):
    chance = random.Random(seed)
    for _ in range(40):
        record = placed(chance, chance.choice(list(KINDS.values())), flag(chance))
        raw = json.dumps(record, ensure_ascii=chance.random() < 0.5).encode()
        assert line_is_flagged(raw), raw
        assert row_is_flagged(record), raw


def talk_about(chance: random.Random) -> list[str]:
    """What people may write about it."""
    said = spelled(chance)
    return [
        said,
        f"What is {said}? {minors(chance)}",
        json.dumps({said: True}),
        json.dumps([said]),
        f"music {said} topics",
    ]


@pytest.mark.parametrize("seed", range(20))
def test_a_plain_no_a_score_and_what_people_write_are_no_flags(seed):
    chance = random.Random(seed)
    for _ in range(20):
        question, answer = chance.choices(talk_about(chance), k=2)
        kind = chance.choice(["chat", "upvote", "flag", "vote"])
        record = (
            vote(state("a", question, answer, images=[GOOD]), state("b", question, "B")) | {"reason": question}
            if kind == "vote"
            else chat("a", question, answer, kind=kind, system_message=f"Refuse {spelled(chance)}.", images=[GOOD])
        )
        scores = {"categories": {minors(chance): False}, "category_scores": {minors(chance): chance.random()}}
        no = {spelled(chance): chance.choice(NO), **scores, "category_applied_input_types": {"sexual/minors": ["text"]}}
        raw = json.dumps(placed(chance, record, no)).encode()
        assert not line_is_flagged(raw), raw


def test_a_reason_is_a_flag_unless_a_visitor_wrote_it():
    assert line_is_flagged(line(chat("a") | {"reason": "CSAM detected"}))
    assert line_is_flagged(line(vote("a", "b") | {"blocked": {"reason": "csam"}}))
    for record in (vote("a", "b"), chat("a", kind="upvote"), chat("a", kind="flag")):
        assert not line_is_flagged(line(record | {"reason": "csam"}))
    assert not row_is_flagged({"winner": "model_a", "reason": "csam", "vote_reason": "csam"})
    assert not line_is_flagged(line(chat("a") | {"request_id": "aB3CsAm9x"}))
    assert not line_is_flagged(line(chat("a", "\x1f < a \u00e9 \ud83d") | {"gen_params": '{"a": '}))
    for said in ('What does "has_csam_image": true mean?', '{"has_csam_image": true}', '["\\"has_csam_image\\": 1"]'):
        record = chat("a", said, said, has_csam_image=False) | {"gen_params": {"has_csam_image": "no"}}
        assert not line_is_flagged(line(record))
        assert not line_is_flagged(line(record | {"state": json.dumps(record["state"])}))
        assert not line_is_flagged(line(vote(state("a", said), "b") | {"reason": said}))


def test_a_log_of_all_record_types_loses_what_is_flagged_and_nothing_else(tmp_path):
    chance, records, bad = random.Random(7), [], []
    for number, kind in enumerate(kind for kind in KINDS if kind != "unknown"):
        bad.append(image_name(f"bad{number}"))
        record = json.loads(line(KINDS[kind]).replace(BAD.encode(), bad[-1].encode()))
        records.append(placed(chance, record, flag(chance)))
    logs = served(tmp_path / "logs", GOOD, *bad)
    shown = [chat(f"shown{number}", images=[name]) for number, name in enumerate(bad)]
    words = [chat(f"good{n}", *talk_about(chance)[:2], at=n, images=[GOOD], kind="chat") for n in range(9)]
    write(logs, DAY, *records, *shown, *words)
    store = ingested(logs, tmp_path / "store", looked := [])
    assert set(rejected(store).values()) == {"csam_flagged"} and len(rejected(store)) == 18
    assert set(store.read("conversations")["conversation_id"]) == {conv_id(f"good{n}") for n in range(9)}
    assert len(set(looked)) == 1 and set(bad) <= set(store.read("quarantine")["key"])


def pretty(record: dict) -> bytes:
    return json.dumps(record, indent=2).encode()


FLAGGED = chat("bad", images=[BAD]) | {"flags": ["HAS-CSAM-IMAGE"]}
UNREADABLE = {
    "cut off": line(FLAGGED)[:-3],
    "flag first": line({"csamFlagged": "yes", **chat("bad", images=[BAD])})[:-2],
    "UTF-16": line(FLAGGED).decode().encode("utf-16"),
    "UTF-16 without a mark": line(FLAGGED).decode().encode("utf-16-be"),
    "over several lines": pretty(FLAGGED),
    "over several lines, category": pretty(chat("bad", images=[BAD]) | {"categories": {"sexual/minors": True}}),
    "over several lines in UTF-16": pretty(FLAGGED).decode().encode("utf-16-le"),
    "with a newline in a message": line(FLAGGED).replace(b"A cat.", b"A cat.\nIt sleeps."),
    "with lines that do not begin": json.dumps(FLAGGED, indent=0).encode(),
    "as Python prints it": repr(chat("bad", images=[BAD], has_csam_image=True)).encode(),
    "spaced": line(FLAGGED)[:-2].replace(b"CSAM", b"C S A M"),
}


@pytest.mark.parametrize("raw", UNREADABLE.values(), ids=UNREADABLE)
def test_images_of_a_flagged_line_that_cannot_be_read_are_never_opened(tmp_path, capfd, raw):
    logs = served(tmp_path / "logs", GOOD, BAD)
    write(logs, DAY, raw)
    write(logs, "vision-tmp-2024-06-21-conv.json", chat("other", images=[BAD]), chat("good", images=[GOOD]))
    store = ingested(logs, tmp_path / "store", looked := [])
    assert store.read("conversations")["conversation_id"].to_list() == [conv_id("good")]
    assert len(looked) == 1 and "csam_flagged" in rejected(store).values()
    assert f"{DAY}, line " in capfd.readouterr().err


def test_a_record_over_several_lines_that_came_on_two_days_is_held_back_whole(tmp_path):
    logs, parts = served(tmp_path / "logs", BAD), pretty(FLAGGED).splitlines()
    write(logs, DAY, *parts[:-4])
    write(logs, "vision-tmp-2024-06-21-conv.json", chat("other", images=[BAD]))
    assert ingested(logs, tmp_path / "store").read("images").height == 1
    write(logs, DAY, *parts)
    store = ingested(logs, tmp_path / "store")
    assert store.read("images").is_empty() and store.read("conversations").is_empty()


def test_a_flagged_broken_line_holds_back_its_own_record_and_not_the_broken_lines_around_it(tmp_path):
    logs = served(tmp_path / "logs", GOOD, BAD)
    good = line(chat("good", images=[GOOD]))
    write(logs, DAY, good[:-1], line(FLAGGED)[:-1], good[:-2], *pretty(chat("c", images=[GOOD])).splitlines(), good)
    store = ingested(logs, tmp_path / "store", looked := [])
    assert len(looked) == 1 and store.read("conversations")["conversation_id"].to_list() == [conv_id("good")]


def test_broken_lines_without_a_flag_hold_nothing_back(tmp_path):
    logs = served(tmp_path / "logs", GOOD)
    said = "The topics among these graphics. Samples of music; a must."
    scores = {"categories": {"sexual/minors": False}, "category_scores": {"sexual/minors": 1.2e-5}}
    whole = chat("a", said, said, images=[GOOD], has_csam_image=False) | {"isCSAM": "no", "moderation": scores}
    write(logs, DAY, line(whole)[:-2], repr(whole).encode(), *pretty(whole).splitlines(), chat("good", images=[GOOD]))
    store = ingested(logs, tmp_path / "store", looked := [])
    assert len(looked) == 1 and "csam_flagged" not in rejected(store).values()


@pytest.mark.parametrize("raw", [b'{"has-csam": true, ', b'"HasCSAMImage"', b"['csam']"])
def test_a_flag_of_which_nothing_can_be_read_ends_the_run_with_one_line_and_changes_nothing(tmp_path, raw):
    logs = served(tmp_path / "logs", GOOD)
    write(logs, DAY, raw, chat("a", images=[GOOD]))
    with pytest.raises(BadInput, match=rf"^log file '{DAY}', line 1: it is flagged [^\n]* remove it from the log$"):
        ingested(logs, tmp_path / "store", looked := [])
    write(logs, DAY, chat("a", images=[GOOD]))
    store = ingested(logs, tmp_path / "store", looked)
    assert len(looked) == 1 and store.read("conversations").height == 1


NAMES = [
    "vision-{}-2024-06-20-conv.json", "{}.jsonl", "2024-06-20-{}-conv.json.1", "{}/2024-06-20-conv.json",
    "Vision_{}_20240620.log", "eu/{}-flags.JSON",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_log_file_whose_name_holds_the_letters_is_flagged_as_a_whole(tmp_path, name):
    chance = random.Random(name)
    name = name.format(chance.choice(["", "-", "_"]).join(letters(chance, [""])))
    logs = served(tmp_path / "logs", GOOD, BAD)
    write(logs, name, chat("bad", images=[BAD]))
    write(logs, "2024-06-21-conv.json", chat("other", images=[BAD]), chat("good", images=[GOOD]))
    assert [file.source for file in log_files(logs) if file.csam] == [name]
    store = ingested(logs, tmp_path / "store", looked := [])
    assert store.read("conversations")["conversation_id"].to_list() == [conv_id("good")] and len(looked) == 1


COLUMNS, LINES = ["parquet", "arrow"], ["jsonl", "json", "jsonl.gz", "json.gz", "jsonl.zst", "json.zst"]


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kinds[n % len(kinds)]) for n, name in enumerate(ROWS) for kinds in (COLUMNS, LINES)]
)
def test_a_flag_of_any_spelling_in_a_row_of_a_dataset_is_found_and_scores_are_none(tmp_path, name, kind):
    chance = random.Random(name + kind)
    row = {key: None if key in ("image", "images") else value for key, value in ROWS[name].items()}
    id_column = next((each for each in ("conversation_id", "question_id", "id") if each in row), "id")
    scored = {"categories": {"sexual/minors": False}, "category_scores": {"sexual/minors": 0.99}, "flagged": True}
    put(tmp_path / "data" / "good", [row | {"openai_moderation": [scored], spelled(chance): False}], kind)
    flagged = [row | flag(chance) for _ in range(4)] + [place(row) for place in ROW_PLACES.values()]
    for number, each in enumerate(flagged):  # a file each, because a column has one type
        put(tmp_path / "data" / str(number), [each | {id_column: f"flagged{number}"}], kind)
    put(tmp_path / "data" / "csam-rows", [row | {id_column: "flagged-in-name"}], kind)
    store = ingested(tmp_path / "data", tmp_path / "store", format=name)
    assert list(rejected(store).values()) == ["csam_flagged"] * 8 and not store.read("quarantine").is_empty()
    assert {source.partition("/")[0] for source in store.read("sightings")["source"]} == {"good"}


@pytest.mark.parametrize("depth", [100, 700, 5000, 200_000])
def test_a_flag_that_is_nested_as_deep_as_it_may_be_is_one(depth):
    deep = '{"csam": ' + "[" * depth + "true" + "]" * depth + "}"
    assert line_is_flagged(deep.encode()) and line_is_flagged(line({"meta": deep})) and row_is_flagged({"meta": deep})
