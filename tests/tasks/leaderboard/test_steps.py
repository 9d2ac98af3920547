"""The stage rates the kept anonymous battles of a store and writes every table."""

import polars as pl
import pytest

from schemas.policy import Policy, Rename
from schemas.run import StageReport
from schemas.settings import Settings
from schemas.tables import TABLES as STORED
from tasks.leaderboard.rating_tables import TABLES
from tasks.leaderboard.steps import rate_models, rated_battles
from tests.builders import VERSIONS, battle, decision, measure_clean, sides, store_with

WINNERS = ["model_a", "model_b", "model_a", "tie", "tie_bothbad", "model_a"]


@pytest.fixture
def store(tmp_path):
    """Six kept battles, one dropped and one not anonymous; the right answer of the first has bold text and names."""
    pairs = [sides(f"b{n}") for n in range(8)]
    battles = [battle(*pair, winner) for pair, winner in zip(pairs, [*WINNERS, "model_a", "model_a"], strict=True)]
    battles[7] = battle(*pairs[7], "model_a", anonymous=False)
    conversations = [side for pair in pairs for side in pair]
    verdicts = [decision(item) for item in (*conversations, *battles)]
    verdicts[len(conversations) + 6] = decision(battles[6], "nsfw")
    verdicts[0] = decision(conversations[0], preset_dataset="memes")
    made = store_with(tmp_path, conversations=conversations, battles=battles, decisions=verdicts)
    bold = {conversations[1].turns[1].text_id: {"bold_stars": 3}}
    named = {conversations[1].turns[1].text_id: {"entities": 4}}
    refused = {conversations[2].turns[1].text_id: {"refusal": True}}
    unmeasured = {conversations[4].turns[1].text_id: None}
    measure_clean(
        made,
        conversations,
        markdown=bold | unmeasured,
        named_entities=named,
        refusal=refused,
        categories={conversations[6].document_id: {"ocr": True}},
    )
    return made


def rated(store, **changes) -> StageReport:
    return rate_models.fn(Settings(store=store.root, bootstraps=4, **changes), VERSIONS)


def test_kept_anonymous_battles_are_rated_with_what_is_known_of_them(store):
    battles = rated_battles(store, VERSIONS).sort("battle_id")
    assert battles["battle_id"].to_list() == [f"b{n}" for n in range(6)]
    assert battles["bold_b"].to_list()[:2] == [3, 0] and battles["refusal"].to_list()[:2] == [False, True]
    assert battles["entities_b"].to_list() == [4] + [0] * 5 and battles["entities_a"].to_list() == [0] * 6
    assert battles["is_preset"].to_list() == [True] + [False] * 5


def test_models_are_rated_under_the_names_of_the_policy(store):
    policy = Policy(name="renaming", rules=[], renames=[Rename(model="llava-34b", to="llava-next-34b")])
    store.write_bytes(f"policies/{'0' * 12}.json", policy.model_dump_json().encode())
    rated(store)
    assert set(store.read("ratings")["model"]) == {"vicuna-13b", "llava-next-34b"}


def test_every_table_of_the_stage_is_written(store):
    report = rated(store)
    assert report.counts["battles"] == 6
    written = {name: store.read(name) for name in STORED if name in TABLES}
    assert set(written) == set(TABLES) - {"style_control", "pair_cards", "plan"}
    empty = ("outlier_judges", "best_of", "suspects")
    assert all(frame.height for name, frame in written.items() if name not in empty)


def test_boards_hold_the_battles_of_their_slice(store):
    rated(store)
    ratings = store.read("ratings")
    battles = dict(ratings.group_by("slice").agg(pl.col("battles").max()).iter_rows())
    assert (battles["overall"], battles["exclude_ties"]) == (6, 4)
    assert (battles["exclude_refusal"], battles["exclude_preset"], battles["category:ocr"]) == (5, 5, 1)


def test_specificity_is_controlled_beside_length_and_markdown(store):
    rated(store)
    flags = dict(store.read("style_coefficients").filter(slice="overall").select("covariate", "flags").iter_rows())
    assert flags == {name: ["constant"] for name in ("tokens", "headers", "list_items")} | {"bold": [], "entities": []}


@pytest.mark.parametrize(("signal", "battles"), [("tokens", 4), ("markdown", 4), ("named_entities", 5)])
def test_style_control_needs_length_and_markdown_of_both_answers_and_names_where_they_are_counted(
    store, signal, battles
):
    answer = store.read("conversations").filter(conversation_id="b5-right")["turns"][0][1]["text_id"]
    known = store.read(f"signals/{signal}")
    store.replace(f"signals/{signal}", known.filter(pl.col("content_id") != answer))
    rated(store)
    assert set(store.read("style_coefficients").filter(slice="overall")["battles"]) == {battles}


def test_a_store_without_battles_has_empty_boards(tmp_path):
    empty = store_with(tmp_path)
    report = rated(empty)
    assert report.counts == {"battles": 0, "boards": 0, "outlier_judges": 0, "suspects": 0}
    assert empty.read("ratings").is_empty() and empty.read("vote_shares").is_empty()


def test_settings_reach_the_boards(store):
    rated(store, anchor_model="llava-34b", anchor_rating=1114.0, both_bad="exclude", interval="sandwich")
    overall = store.read("ratings").filter(slice="overall")
    anchor = overall.row(by_predicate=pl.col("model") == "llava-34b", named=True)
    assert anchor["battles"] == 5
    assert (anchor["rating"], anchor["ci95_low"]) == pytest.approx((1114, 1114))
