"""`curate export preferences`: rows that each trainer's loader takes, a split without leaks, and every vote counted.

`trainers.py` loads what is exported, and has the checks of the trainers.
"""

import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from schemas.items.test_sets import TEST_SET_MARK
from tasks.export.preferences import LeftOut, left_out_counts
from tests.small_store import MODELS
from tests.tampered_release import BATTLE, rewrite, state_rows
from tests.tasks.export.conftest import limits, shown_by_code_of
from tests.tasks.export.trainers import TrainerError, llama_factory_takes, openai_takes, trl_takes

Row = dict[str, Any]
TYPED = "Is <image> a tag, and <|image_pad|> too?"
MARK = "<image>"


def message(role: str, content: str, *images: tuple[int, int]) -> Row:
    """A message that shows images: (index, characters before it)."""
    return {
        "role": role,
        "content": content,
        "images": [dict(zip(("image", "character"), each, strict=True)) for each in images],
    }


def said(*turns: Row) -> list[Row]:
    return [*turns]


def asked(text: str, *images: tuple[int, int]) -> Row:
    return message("user", text, *images)


def answered(text: str, *images: tuple[int, int]) -> Row:
    return message("assistant", text, *images)


def kinds_of_votes(pictures: list[Row]) -> dict[str, Row]:
    """Name -> columns of a vote of each kind; where only one answer is given, the other side's is another."""
    one, two = pictures[:1], pictures[:2]

    def pair(history: list[Row], left: str = "A long answer.", right: str = "Short.", **more: Any) -> Row:
        sides = {"conversation_a": [*history, answered(left)], "conversation_b": [*history, answered(right)]}
        return {"images": [], "winner": "model_a"} | sides | more

    more_turns = said(asked("First?"), answered("One."), asked("Second?"))
    return {
        "text": pair(said(asked("What is it?"))),
        "left wins": pair(said(asked("Which?")), "chosen left", "rejected right", winner="model_a"),
        "right wins": pair(said(asked("Which?")), "rejected left", "chosen right", winner="model_b"),
        "one image": pair(said(asked("See this", (0, 0))), images=one),
        "image behind words": pair(said(asked("See this", (0, 8))), images=one),
        "two images": pair(said(asked("Both", (0, 0), (1, 2))), images=two),
        "image twice": pair(said(asked("Again", (0, 0), (0, 5))), images=one),
        "image of no turn": pair(said(asked("Where?")), images=one),
        "image in round two": pair(said(asked("First?"), answered("One."), asked("And this?", (0, 3))), images=one),
        "typed mark": pair(said(asked(TYPED, (0, 0))), left=f"It is {MARK}", right=f"No {MARK}", images=one),
        "several turns": pair(more_turns),
        "thinking": pair(said(asked("Why?")), left="<think>secretly</think>\n\nSo.", right="</think>\nThus."),
        "both bad": pair(said(asked("Bad?")), winner="tie (bothbad)"),
        "tie": pair(said(asked("Tie?")), winner="tie"),
        "bench": pair(said(asked("Bench?")), in_bench=True),
        "equal": pair(said(asked("Equal?")), left="The  same.", right="The same.\n"),
        "equal but for thinking": pair(said(asked("Equal?")), left="<think>x</think>Same.", right="Same."),
        "refusal": pair(said(asked("Who?")), left="I'm sorry, but I can't help with that."),
        "refused question": pair(said(asked("Who?")), refusal=True),
        "other histories": {
            **pair(said()),
            "conversation_a": said(asked("1"), answered("One."), asked("2"), answered("Two.")),
            "conversation_b": said(asked("1"), answered("Uno."), asked("2"), answered("Dos.")),
        },
        "other number of turns": {
            **pair(said()),
            "conversation_a": said(asked("1"), answered("One."), asked("2"), answered("Two.")),
            "conversation_b": said(asked("1"), answered("Uno.")),
        },
        "image in answer": {
            **pair(said()),
            "images": one,
            "conversation_a": said(asked("Draw", (0, 0)), answered("Here", (0, 0))),
            "conversation_b": said(asked("Draw", (0, 0)), answered("No")),
        },
        "no answer": pair(said(asked("Well?")), left=" "),
        "only thinking": pair(said(asked("Well?")), left="<think>cut off"),
        "ends with a question": pair([]) | {f"conversation_{side}": [asked("Well?")] for side in "ab"},
    }  # fmt: skip


LEFT_OUT = {
    "both bad": LeftOut.BOTH_BAD, "tie": LeftOut.TIE, "bench": LeftOut.BENCHMARK, "equal": LeftOut.EQUAL,
    "equal but for thinking": LeftOut.EQUAL, "refusal": LeftOut.REFUSAL, "refused question": LeftOut.REFUSAL,
    "other histories": LeftOut.HISTORIES, "other number of turns": LeftOut.HISTORIES,
    "image in answer": LeftOut.IMAGE_IN_ANSWER, "no answer": LeftOut.NO_ANSWER, "only thinking": LeftOut.NO_ANSWER,
    "ends with a question": LeftOut.NO_ANSWER,
}  # fmt: skip
"""Kind of a vote -> why it is no pair."""


def votes_of(release: Path, votes: list[Row]) -> None:
    """Replace the votes of a release: columns that a vote lacks are those of its first one."""

    def changed(rows: list[Row]) -> list[Row]:
        first = rows[0] | {"in_bench": False}
        made = []
        for number, vote in enumerate(votes):
            categories = first["categories"] | {"refusal": vote.get("refusal", False)}
            row = (
                first | {"question_id": f"v{number:04}", "judge": f"{number:024x}"} | vote | {"categories": categories}
            )
            made.append({name: row[name] for name in first})
        return made

    rewrite(release, BATTLE, changed)
    state_rows(release, "battle", len(votes))


def pictures_of(release: Path) -> list[Row]:
    """The images of a release's votes, each once."""
    rows = pl.read_parquet(release / "battle/data/*.parquet")["images"].to_list()
    return list({image["path"]: image for row in rows for image in row}.values())


@pytest.fixture(scope="session")
def kinds(release, tmp_path_factory) -> tuple[Path, list[str]]:
    """A release with a vote of each kind, each by its own voter, and the names of these kinds in order."""
    copy = Path(shutil.copytree(release, tmp_path_factory.mktemp("kinds") / "1.0.0"))
    votes = kinds_of_votes(pictures_of(copy))
    votes_of(copy, [columns | {"question_id": name} for name, columns in votes.items()])
    return copy, [*votes]


@pytest.fixture
def export(curate, tmp_path):
    """Run the command on a release with nothing held out: stdout and the folder."""

    def run(of: Path, style: str, *options: object, held_out: float = 0) -> tuple[str, Path]:
        out = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
        held = () if held_out is None else ("--held-out", held_out)
        status, said_out, err = curate(
            "export", "preferences", of, "--out", out, "--example-format", style, *held, *options
        )
        assert status == 0, err
        return said_out, out

    return run


def rows_of(folder: Path, split: str = "train") -> list[Row]:
    parquet = folder / f"{split}.parquet"
    if parquet.is_file():
        return pl.read_parquet(parquet).to_dicts()
    lines = folder / f"{split}.jsonl"
    return [json.loads(line) for line in lines.read_text().splitlines()] if lines.is_file() else []


def parts_of(messages: list[Row]) -> Iterator[Row]:
    return (part for turn in messages for part in turn["content"])


def test_trl_takes_every_pair_and_each_other_vote_is_counted_once(kinds, export):
    release, names = kinds
    printed, out = export(release, "trl")
    rows = {row["id"]: row for row in rows_of(out)}
    assert set(rows) == set(names) - set(LEFT_OUT)
    assert len(trl_takes(out)) == len(rows)
    counts = json.loads((out / "counts.json").read_text())
    assert counts["left_out"] == dict(Counter(map(str, LEFT_OUT.values())))
    assert counts["votes"] == len(names) == counts["preferences"] + sum(counts["left_out"].values())
    for reason, votes in counts["left_out"].items():
        assert f"{reason} {votes}" in printed
        assert f"| {votes} | {reason} |" in (out / "README.md").read_text()


def test_what_is_chosen_is_what_the_voter_chose(kinds, export):
    rows = {row["id"]: row for row in rows_of(export(kinds[0], "trl")[1])}
    for name in ("left wins", "right wins"):
        (chosen,), (rejected,) = (parts_of(rows[name][side]) for side in ("chosen", "rejected"))
        assert chosen["text"].startswith("chosen")
        assert rejected["text"].startswith("rejected")
    models = {rows[name]["model_chosen"] for name in ("left wins", "right wins")}
    assert len(models) == 2


@pytest.mark.parametrize("style", ["trl", "trl-kto"])
def test_the_code_of_the_card_shows_the_images(kinds, export, tmp_path, style):
    out = export(kinds[0], style)[1]
    assert shown_by_code_of(out, tmp_path / "cache") == "{'PngImageFile'}"


def test_images_stand_in_the_prompt_where_they_stood(kinds, export):
    _, out = export(kinds[0], "llama-factory")
    values = {row["id"]: "".join(turn["value"] for turn in row["conversations"]) for row in rows_of(out)}
    assert values["one image"] == f"{MARK}\nSee this"
    assert values["image behind words"] == f"See this\n{MARK}"
    assert values["two images"] == f"{MARK}\nBo{MARK}th"
    assert values["image twice"] == f"{MARK}\nAgain\n{MARK}"
    assert values["image of no turn"] == f"{MARK}\nWhere?"
    assert values["image in round two"] == f"First?One.And{MARK} this?"
    assert values["text"] == "What is it?"
    images = {row["id"]: row["images"] for row in rows_of(out)}
    assert [len(images[name]) for name in ("text", "one image", "two images", "image twice")] == [0, 1, 2, 2]


def test_llama_factory_takes_every_pair(kinds, export):
    _, out = export(kinds[0], "llama-factory")
    rows = rows_of(out)
    assert len(rows) == len(kinds[1]) - len(LEFT_OUT)
    assert len(llama_factory_takes(out)) == len(rows)
    info = json.loads((out / "dataset_info.json").read_text())["train"]
    assert (info["ranking"], info["formatting"]) == (True, "sharegpt")
    assert (out / info["file_name"]).is_file()
    assert set(info["columns"].values()) <= set(rows[0])
    typed = next(row for row in rows if row["id"] == "typed mark")
    assert typed["conversations"][0]["value"] == f"{MARK}\nIs < image > a tag, and < |image_pad| > too?"
    assert (typed["chosen"]["value"], typed["rejected"]["value"]) == ("It is < image >", "No < image >")


def test_kto_has_a_row_an_answer_and_both_false_where_both_are_bad(kinds, export):
    printed, out = export(kinds[0], "trl-kto")
    rows = rows_of(out)
    assert len(trl_takes(out)) == len(rows)
    for row in rows:
        assert isinstance(row["label"], bool)
        assert "chosen" not in row  # TRL refuses paired rows with images
    labels = {name: sorted(row["label"] for row in rows if row["id"] == name) for name in {row["id"] for row in rows}}
    assert labels.pop("both bad") == [False, False]
    assert {tuple(both) for both in labels.values()} == {(False, True)}
    assert "ties 1" in printed
    assert "both answers bad" not in printed


def test_openai_takes_texts_alone_and_says_how_many_it_leaves_out(kinds, export):
    printed, out = export(kinds[0], "openai")
    assert len(openai_takes(out / "train.jsonl")) == len(rows_of(out))
    about = [json.loads(line) for line in (out / "train.about.jsonl").read_text().splitlines()]
    assert [row["id"] for row in about] == ["text", "left wins", "right wins", "several turns", "thinking"]
    assert f"{LeftOut.WITH_IMAGES.value} 7" in printed
    assert len(list((out / "images").iterdir())) == 0


def test_thinking_is_in_no_text(kinds, export):
    for style in ("trl", "trl-kto", "llama-factory", "openai"):
        shown = json.dumps(rows_of(export(kinds[0], style)[1]), default=str)
        assert "think>" not in shown
        assert "secretly" not in shown


@pytest.mark.parametrize("style", ["trl", "trl-kto"])
def test_an_export_without_images_is_for_models_of_texts(kinds, export, style):
    """TRL takes data with a column of images for vision, and templates of models of texts fail on parts."""
    _, out = export(kinds[0], style, "--text-only")
    rows = trl_takes(out)
    assert rows
    assert "images" not in rows[0]
    assert {type(turn["content"]) for row in rows for turn in row["prompt"]} == {str}


def test_llama_factory_has_no_column_of_images_without_any(kinds, export):
    _, out = export(kinds[0], "llama-factory", "--text-only")
    assert "images" not in llama_factory_takes(out)[0]
    assert "images" not in (out / "dataset_info.json").read_text()


HAZARDS = (
    "",
    MARK,
    "<video>",
    "<|image_pad|>",
    "<audio> <image>",
    "<<image>image>",
    "<think>",
    "]]>\u2028",
    "{{ role }}",
)
"""What people type that a trainer or a template may take for something else."""


def drawn_pairs(seed: int, pictures: list[Row], count: int = 40) -> dict[str, Row]:
    """Name -> a vote that trains: images of no, one or two turns, marks that were typed, thoughts, several turns."""
    rng, votes = random.Random(seed), {}
    for number in range(count):
        images = rng.sample(pictures, rng.choice((0, 0, 1, 2)))
        turns = rng.choice((1, 1, 2, 3))
        history = []
        texts = [f"Question {number} {rng.choice(HAZARDS)} end" for _ in range(turns)]
        homes = [rng.randrange(turns) for _ in images]
        for turn, text in enumerate(texts):
            places = sorted(rng.randrange(len(text) + 1) for home in homes if home == turn)
            indexes = [index for index, home in enumerate(homes) if home == turn]
            history.append(asked(text, *zip(indexes, places, strict=True)))
            if turn < turns - 1:
                history.append(answered(f"{rng.choice(('', '<think>hm</think>'))}Answer {rng.choice(HAZARDS[:-3])}."))
        sides = [f"{rng.choice(('', '<think>x</think>'))}Side {side} {rng.choice(HAZARDS[:-3])}" for side in "ab"]
        votes[f"drawn {number}"] = {
            "images": images, "winner": rng.choice(("model_a", "model_b")),
            **{f"conversation_{side}": [*history, answered(text)] for side, text in zip("ab", sides, strict=True)},
        }  # fmt: skip
    return votes


@pytest.mark.parametrize("seed", range(2))
def test_trainers_take_drawn_pairs(release, export, tmp_path, seed):
    copy = Path(shutil.copytree(release, tmp_path / "1.0.0"))
    pictures = {
        image["path"]: image
        for row in pl.read_parquet(copy / "battle/data/*.parquet")["images"].to_list()
        for image in row
    }
    votes = drawn_pairs(seed, list(pictures.values()))
    votes_of(copy, [columns | {"question_id": name} for name, columns in votes.items()])
    with_images = sum(bool(vote["images"]) for vote in votes.values())
    assert len(trl_takes(export(copy, "trl")[1])) == len(votes)
    assert len(trl_takes(export(copy, "trl-kto")[1])) == 2 * len(votes)
    assert len(llama_factory_takes(export(copy, "llama-factory")[1])) == len(votes)
    assert len(openai_takes(export(copy, "openai")[1] / "train.jsonl")) == len(votes) - with_images


BROKEN = {
    "an image less": lambda row: row | {"images": row["images"][1:]},
    "an image in an answer": lambda row: (
        row | {"chosen": [{"role": "assistant", "content": row["prompt"][-1]["content"]}]}
    ),
    "an answer last": lambda row: row | {"prompt": [*row["prompt"], *row["chosen"]]},
}


@pytest.mark.parametrize("what", BROKEN)
def test_the_checks_of_trl_find_what_is_wrong(kinds, export, what):
    _, out = export(kinds[0], "trl")
    file = out / "train.parquet"
    rows = pl.read_parquet(file)
    wrong = [BROKEN[what](row) if row["id"] == "two images" else row for row in rows.to_dicts()]
    pl.DataFrame(wrong, rows.schema).write_parquet(file)
    with pytest.raises(TrainerError):
        trl_takes(out)


def test_margin_style_and_tags_are_those_of_the_release(release, export):
    rows = rows_of(export(release, "trl")[1])
    voted = {row["question_id"]: row for row in pl.read_parquet(release / "battle/data/*.parquet").to_dicts()}
    board = pl.read_parquet(release / "leaderboard/overall.parquet").filter(slice="overall")
    points = dict(board.select("model", "rating").iter_rows())
    assert rows
    for row in rows:
        vote = voted[row["id"]]
        chosen, rejected = "ab" if vote["winner"] == "model_a" else "ba"
        assert (row["model_chosen"], row["model_rejected"]) == (vote[f"model_{chosen}"], vote[f"model_{rejected}"])
        odds = 10 ** ((points[row["model_chosen"]] - points[row["model_rejected"]]) / 400)
        assert pl.Series([row["margin"]]).exp().item() == pytest.approx(odds)
        tokens = [vote["conv_metadata"][side]["assistant_tokens"] for side in (chosen, rejected)]
        assert row["style_difference"]["tokens"] == tokens[0] - tokens[1]
        assert row["tags"] == sorted(name for name, holds in vote["categories"].items() if holds)
        assert (row["language"], row["anonymous"]) == (vote["language"], vote["anony"])


def drawn_votes(seed: int, count: int = 300, voters: int = 25, prompts: int = 60, no_voters: bool = False) -> list[Row]:
    """Votes of few voters on few prompts, of which the longer answer mostly wins, and the left one half the time."""
    draw = random.Random(seed)
    votes = []
    for _ in range(count):
        prompt = f"Question {draw.randrange(prompts)}?"
        lengths = draw.sample(range(5, 200), 2)
        left_wins = (lengths[0] > lengths[1]) == (draw.random() < 0.8)
        facts = [
            {"assistant_tokens": length, "headers": 0, "list_items": 0, "bold": 0, "entities": None}
            for length in lengths
        ]
        texts = [f"word{draw.random()} " * (length // 5) for length in lengths]
        asked_as = asked(prompt if draw.random() < 0.5 else f"  {prompt.upper()} ")
        votes.append({
            "images": [],
            "winner": "model_a" if left_wins else "model_b",
            "judge": None if no_voters else f"{draw.randrange(voters):024x}",
            "model_a": MODELS[0], "model_b": MODELS[1],
            "conversation_a": said(asked_as, answered(texts[0])), "conversation_b": said(asked_as, answered(texts[1])),
            "conv_metadata": {"context_tokens": 3, "a": facts[0], "b": facts[1]},
        })  # fmt: skip
    return votes


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("no_voters", [False, True])
def test_no_voter_and_no_prompt_is_in_both_splits(release, export, tmp_path, seed, no_voters):
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    votes = drawn_votes(seed, no_voters=no_voters)
    votes_of(copy, votes)
    _, out = export(copy, "trl", "--seed", seed, held_out=0.3)
    sides = {split: [votes[int(row["id"][1:])] for row in rows_of(out, split)] for split in ("train", "test")}
    for key in (
        lambda vote: vote["judge"] or object(),
        lambda vote: " ".join(vote["conversation_a"][0]["content"].casefold().split()),
    ):
        assert {key(vote) for vote in sides["train"]} & {key(vote) for vote in sides["test"]} == set()
    assert 0.02 * len(votes) < len(sides["test"]) <= 0.3 * len(votes)
    counts = json.loads((out / "counts.json").read_text())
    assert counts["left_out"].get(LeftOut.OTHER_SPLIT, 0) == len(votes) - len(sides["train"]) - len(sides["test"])
    again = export(copy, "trl", "--seed", seed, held_out=0.3)[1]
    assert [rows_of(again, split) for split in sides] == [rows_of(out, split) for split in sides]


def test_a_first_question_is_on_one_side_where_some_talks_show_an_image_later(release, export, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    votes = drawn_votes(0, no_voters=True)
    for vote in votes[::2]:
        vote["images"] = pictures_of(release)[:1]
        for side in "ab":
            first, last = vote[f"conversation_{side}"]
            vote[f"conversation_{side}"] = said(first, answered("One."), asked("And this?", (0, 3)), last)
    votes_of(copy, votes)
    _, out = export(copy, "trl", held_out=0.3)
    sides = [[votes[int(row["id"][1:])] for row in rows_of(out, split)] for split in ("train", "test")]
    train, test = (
        {" ".join(vote["conversation_a"][0]["content"].casefold().split()) for vote in side} for side in sides
    )
    assert test and not train & test


def test_judges_that_read_nothing_reach_what_length_tells(release, export, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    votes = drawn_votes(7, count=800, voters=200, prompts=700)
    votes_of(copy, votes)
    printed, out = export(copy, "trl", held_out=0.3)
    reached = json.loads((out / "counts.json").read_text())["baselines"]
    test = [votes[int(row["id"][1:])] for row in rows_of(out, "test")]
    tokens = [[vote["conv_metadata"][side]["assistant_tokens"] for side in "ab"] for vote in test]
    longer = [(a > b) == (vote["winner"] == "model_a") for (a, b), vote in zip(tokens, test, strict=True)]
    assert reached["pairs"] == len(test)
    assert reached["longer"] == pytest.approx(sum(longer) / len(longer))
    assert 0.7 < reached["style"] < 0.9  # the drawn share is 0.8
    assert f"the longer answer {reached['longer']:.1%}" in printed
    assert f"| the longer answer | {reached['longer']:.1%} |" in (out / "README.md").read_text()


@pytest.mark.parametrize("category", ["multi_image", "instruction_following"])
def test_votes_on_other_categories_are_left_out_and_counted(release, export, tmp_path, category):
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    votes_of(copy, drawn_votes(3, count=60))
    told = (True, False, None)
    rewrite(copy, BATTLE, lambda rows: [
        row | {"categories": row["categories"] | {category: told[number % 3]}} for number, row in enumerate(rows)
    ])  # fmt: skip
    _, out = export(copy, "trl", "--category", category, held_out=0)
    assert {row["id"] for row in rows_of(out, "train")} == {f"v{number:04}" for number in range(0, 60, 3)}
    assert json.loads((out / "counts.json").read_text())["left_out"][LeftOut.OTHER_CATEGORY] == 40


def test_a_release_without_preferences_and_a_taken_folder_end_in_one_line(release, refused, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    rewrite(copy, BATTLE, lambda rows: [row | {"winner": "tie"} for row in rows])
    line = refused("export", "preferences", copy, "--out", tmp_path / "none")
    assert "none of its 6 votes is a preference (ties 6)" in line
    assert not (tmp_path / "none").exists()
    (tmp_path / "taken").mkdir()
    assert "exists already" in refused("export", "preferences", release, "--out", tmp_path / "taken")
    assert "held-out" in refused("export", "preferences", release, "--out", tmp_path / "x", "--held-out", 1)


def test_counts_of_no_votes_are_empty():
    assert left_out_counts(pl.DataFrame({"reason": ["", ""]})) == {}
    assert limits(seed=1) == ["--set", "seed=1"]


def test_votes_of_a_published_test_set_train_only_when_asked_for(export, release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "1.0.0"))
    pair = kinds_of_votes([])["text"]
    votes_of(copy, [pair | {"question_id": "v-own-00"}, pair | {"question_id": f"{TEST_SET_MARK}ppe-1"}])
    said_out, out = export(copy, "trl")
    assert [row["id"] for row in rows_of(out)] == ["v-own-00"]
    assert f"votes left out: {LeftOut.TEST_SET} 1" in said_out
    said_out, out = export(copy, "trl", "--set", "test_sets=yes")
    assert len(rows_of(out)) == 2
    assert LeftOut.TEST_SET not in said_out
