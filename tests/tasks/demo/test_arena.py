"""The demo's files: arena, answers and items are reproducible, complete, of the requested size, with planted faults."""

import csv
import hashlib
import ipaddress
import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import PIL.Image
import pytest

from schemas.benches.bench import BenchItem
from schemas.errors import BadInput
from tasks.demo.answers import BASELINE, SENTENCES, demo_answers, write_answers
from tasks.demo.arena import SERVER_LOG, generate_arena
from tasks.demo.items import files_of, write_demo_items
from tasks.demo.planted import EXPECTATIONS
from tasks.demo.planted_evidence import read_facts
from tasks.demo.problems import PLANTERS
from tasks.demo.problems.lines import SPOILERS
from tasks.demo.records import models
from tasks.ingest.image_files import preset_files
from tasks.ingest.log_files import lines, log_files
from tasks.ingest.log_line import Place
from tasks.ingest.read_logs import LogContent
from tasks.judging.files.answer_files import read_answers
from tasks.judging.questions import bench_of_store
from tasks.storage.keyed_ids import Pseudonyms
from tasks.written_bench.item_files import load_families, read_items
from tests.builders import conversation, decision, drawn_image, image, store_with

DOCUMENTATION = [
    ipaddress.ip_network(block) for block in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32")
]


def tree(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def read(arena: Path) -> LogContent:
    content, people = LogContent(), Pseudonyms(b"0123456789abcdef")
    for file in log_files(arena / "logs"):
        for number, raw in lines(file):
            content.add_line(raw, Place(file.source, number), file.csam, people, {})
    return content


def records(arena: Path, file_glob: str = "*-conv.json"):
    """(file name, record) of every line that is a JSON object."""
    for file in log_files(arena / "logs"):
        if file.path.match(file_glob):
            for _, raw in lines(file):
                try:
                    record = json.loads(raw)
                except (ValueError, RecursionError):
                    continue
                if isinstance(record, dict):
                    yield file.source, record


def test_same_seed_gives_the_same_bytes_and_every_kind_is_planted_and_can_be_scored(arena, tmp_path):
    generate_arena(tmp_path / "again", conversations=40, battles=20, seed=5)
    assert tree(tmp_path / "again") == tree(arena)
    facts = read_facts(arena / "expected.jsonl")
    assert set(facts) == {*PLANTERS, "model_strengths"} <= set(EXPECTATIONS)
    assert [kind for kind in PLANTERS if len(facts[kind]) < 2] == ["hot_prompt"]
    assert facts["hot_prompt"][0]["count"] > 10


def facts_of(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "expected.jsonl").read_text().splitlines()]


def test_traffic_is_as_asked_for_and_images_stand_where_each_era_names_them(clean_arena):
    content = read(clean_arena)
    voted = {s.conv_id for s in content.sightings if s.winner is not None}
    assert len({s.conv_id for s in content.sightings} - voted) == 40
    assert len(voted) == 2 * 20
    assert sum(s.winner is not None and s.side == 0 for s in content.sightings) == 20
    assert content.rejects == []
    assert [fact["kind"] for fact in facts_of(clean_arena)] == ["model_strengths"]
    early = [record for _, record in records(clean_arena, "2024-04-*")]
    assert {type(text) for record in early for state in states(record) for _, text in state["messages"]} == {str}
    assert all(("images" in record) == (record["type"] == "chat") for record in early if record["type"] != "upvote")
    times: dict[str, list[float]] = {}
    for name, record in records(clean_arena):
        times.setdefault(name, []).append(record["tstamp"])
    assert all(first <= second for stamps in times.values() for first, second in pairwise(stamps))
    later = list(records(clean_arena, "vision-tmp-*"))
    assert len(later) > 20
    for name, record in later:
        for state in states(record):
            assert re.fullmatch(r"[0-9a-f]{32}", state["messages"][0][1][1][0])
            assert ("has_csam_image" in state) == ("2024-08" in name)


def states(record: dict) -> list[dict]:
    return record["states"] if "states" in record else [record["state"]]


def test_addresses_come_from_documentation_ranges(arena):
    addresses = {record["ip"] for _, record in records(arena) if "ip" in record}
    text_log = (arena / "logs" / SERVER_LOG).read_text()
    addresses |= set(re.findall(r"ip: (\S+)", text_log))
    assert len(addresses) > 10
    for address in addresses:
        assert any(ipaddress.ip_address(address) in block for block in DOCUMENTATION), address


def test_stronger_models_win_more_often(tmp_path):
    generate_arena(tmp_path / "votes", conversations=0, battles=1500, problems=False, images_max=20)
    wins: Counter[str] = Counter()
    for _, record in records(tmp_path / "votes"):
        if record["type"] in ("leftvote", "rightvote"):
            wins[record["states"][record["type"] == "rightvote"]["model_name"]] += 1
    (strengths,) = (fact["models"] for fact in facts_of(tmp_path / "votes"))
    ordered = [wins[model] for model in sorted(strengths, key=strengths.get, reverse=True)]
    assert sum(ordered[:3]) > 1.2 * sum(ordered[3:6]) > 1.2 * 1.2 * sum(ordered[6:])


@pytest.mark.parametrize(("conversations", "battles"), [(1, 0), (0, 1), (10, 0)])
def test_an_arena_of_any_size_can_be_drawn(tmp_path, conversations, battles):
    generate_arena(tmp_path / "tiny", conversations=conversations, battles=battles, problems=False)
    found = {state["conv_id"] for _, record in records(tmp_path / "tiny") for state in states(record)}
    assert len(found) == conversations + 2 * battles


def test_planted_bad_lines_alone_are_rejected_and_known_by_the_hash_of_their_bytes(arena):
    content, facts = read(arena), read_facts(arena / "expected.jsonl")
    rejected = {(row.source, row.line) for row in content.rejects if row.reason != "csam_flagged"}
    assert rejected == {(fact["file"], fact["line"]) for fact in facts["bad_line"]}
    assert len(rejected) == len(SPOILERS) + 1
    for fact in facts["bad_line"]:
        line = (arena / "logs" / fact["file"]).read_bytes().split(b"\n")[fact["line"] - 1]
        assert hashlib.sha256(line.rstrip(b"\r")).hexdigest() == fact["sha256"]
    assert {fact["conversation_id"] for fact in facts["csam_flag"]} <= content.flagged_conv_ids


def test_images_are_named_by_their_pixels_and_every_named_one_is_there(arena, clean_arena):
    folder = clean_arena / "logs" / "serve_images"
    assert {name for each in read(clean_arena).sightings for name in each.images} <= {f.stem for f in folder.iterdir()}
    for file in folder.glob("*.png"):
        with PIL.Image.open(file) as image:
            assert image.mode == "RGBA" and max(image.size) <= 512
            assert hashlib.md5(image.tobytes(), usedforsecurity=False).hexdigest() == file.stem
    presets = {preset.path for preset in preset_files(arena / "presets")}
    assert presets == {path.name for path in (arena / "presets").glob("*.jpg")} != set()


def test_one_image_in_seven_is_an_example_of_the_arena_as_visitors_pick_them(clean_arena):
    examples = set()
    for file in (clean_arena / "presets").glob("*.jpg"):
        with PIL.Image.open(file) as image:
            examples.add(hashlib.md5(image.convert("RGBA").tobytes(), usedforsecurity=False).hexdigest())
    shown = [name for each in read(clean_arena).sightings for name in each.images]
    assert 0.08 < sum(name in examples for name in shown) / len(shown) < 0.25
    pool = {file.stem for file in (clean_arena / "logs" / "serve_images").iterdir()}
    assert len(examples) / len(pool) == pytest.approx(0.15, abs=0.04)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"conversations": -1}, "cannot draw"), ({"battles": -1}, "cannot draw"), ({"images_max": 0}, "cannot draw"),
        ({}, "unfinished"),
    ],
)  # fmt: skip
def test_impossible_sizes_and_folders_in_use_are_refused(clean_arena, tmp_path, wrong, told):
    (tmp_path / "begun" / "logs").mkdir(parents=True)
    with pytest.raises(BadInput, match=told):
        generate_arena(tmp_path / ("none" if wrong else "begun"), **wrong)
    assert not (tmp_path / "none").exists()
    with pytest.raises(BadInput, match="holds an arena already"):
        generate_arena(clean_arena)


PROMPTS = 20


def _store(folder):
    """Twenty prompts, each on an image of its own, about which four sentences were logged."""
    images = [drawn_image(seed) for seed in range(PROMPTS)]
    said = [" ".join(f"Thing {n} has part {part}." for part in range(SENTENCES)) for n in range(PROMPTS)]
    asked = [
        conversation(f"q{n:02d}", f"What is it, number {n}?", said[n], image_ids=[images[n].image_id])
        for n in range(PROMPTS)
    ]
    return store_with(
        folder,
        conversations=asked,
        decisions=[decision(each) for each in asked],
        images=[image(each) for each in images],
        bench=[BenchItem(conversation_id=e.conversation_id, document_id=e.document_id, topic=0) for e in asked],
    )


def test_stronger_models_say_more_that_is_right_and_nothing_longer(tmp_path):
    answers = demo_answers(_store(tmp_path), 0)
    assert list(answers) == [model.name for model in models()]
    right = [
        sum(text.count(f"Thing {int(asked[1:])} ") for asked, text in of_model.items()) / (PROMPTS * SENTENCES)
        for of_model in answers.values()
    ]
    assert right[0] > 0.85 > 0.5 > right[-1]
    assert {text.count(".") for of_model in answers.values() for text in of_model.values()} == {SENTENCES}


def test_answer_files_are_the_same_again_and_are_read_as_answers_of_every_model(tmp_path):
    store = _store(tmp_path)
    for folder in ("one", "two"):
        write_answers(demo_answers(store, 0), tmp_path / folder)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in files)
    read = read_answers(tmp_path / "one", bench_of_store(store, hidden=False).questions)
    assert (len(read.answers), BASELINE in {each.model for each in read.answers}) == (len(models()) * PROMPTS, True)
    assert json.loads((tmp_path / "one" / files[0]).read_text().splitlines()[0])["question_id"] == "q00"


def test_items_are_readable_reproducible_and_planted(tmp_path):
    digests = []
    for name in ("a", "b"):
        write_demo_items(tmp_path / name, 24, 0)
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        digests.append([hashlib.sha256(path.read_bytes()).hexdigest() for path in files])
    assert digests[0] == digests[1] and len(digests[0]) == 24 + 2 + 4 + 3  # two items have two pictures
    files = files_of(tmp_path / "a")
    items = read_items(files["items"], load_families())
    assert {item.problem for item in items} == {""} and len({item.family for item in items}) == 11
    faults = {fact["item_id"]: fact["fault"] for fact in map(json.loads, files["expected"].read_text().splitlines())}
    assert sorted(faults.values()) == ["caption"] * 2 + ["reference"] * 4
    rated = list(csv.DictReader(files["raters"].read_text().splitlines()))
    careful = [row for row in rated if row["rater"] in ("ann", "bea")]
    assert all((row["correct"] == "no") == (row["item"] in faults) for row in careful)
    assert {row["correct"] for row in rated if row["rater"] == "dan"} == {"yes"}
