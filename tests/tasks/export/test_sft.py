"""`curate export sft`: the same examples for the same seed, within every cap, and a card that says what it is."""

import io
import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import PIL.Image
import polars as pl
import pyarrow.parquet as pq
import pytest
import yaml
from datasets import Image, List, load_dataset

from schemas.items.test_sets import TEST_SET_MARK
from schemas.publication import SftStyle
from tasks.export.sft import as_trainers_read, llava_example, marked, messages_example, sharegpt_example
from tasks.storage.content_id import text_id
from tests.hostile_texts import HOSTILE_TEXTS
from tests.hub_repo import Repo
from tests.hub_server import LoopbackHub
from tests.places import contents
from tests.small_store import HOSTILE_PROMPT, MODELS, manifest_of
from tests.tampered_release import BATTLE, CHAT, as_of_layout, card_says, rewrite, state_rows
from tests.tasks.export.conftest import examples, limits, shown_by_code_of
from tests.tasks.ingest.logs import ingested
from tests.tasks.publish.conftest import reader_environment


def _best(release, count):
    """The models that are first by rank, then by votes."""
    board = pl.read_parquet(release / "leaderboard" / "overall.parquet").filter(slice="overall")
    ranked = board.sort("rank", "battles", "model", descending=[False, True, False], nulls_last=True)
    return set(ranked["model"].head(count))


def test_every_answered_conversation_of_the_best_models_with_its_images(sft, release):
    code, err, out = sft(*limits(models=2), "--set", "all_answers=true")
    assert code == 0, err
    chat = pl.read_parquet(release / "chat" / "data" / "*.parquet")
    wanted = chat.filter(pl.col("model").is_in(_best(release, 2)))
    rows = examples(out)
    assert {row["id"] for row in rows} == set(wanted["conversation_id"])
    by_id = {row["conversation_id"]: row for row in wanted.to_dicts()}
    for row in rows:
        there = by_id[row["id"]]
        texts = [part["text"] for turn in row["messages"] for part in turn["content"] if part["type"] == "text"]
        assert texts == [turn["content"] for turn in there["conversation"]]
        shown = [part for turn in row["messages"] for part in turn["content"] if part["type"] == "image"]
        assert len(shown) == len(row["images"]) == len(there["images"])
        for path in row["images"]:
            PIL.Image.open(io.BytesIO((out / path).read_bytes())).load()
    used = {path for row in rows for path in row["images"]}
    assert set(contents(out)) == {"README.md", "train.jsonl", *used}


def test_a_model_counts_once_though_the_board_rates_it_with_and_without_ties(sft, release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    board = pl.read_parquet(copy / "leaderboard" / "overall.parquet")
    others = [board.with_columns(slice=pl.lit(name)) for name in ("exclude_ties", "exclude_preset")]
    pl.concat([board, *others]).write_parquet(copy / "leaderboard" / "overall.parquet")
    _, _, out = sft(*limits(models=2), of=copy)
    assert {example["model"] for example in examples(out)} == _best(release, 2)


def test_equal_ranks_are_ordered_by_votes_and_a_model_without_a_rank_comes_last(sft, release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    board = pl.read_parquet(copy / "leaderboard" / "overall.parquet")
    first, second, third = MODELS[:3]
    told = {first: (2, 5, 1500.0), second: (2, 9, 1100.0), third: (None, 99, 9000.0)}
    names = ("rank", "battles", "rating")
    rows = [row | dict(zip(names, told.get(row["model"], (3, 1, 0.0)), strict=True)) for row in board.to_dicts()]
    pl.DataFrame(rows, board.schema).write_parquet(copy / "leaderboard" / "overall.parquet")
    taken = [{row["model"] for row in examples(sft(*limits(models=count), of=copy)[2])} for count in (1, 2)]
    assert taken == [{second}, {first, second}]


def test_refusals_and_answers_voted_bad_are_taken_only_when_asked_for(sft, release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    everything = {row["id"] for row in examples(sft("--set", "all_answers=true", of=copy)[2])}
    chat = {row["conversation_id"]: row for row in pl.read_parquet(copy / "chat" / "data" / "*.parquet").to_dicts()}
    refused = sorted(everything)[0]
    refusing = chat[refused]["categories"] | {"refusal": True}
    rewrite(
        copy, CHAT, lambda rows: [r | {"categories": refusing} if r["conversation_id"] == refused else r for r in rows]
    )
    voted = pl.read_parquet(copy / "battle" / "data" / "*.parquet").to_dicts()
    said = {(row["model"], *(turn["content"] for turn in row["conversation"])): name for name, row in chat.items()}
    sides = [
        name
        for row in voted[:2]
        for side in "ab"
        if (name := said.get((row[f"model_{side}"], *(turn["content"] for turn in row[f"conversation_{side}"]))))
    ]
    assert len(sides) > 1
    bad = {row["question_id"] for row in voted[:2]}
    winners = {True: "tie (bothbad)", False: "model_a"}
    rewrite(copy, BATTLE, lambda rows: [r | {"winner": winners[r["question_id"] in bad]} for r in rows])
    out = sft(of=copy)[2]
    assert {row["id"] for row in examples(out)} == everything - {refused, *sides}
    assert "\n* No conversation in which an answer refuses" in (out / "README.md").read_text()
    assert {row["id"] for row in examples(sft("--set", "all_answers=true", of=copy)[2])} == everything


def test_one_language_by_its_code_or_name_and_an_unknown_one_is_one_clear_line(sft, release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    rewrite(copy, CHAT, lambda rows: [row | {"language": ("German", "English")[n % 2]} for n, row in enumerate(rows)])
    for language in ("de", "German"):
        out = sft("--language", language, of=copy)[2]
        assert {row["language"] for row in examples(out)} == {"German"}
    assert "* Only in German." in (out / "README.md").read_text()
    code, err, out = sft("--language", "xx", of=copy)
    assert (code, err, out.exists()) == (2, "curate: --language 'xx'. Known: English, German.\n", False)


@pytest.mark.parametrize("category", ["hard", "instruction_following"])
def test_one_category_and_an_unknown_one_is_one_clear_line(sft, release, tmp_path, category):
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    told = (True, False, None)
    rewrite(copy, CHAT, lambda rows: [
        row | {"categories": row["categories"] | {category: told[number % 3]}} for number, row in enumerate(rows)
    ])  # fmt: skip
    rows = pq.read_table(copy / CHAT).to_pylist()
    tagged = {row["conversation_id"] for row in rows if row["categories"][category]}
    everything = {row["id"] for row in examples(sft(of=copy)[2])}
    out = sft("--category", category, of=copy)[2]
    assert {row["id"] for row in examples(out)} == everything & tagged
    assert everything & tagged and everything - tagged
    assert f"* Only of the category {category}." in (out / "README.md").read_text()
    code, err, out = sft("--category", "difficult", of=copy)
    assert (code, out.exists()) == (2, False)
    assert err.startswith("curate: --category 'difficult'. Known: captioning, ")


def test_a_category_that_a_release_of_an_earlier_layout_lacks_is_one_clear_line(sft, release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    as_of_layout(copy, 11)
    code, err, out = sft("--category", "instruction_following", of=copy)
    assert (code, err.count("\n"), out.exists()) == (2, 1, False)
    assert "longer_query" in err and err.count("instruction_following") == 1


def test_a_release_without_an_answer_is_one_clear_line(sft, release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    rewrite(copy, CHAT, lambda rows: [row | {"conversation": row["conversation"][:1]} for row in rows])
    code, err, out = sft(of=copy)
    assert (code, err.count("\n"), out.exists()) == (2, 1, False)
    assert err.endswith("no model of the overall leaderboard has a conversation to export\n")


def test_every_format_has_a_mark_and_a_path_for_every_image_and_alternating_roles(sft):
    _, _, out = sft("--example-format", "llava", "--file-format", "json")
    rows = json.loads((out / "train.json").read_text(encoding="utf-8"))
    assert len({row["id"] for row in rows}) == len(rows)
    for row in rows:
        assert sum(turn["value"].count("<image>") for turn in row["conversations"]) == 1
        assert (out / row["image"]).is_file()
        assert [turn["from"] for turn in row["conversations"]] == ["human", "gpt"] * (len(row["conversations"]) // 2)
    assert any(HOSTILE_PROMPT in row["conversations"][0]["value"] for row in rows)
    # As LLaMA-Factory 0.9.5 and ms-swift 4.6 check a row; both were tried on an export (docs/releasing.md).
    _, _, out = sft("--example-format", "sharegpt")
    told = json.loads((out / "dataset_info.json").read_text())["train"]
    assert (told["formatting"], told["columns"]) == ("sharegpt", {"messages": "conversations", "images": "images"})
    for line in (out / told["file_name"]).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        said = [turn["value"] for turn in row["conversations"]]
        assert sum(text.count("<image>") for text in said) == len(row["images"])
        assert [turn["from"] for turn in row["conversations"]] == ["human", "gpt"] * (len(said) // 2)
        assert all((out / path).is_file() for path in row["images"])


def talk(*turns):
    """A released row of these turns: (text, (image, character)…)."""
    said = [
        {
            "role": ("user", "assistant")[place % 2],
            "content": text,
            "images": [{"image": image, "character": character} for image, character in shown],
        }
        for place, (text, *shown) in enumerate(turns)
    ]
    return {"conversation_id": "c", "model": "m", "language": "English", "topic": None, "conversation": said}


@pytest.mark.parametrize(
    ("text", "places", "written"),
    [
        ("What is it?", [0], "<image>\nWhat is it?"),
        ("", [0, 0], "<image>\n<image>"),
        ("Is  like ?", [3, 9], "Is <image> like <image>?"),
        ("First\nsecond", [6], "First\n<image>\nsecond"),
        ("Look", [4, 4], "Look\n<image>\n<image>"),
        ("a<image>b", [1], "a<image>< image >b"),
    ],
)
def test_marks_stand_where_the_images_stood(text, places, written):
    assert marked(text, [{"image": n, "character": at} for n, at in enumerate(places)]) == written


def test_images_stay_with_their_turn_and_the_second_one_is_the_second():
    row = talk(("Is  like ?", (1, 3), (0, 9)), ("No.",), ("And this?", (2, 0), (1, 0)), ("Yes.",))
    shared = sharegpt_example(row, ["a", "b", "c"])
    assert shared["images"] == ["b", "a", "c", "b"]
    values = [turn["value"] for turn in shared["conversations"]]
    assert values == ["Is <image> like <image>?", "No.", "<image>\n<image>\nAnd this?", "Yes."]
    made = messages_example(row, ["a", "b", "c"])
    kinds = [[part["type"] for part in turn["content"]] for turn in made["messages"]]
    assert kinds == [["text", "image", "text", "image", "text"], ["text"], ["image", "image", "text"], ["text"]]
    assert made["images"] == shared["images"]


@pytest.mark.parametrize("example", [messages_example, sharegpt_example, llava_example])
def test_a_mark_that_somebody_typed_stands_for_no_image(example):
    """Processors of models replace the mark in a typed part, too."""
    assert "<image>" not in json.dumps(example(talk(("What does <image> do?",), ("<image> is a tag.",)), []))


@pytest.mark.parametrize(("shown", "image"), [([], None), (["a"], "a"), (["a", "b"], ["a", "b"])])
def test_llava_has_a_path_for_one_image_a_list_for_several_and_nothing_for_none(shown, image):
    written = as_trainers_read(llava_example(talk(("hi",), ("ho",)), shown))
    assert (written.get("image"), "image" in written) == (image, image is not None)
    assert written["conversations"][0]["value"].count("<image>") == len(shown)


@pytest.mark.parametrize("style", list(SftStyle))
@pytest.mark.parametrize("form", ["parquet", "json"])
def test_every_format_says_the_same_as_json_lines(sft, style, form):
    _, _, lines = sft("--example-format", style)
    _, _, table = sft("--example-format", style, "--file-format", form)
    found = pl.read_parquet(table / "train.parquet").to_dicts() if form == "parquet" else None
    found = found or json.loads((table / "train.json").read_text(encoding="utf-8"))
    assert [as_trainers_read(each) if form == "parquet" else each for each in found] == examples(lines)


@pytest.mark.parametrize("style", [SftStyle.LLAVA, SftStyle.SHAREGPT])
def test_parquet_has_the_same_columns_whatever_the_rows_hold(sft, release, tmp_path, style):
    bare = Path(shutil.copytree(release, tmp_path / "bare"))
    rewrite(bare, CHAT, lambda rows: [row | {"images": [], "topic": None} for row in rows])
    tables = [
        sft("--example-format", style, "--file-format", "parquet", of=each)[2] / "train.parquet"
        for each in (release, bare)
    ]
    schemas = [pq.read_schema(table) for table in tables]
    assert schemas[0].equals(schemas[1])
    assert "large" not in str(schemas[0])


def _with_images_in(release, folder, keeps_image) -> Path:
    """A copy of a release of which only some conversations have their image: those whose number `keeps_image` names."""
    copy = Path(shutil.copytree(release, folder))

    def bare(row):
        turns = [turn | {"images": []} for turn in row["conversation"]]
        return row | {"images": [], "conversation": turns}

    rewrite(copy, CHAT, lambda rows: [row if keeps_image(number) else bare(row) for number, row in enumerate(rows)])
    return copy


@pytest.mark.parametrize("form", ["jsonl", "json", "parquet"])
def test_contents_are_texts_without_an_image_in_the_export(sft, release, tmp_path, form):
    bare = _with_images_in(release, tmp_path / "bare", lambda number: False)
    code, err, out = sft("--file-format", form, of=bare)
    assert code == 0, err
    rows = load_dataset(str(out), split="train", cache_dir=str(tmp_path / "cache"))
    assert rows.column_names == ["id", "messages", "model", "language", "topic"]
    released = pl.read_parquet(bare / CHAT).to_dicts()
    texts = {row["conversation_id"]: [turn["content"] for turn in row["conversation"]] for row in released}
    for row in rows:
        assert [message["content"] for message in row["messages"]] == texts[row["id"]]
        assert {message.keys() == {"role", "content"} for message in row["messages"]} == {True}
    assert "so a content is a text" in card(out)[1]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_texts_beside_images_are_parts_with_an_empty_list_of_images(sft, release, tmp_path, form):
    mixed = _with_images_in(release, tmp_path / "mixed", lambda number: number % 2)
    _, _, out = sft("--file-format", form, of=mixed)
    rows = load_dataset(str(out), split="train", cache_dir=str(tmp_path / "cache"))
    assert {len(row["images"]) for row in rows} == {0, 1}
    for row in rows:
        kinds = [part["type"] for message in row["messages"] for part in message["content"]]
        assert kinds.count("image") == len(row["images"])


def test_datasets_loads_messages_and_shows_the_images(sft, tmp_path, monkeypatch):
    for form in ("jsonl", "parquet"):
        _, _, out = sft("--file-format", form)
        monkeypatch.chdir(out)
        rows = load_dataset(str(out), split="train", cache_dir=str(tmp_path / "cache"))
        shown = rows.cast_column("images", List(Image()))
        assert {type(each).__name__ for row in shown for each in row["images"]} == {"PngImageFile"}
        assert [turn["role"] for turn in rows[0]["messages"]][:2] == ["user", "assistant"]


def test_the_code_of_the_card_shows_the_images(sft, tmp_path):
    _, _, out = sft("--file-format", "parquet")
    assert shown_by_code_of(out, tmp_path / "cache") == "{'PngImageFile'}"


def test_caps_hold_and_nothing_else_is_left_out(sft):
    _, _, everything = sft()
    _, _, capped = sft(*limits(per_model=3, per_topic=4, conversations=7))
    rows = examples(capped)
    assert max(Counter(row["model"] for row in rows).values()) <= 3
    assert max(Counter(row["topic"] for row in rows).values()) <= 4
    assert 0 < len(rows) <= 7 < len(examples(everything))
    _, _, by_model = sft(*limits(per_model=3))
    counts = Counter(row["model"] for row in examples(everything))
    assert Counter(row["model"] for row in examples(by_model)) == {name: min(3, n) for name, n in counts.items()}


def test_the_same_seed_gives_the_same_bytes_and_a_larger_draw_holds_the_smaller_one(sft):
    first, again, other = (contents(sft(*limits(conversations=5), "--seed", seed)[2]) for seed in (1, 1, 2))
    assert first == again
    assert first["train.jsonl"] != other["train.jsonl"]
    small, large = (examples(sft(*limits(conversations=count))[2]) for count in (4, 9))
    assert large[:4] == small


def test_an_image_whose_name_would_be_a_path_is_refused_and_nothing_is_written(sft, release, tmp_path):
    strange = Path(shutil.copytree(release, tmp_path / "strange"))
    named = {"images": [{"bytes": b"x", "path": "../../../escaped.png"}]}
    rewrite(strange, CHAT, lambda rows: [row | named for row in rows])
    code, err, out = sft(of=strange)
    assert (code, "an image is named '../../../escaped.png'" in err) == (2, True)
    assert not out.exists()
    assert not list(tmp_path.parent.rglob("escaped.png"))


HEADINGS = ["# Conversations of the best models, for fine-tuning", "## How to read it", "## Licence", "## Removal"]


def card(out: Path) -> tuple[dict, str]:
    """Front matter and text."""
    before, front, text = (out / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    assert before == ""
    return yaml.safe_load(front), text


def headings(text: str) -> list[str]:
    """Every heading outside code."""
    return [line for part in text.split("```")[::2] for line in part.splitlines() if line.startswith("#")]


def test_it_says_what_was_taken_from_which_release_and_on_what_terms(sft, release):
    _, err, out = sft(*limits(models=2, per_model=3, per_topic=4, conversations=1234), "--seed", 7)
    assert err == ""
    front, text = card(out)
    rows, images = len(examples(out)), len(list((out / "images").iterdir()))
    assert f"{rows} conversations and {images} images of version 1.0.0 of Vision arena" in text
    assert "* Answers of the 2 best models of the overall leaderboard" in text
    assert "* At most 1,234 conversations, drawn with seed 7." in text
    assert "* At most 3 of a model.\n* At most 4 of a topic.\n" in text
    assert headings(text) == HEADINGS
    for section in ("Licence", "Removal"):
        theirs = (release / "README.md").read_text(encoding="utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
        assert theirs.strip() in text
    assert (front["license"], front["size_categories"]) == ("other", ["n<1K"])


def test_a_licence_and_stand_ins_of_the_release_are_those_of_the_card(sft, release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    card_says(copy, "license: other", "license: cc-by-4.0")
    front, text = card(sft(of=copy)[2])
    assert front["license"] == "cc-by-4.0"
    assert text.startswith("> **Built with embedded stand-ins**")
    assert manifest_of(copy)["embedded_providers"][0] in text


@pytest.mark.parametrize("style", ["messages", "llava"])
@pytest.mark.parametrize("form", ["jsonl", "json", "parquet"])
def test_datasets_reads_the_folder_by_its_card(sft, tmp_path, style, form):
    _, _, out = sft("--example-format", style, "--file-format", form)
    assert card(out)[0]["configs"][0]["data_files"] == [{"split": "train", "path": f"train.{form}"}]
    rows = load_dataset(str(out), split="train", cache_dir=str(tmp_path / "cache"))
    assert set(rows.column_names) >= {"id", "model", "language", "topic"}
    assert rows.num_rows == len(examples(sft("--example-format", style)[2]))


def test_put_on_the_hub_as_it_is_datasets_reads_it_there(sft, tmp_path):
    hub = LoopbackHub()
    _, _, out = sft()
    hub.repos["org/sft"] = Repo(private=True)
    hub.repos["org/sft"].commit(contents(out))
    read = "import datasets; print([row['id'] for row in datasets.load_dataset('org/sft', split='train')])"
    done = subprocess.run(
        [sys.executable, "-c", read], env=reader_environment(hub, tmp_path), capture_output=True, text=True
    )
    hub.close()
    assert done.stdout.strip() == str([row["id"] for row in examples(out)]), done.stderr


def test_hostile_names_of_models_and_topics_stay_in_their_cells(sft, release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    names = [*HOSTILE_TEXTS.values(), "---\nlicense: mit\n---\n# Mine", "![x](https://evil.test/p.png)", "a | b\n| c"]

    def one_each(rows):
        return [rows[0] | {"conversation_id": f"h{n}", "model": name, "topic": name} for n, name in enumerate(names)]

    rewrite(copy, CHAT, one_each)
    state_rows(copy, "chat", len(names))
    board = pl.read_parquet(copy / "leaderboard" / "overall.parquet").filter(slice="overall").head(1)
    rated = [board.with_columns(model=pl.lit(name), rating=1000.0 - n) for n, name in enumerate(names)]
    pl.concat(rated).write_parquet(copy / "leaderboard" / "overall.parquet")
    _, err, out = sft(*limits(models=len(names)), of=copy)
    assert err == ""
    front, text = card(out)
    assert headings(text) == HEADINGS
    assert [line.startswith("| ") and line.endswith(" | 1 |") for line in text.splitlines()].count(True) == len(names)
    table = text.partition("|---|--:|\n")[2].partition("\n\n")[0]
    assert len(table.splitlines()) == len(names)
    assert not any(sign in table for sign in ("<", "`", "![", "](", "\u202e", "\x00", "\x1b"))
    assert (front["license"], len(front["configs"])) == ("other", 1)
    assert load_dataset(str(out), split="train", cache_dir=str(tmp_path / "cache")).num_rows == len(names)


def test_a_release_whose_card_is_none_is_one_clear_line(sft, release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    (copy / "README.md").write_text("no front matter")
    code, err, out = sft(of=copy)
    assert (code, err.count("\n"), out.exists()) == (2, 1, False)
    assert "its README.md is no card" in err


@pytest.mark.parametrize(("style", "form"), [("messages", "parquet"), ("llava", "jsonl"), ("sharegpt", "parquet")])
def test_an_export_comes_back_with_every_text_and_picture_in_its_place(sft, release, tmp_path, style, form):
    out = sft("--example-format", style, "--file-format", form, "--set", "all_answers=true")[2]
    back = {row["conversation_id"]: row for row in ingested(out, tmp_path / "store").read("conversations").to_dicts()}
    chat = pl.read_parquet(release / "chat" / "data" / "*.parquet").to_dicts()
    # ids that are too short for a log become hashes
    there = {name if len(name) > 7 else text_id(name): row for row in chat for name in [row["conversation_id"]]}
    assert back and set(back) <= set(there)
    for name, row in back.items():
        told = there[name]["conversation"]
        texts = [turn["content"].replace("< image >", "<image>") for turn in row["turns"]]
        assert texts == [turn["content"] for turn in told]
        assert [turn["images"] for turn in row["turns"]] == [turn["images"] for turn in told]
        assert (row["image_problems"], row["unread_parts"], row["model"]) == ([], [], there[name]["model"])
    assert any(row["image_ids"] for row in back.values())


def test_conversations_of_a_published_test_set_are_taken_only_when_asked_for(curate, release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    marked = sorted(pl.read_parquet(copy / "chat" / "data" / "*.parquet")["conversation_id"])[::2]
    rewrite(
        copy,
        CHAT,
        lambda rows: [
            row | {"conversation_id": f"{TEST_SET_MARK}{row['conversation_id']}"}
            if row["conversation_id"] in marked
            else row
            for row in rows
        ],
    )
    _, said, _ = curate("export", "sft", copy, "--out", tmp_path / "without")
    assert said.splitlines()[-1] == (
        f"left out: {len(marked)} conversations of published test sets (--set test_sets=yes takes them)"
    )
    assert not [row for row in examples(tmp_path / "without") if row["id"].startswith(TEST_SET_MARK)]
    _, said, _ = curate("export", "sft", copy, "--out", tmp_path / "with", "--set", "test_sets=yes")
    assert "left out" not in said
    assert [row for row in examples(tmp_path / "with") if row["id"].startswith(TEST_SET_MARK)]
