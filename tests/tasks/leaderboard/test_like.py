"""`curate rate --like`: the board for prompts like one, from all votes of a store by the closeness of their prompts."""

import json
import random
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from schemas.rating import Interval, RatingMethod
from tasks.leaderboard.leaderboard import FEW_BATTLES, leaderboard
from tasks.leaderboard.like import aim_of, kernel_weights, near_board
from tasks.leaderboard.votes import votes
from tasks.providers import Providers
from tasks.signals.steps import signal_versions
from tests.builders import battle, decision, drawn_image, facts_frame, image, measure_clean, sides, store_with
from tests.tasks.leaderboard.battle_tables import drawn

TOPICS = {"sign": "What does the sign on door {} say?", "cat": "How many cats sleep on sofa {}?"}
A, B = "vicuna-13b", "llava-34b"


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A store of 160 votes; model A wins 85 % of those on signs, and model B 85 % of those on cats."""
    draw, pairs, winners = random.Random(1), [], []
    images = {topic: image(drawn_image(seed)) for seed, topic in enumerate(TOPICS)}
    for topic, text in TOPICS.items():
        better = "model_a" if topic == "sign" else "model_b"
        for n in range(80):
            shown = [images[topic].image_id]
            pairs.append(sides(f"{topic}-battle-{n}", text.format(n), f"This is {n}.", image_ids=shown))
            winners.append(better if draw.random() < 0.85 else "model_a" if better == "model_b" else "model_b")
    battles = [battle(*pair, winner) for pair, winner in zip(pairs, winners, strict=True)]
    conversations = [side for pair in pairs for side in pair]
    verdicts = [decision(item) for item in (*conversations, *battles)]
    store = store_with(
        tmp_path_factory.mktemp("asked"),
        conversations=conversations, battles=battles, decisions=verdicts, images=[*images.values()],
    )  # fmt: skip
    measure_clean(store, conversations)
    providers = Providers()
    versions, texts = signal_versions(providers), {side.prompt_id: side.turns[0].content for side in conversations}
    vectors = dict(zip(texts, providers["text_embedding"].embed_texts([*texts.values()]).tolist(), strict=True))
    along = {images["sign"].image_id: [1.0, 0.0], images["cat"].image_id: [0.0, 1.0]}
    for signal, of_contents in (("text_embedding", vectors), ("image_embedding", along)):
        rows = {name: {"vector": vector} for name, vector in of_contents.items()}
        store.replace(f"signals/{signal}", facts_frame(signal, rows, versions[signal]))
    return store


@pytest.fixture
def like(curate, asked):
    """Rows of the board for prompts like one, best first."""

    def board(text, *options):
        code, out, err = curate("rate", "--store", asked.root, "--like", text, "--json", *options)
        assert code == 0, err
        return [json.loads(line) for line in out.splitlines()], err

    return board


@pytest.mark.parametrize(
    ("text", "best"),
    [
        ("What is written on the sign?", A),
        ("Count the cats on the sofa", B),
        ("sign-battle-3", A),
        ("cat-battle-3-right", B),
        (drawn_image(0).image_id, A),
        (drawn_image(1).image_id, B),
    ],
)
def test_the_order_is_that_of_the_votes_on_prompts_and_pictures_like_it(like, text, best):
    rows, err = like(text)
    assert [row["model"] for row in rows] == [best, A if best == B else B]
    first = rows[0]
    assert first["rank"] == 1 and rows[1]["rank"] == 2
    assert first["slice"] == "like" and 30 <= first["effective_battles"] <= first["battles"] <= 160
    assert f"{first['battles']:,} of 160 votes count" in err
    assert like(text)[0] == rows


def test_a_width_beyond_all_distances_gives_the_plain_board(like, curate, asked):
    code, out, _ = curate("rate", "--store", asked.root, "--slice", "overall", "--json")
    plain = [json.loads(line) for line in out.splitlines()]
    rows, _ = like("What is written on the sign?", "--like-width", "1e12")
    assert code == 0 and [row["effective_battles"] for row in rows] == pytest.approx([160, 160])
    for row, expected in zip(rows, plain, strict=True):
        for name in ("rating", "ci95_low", "ci95_high"):
            assert row[name] == pytest.approx(expected[name], abs=1e-3)
        assert (row["rank"], row["battles"], row["flags"]) == (expected["rank"], expected["battles"], expected["flags"])


def test_the_board_of_a_store_as_json_is_printed_and_nothing_is_stored(curate, asked):
    before = asked.read("ratings")
    code, out, _ = curate("rate", "--store", asked.root, "--json")
    assert (code, {json.loads(line)["model"] for line in out.splitlines()}) == (0, {A, B})
    assert asked.read("ratings").equals(before)


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("  ", (), "--like is empty"),
        ("sign-battle-999", (), "'sign-battle-999' looks like an id and is no conversation, battle or image"),
        ("What is the capital of France?", ("--like-width", "0.01"), "a board needs 30: give a larger --like-width"),
        ("x", ("--table", "win_rates"), "--like gives one board of --store DIR"),
        ("x", ("--slice", "all"), "--like gives one board of --store DIR"),
    ],
)
def test_what_gives_no_board_is_one_line(refused, asked, text, options, words):
    assert words in refused("rate", "--store", asked.root, "--like", text, *options)


@pytest.mark.parametrize(
    "text", ["gpt-4-turbo", "这张图里有3只猫吗123", "図2の数字1と0を読んで", "what-is-this", "1und2und3"]
)
def test_one_word_without_the_form_of_an_id_is_a_text(asked, text):
    vector = np.array([1.0, 0.0], np.float32)
    assert aim_of(asked, {}, text, lambda texts: np.array([vector for _ in texts])).signal == "text_embedding"


def test_a_table_of_votes_and_a_store_without_vectors_are_refused_in_one_line(refused, asked, tmp_path):
    drawn(40, 3).write_csv(tmp_path / "v.csv")
    assert "--like gives one board of --store DIR" in refused("rate", tmp_path / "v.csv", "--like", "signs")
    pair = sides("only")
    decided = [decision(item) for item in (*pair, battle(*pair))]
    bare = store_with(tmp_path, conversations=[*pair], battles=[battle(*pair)], decisions=decided)
    assert "no vote's prompt has a vector of text_embedding" in refused("rate", "--store", bare.root, "--like", "signs")
    assert "'only' has no vector of text_embedding" in refused("rate", "--store", bare.root, "--like", "only")


def test_votes_far_off_and_without_a_vector_weigh_nothing():
    weight = kernel_weights(pl.Series([1.0, 0.65, 0.32, 0.3, None]), 0.15)
    assert weight == pytest.approx([1.0, np.exp(-0.35 / 0.15), np.exp(-0.68 / 0.15), 0.0, 0.0])
    assert kernel_weights(pl.Series([-1.0, None]), 1e9) == pytest.approx([1.0, 0.0])


def weighted(count, seed):
    """Votes on four models and weights between 0.01 and 1, most of them small."""
    return drawn(count, 4, seed=seed), 0.01 ** np.random.default_rng(seed).random(count)


def test_a_weight_of_all_votes_alike_changes_nothing():
    battles, _ = weighted(500, 1)
    plain = leaderboard(votes(battles), "like")
    rows = near_board(battles, np.full(500, 0.03), RatingMethod(), {row.model: row.rating for row in plain})
    for row, expected in zip(rows, plain, strict=True):
        assert (row.model, row.rank, row.battles, row.flags) == (
            expected.model, expected.rank, expected.battles, expected.flags,
        )  # fmt: skip
        assert (row.rating, row.ci95_low, row.ci95_high) == pytest.approx(
            (expected.rating, expected.ci95_low, expected.ci95_high), abs=1e-4
        )
        assert row.effective_battles == pytest.approx(row.battles)


@pytest.mark.parametrize("seed", range(3))
def test_weighted_intervals_are_those_of_resampled_votes_whatever_the_scale_of_weights(seed):
    battles, weight = weighted(2000, seed)
    level = {row.model: row.rating for row in leaderboard(votes(battles))}
    boards = [
        near_board(battles, weight * scale, RatingMethod(bootstraps=600, interval=interval), level)
        for scale, interval in ((1, Interval.SANDWICH), (1, Interval.BOOTSTRAP), (1e-6, Interval.SANDWICH))
    ]
    widths = [{row.model: row.ci95_high - row.ci95_low for row in board} for board in boards]
    plain = {row.model: row.ci95_high - row.ci95_low for row in leaderboard(votes(battles))}
    for model, width in widths[0].items():
        assert width == pytest.approx(widths[1][model], rel=0.15)
        assert width == pytest.approx(widths[2][model], rel=1e-6)
        assert width > 1.2 * plain[model]


def test_few_votes_are_flagged_by_how_many_equal_ones_say_as_much():
    battles, _ = weighted(400, 2)
    weight = np.where(np.arange(400) % 20 == 0, 1.0, 0.02)
    level = {row.model: row.rating for row in leaderboard(votes(battles))}
    for row in near_board(battles, weight, RatingMethod(), level):
        assert row.battles > FEW_BATTLES and row.effective_battles < 30
        assert {"few_votes", "few_battles"} <= set(row.flags)
    cast = replace(votes(battles), weight=weight).in_effective_votes()
    assert cast.weight.sum() == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
