"""Two benchmarks of one capability by two authors, side by side; models that wrote items are marked."""

import json

import pytest

from flows.products import keyed_items
from schemas.asked_model import AskedModel
from schemas.benches.generated import GeneratedItem
from schemas.benches.generated_results import AuditAnswer
from schemas.errors import BadInput
from schemas.items.conversation import Conversation
from schemas.items.decision import Decision
from schemas.settings import EvaluateSettings
from tasks.generated_bench.accuracy import Marked, wrote
from tasks.generated_bench.audit import audit_rows
from tasks.generated_bench.items import kept_items
from tasks.generated_bench.results.examined import Examined, side_by_side
from tasks.judging.answers import ask_models
from tasks.judging.sources import bench_of
from tasks.providers import Providers
from tasks.storage.tables import frame_of
from tests.builders import decision
from tests.generated_bench import make, settings_for

CAPABILITY = '{"name": "spatial"}'
VERSIONS = {"own": "openai-m+1", "x": "openai-x+1", "y": "openai-y+1", "z": "openai-z+1"}


def item(bench: str, number: int) -> GeneratedItem:
    return GeneratedItem(
        item_id=f"{bench}{number}", image_id="i", bench=bench, description_id="d", number=number, aspect="a",
        general="g", level=("easy", "hard")[number % 2], kind="colour", question="Q?", options=["a", "b"], key="A",
        prompt="Q?", name="n",
    )  # fmt: skip


def examined(bench, author, right, **versions):
    """A benchmark of 100 items; `right`: model -> items of each level that it answers right."""
    items = [item(bench, number) for number in range(100)]
    answers = {
        model: Marked(
            versions.get(model, VERSIONS[model]), {each.item_id: each.number // 2 < of for each in items}, set()
        )
        for model, of in right.items()
    }
    return Examined(bench, CAPABILITY, author, items, answers)


ONE = examined("one", "openai-m+prompts", {"own": 45, "x": 40, "y": 35, "z": 10})
OTHER = examined("other", "openai-n+prompts", {"own": 30, "x": 35, "y": 40, "z": 5})


def test_accuracies_ranks_and_correlations_of_both_stand_side_by_side():
    rows, over = side_by_side(ONE, OTHER, ["overall", "level"])
    by_model = {row.model: row for row in rows if row.slice == "overall"}
    assert [(m, r.accuracy, r.rank, r.against, r.against_rank) for m, r in by_model.items()] == [
        ("own", 0.9, 1, 0.6, 3), ("x", 0.8, 2, 0.7, 2), ("y", 0.7, 3, 0.8, 1), ("z", 0.2, 4, 0.1, 4)
    ]  # fmt: skip
    overall = over[0]
    assert (overall.slice, overall.models) == ("overall", 4)
    assert overall.spearman == pytest.approx(1 - 6 * 8 / (4 * 15)), "rank differences -2, 0, 2, 0"
    assert overall.kendall == pytest.approx(0), "three of six pairs are in one order"
    assert overall.mean_difference == pytest.approx((0.3 + 0.1 - 0.1 + 0.1) / 4)
    assert [row.slice for row in over] == ["overall", "level:easy", "level:hard"]
    assert by_model["own"].ci95_low < 0.9 < by_model["own"].ci95_high


def test_who_wrote_items_is_marked_and_by_how_much_its_own_favour_it():
    rows = {row.model: row for row in side_by_side(ONE, OTHER, ["overall"])[0]}
    assert rows["own"].flags == ["wrote_items:one"] and rows["x"].flags == []
    usual = (0.1 - 0.1 + 0.1) / 3
    assert rows["own"].own_favour == pytest.approx(0.3 - usual)
    assert [rows[model].own_favour for model in "xyz"] == [None] * 3
    turned = {row.model: row for row in side_by_side(OTHER, ONE, ["overall"])[0]}
    assert turned["own"].own_favour == pytest.approx(0.3 - usual), "it does not matter which one is named first"


def test_only_models_that_answered_both_are_compared_and_another_version_is_told():
    few = examined("few", "openai-n+1", {"x": 30, "y": 20}, x="openai-x+2")
    rows, over = side_by_side(ONE, few, ["overall"])
    assert [(row.model, row.rank, row.flags) for row in rows] == [("x", 1, ["versions_differ"]), ("y", 2, [])]
    assert (over[0].models, over[0].spearman, over[0].kendall) == (2, None, None)
    with pytest.raises(BadInput, match="no model has answered enough of both"):
        side_by_side(ONE, examined("none", "openai-n+1", {}), ["overall"])


def test_a_gemini_that_wrote_items_is_known_by_its_version_in_a_models_file():
    asked = AskedModel(name="g", vendor="gemini", model="gemini-3-pro")
    assert wrote(asked.version, "google-gemini-3-pro+aspects@1")
    assert not wrote(asked.version, "google-gemini-3-flash+aspects@1") and not wrote(asked.version, "")


def test_an_audit_marks_the_model_that_wrote_the_items():
    answers = [
        AuditAnswer(
            item_id="one0", model=model, mode="described", key="A", letter="A", text="A", version=VERSIONS[model]
        )
        for model in ("own", "x")
    ]
    rows = audit_rows(ONE.items, answers, ONE.answers, (), author=ONE.author)
    assert {row.model: row.flags for row in rows if row.level == "all"} == {"": [], "own": ["wrote_items"], "x": []}


@pytest.mark.parametrize(("mode", "items", "counts"), [("described", 1, []), ("blind", 1, [(1, 1)]), ("blind", 0, [])])
def test_leaked_items_are_counted_of_those_that_were_asked_blind(mode, items, counts):
    ids = [item.item_id for item in ONE.items]
    answers = [
        AuditAnswer(item_id=name, model="x", mode=mode, key="A", letter="A", text="A", version="1")
        for name in ids[:items]
    ]
    rows = audit_rows(ONE.items, answers, ONE.answers, ids[:items])
    assert [(r.value, r.items) for r in rows if (r.measure, r.level) == ("leaked_items", "all")] == counts


class OtherAuthor(Providers):
    """The embedded author under another name: another seed writes other items."""

    def __getitem__(self, name):
        made = super().__getitem__(name)
        if name != "author":
            return made
        return type("Other", (type(made),), {"version": "other-author-1"})()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examiners") / "store"
    models = [AskedModel(name=name, vendor="embedded", model=name) for name in ("scene-viewer", "random", "blind")]
    changes = {"general": 1, "fine": 2}
    make(settings_for(folder, **changes))
    make(settings_for(folder, **changes, name="second").model_copy(update={"seed": 1}), OtherAuthor())
    made = make(settings_for(folder, **changes, name="basics", capability="basic", levels=["easy"]))
    rows = [decision(Conversation.model_validate(row)) for row in made.read("conversations").to_dicts()]
    made.replace("decisions", frame_of(Decision, rows))
    for bench in ("scenes", "second"):
        assert not ask_models(made, bench_of(made, EvaluateSettings(generated=bench), keyed_items), models).failures
    return made


def test_ranks_are_drawn_as_a_heat_map(store, curate, tmp_path):
    drawn, asked = tmp_path / "ranks.svg", ("bench", "accuracy", "--store", store.root, "--bench", "scenes", "--svg")
    status, out, err = curate(*asked, drawn, "--table", "ranks")
    assert status == 0 and "scene-viewer" in out and str(drawn) in err
    assert drawn.read_text().count("<text") + drawn.read_text().count("<use") > 12
    assert curate(*asked, drawn)[0] == curate(*asked, tmp_path / "ranks.png", "--table", "ranks")[0] == 2


def test_scores_and_aspects_are_printed_as_the_paper_does_for_one_and_for_both(store, curate):
    asked = ("bench", "accuracy", "--store", store.root, "--bench", "scenes", "--json", "--table")
    rows = {row["slice"]: row for row in map(json.loads, curate(*asked, "alignment")[1].splitlines())}
    ours = store.read("generated_descriptions").filter(bench="scenes")
    scores = store.read("alignments").join(ours, on="description_id", how="semi")
    own = scores["score"]
    shares = [rows["overall"][name] for name in ("under_half", "from_half", "from_80", "whole")]
    assert (rows["overall"]["images"], sum(shares)) == (len(own), pytest.approx(1.0))
    assert rows["overall"]["whole"] == pytest.approx((own == 1).mean()) and rows["type:color"]["mean"] > 0.5
    assert sum(rows[f"level:{level}"]["images"] for level in ("easy", "medium", "hard")) == len(own)
    grid = [json.loads(line) for line in curate(*asked, "diversity")[1].splitlines()]
    assert [(row["general"], row["fine"], row["aspects"]) for row in grid] == [(1, 1, 1), (1, 2, 2)]
    assert grid[0]["mean_cosine"] is None and 0 < grid[1]["mean_cosine"] < 1
    status, out, err = curate(
        "bench", "accuracy", "--store", store.root, "--bench", "scenes", "--bench", "second", "--json"
    )
    rows = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    seen = next(row for row in rows if row.get("model") == "scene-viewer" and row["slice"] == "overall")
    assert min(seen["accuracy"], seen["against"]) >= 0.95 and "stand_in" in seen["flags"]
    assert {row["slice"] for row in rows if row["table"] == "agreement"} >= {"overall", "level:easy", "level:hard"}
    assert "second was written by other-author-1" in err


def test_an_audit_says_before_what_it_would_cost(store, curate, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    models, prices = tmp_path / "models.yaml", tmp_path / "prices.yaml"
    entries = [{"name": "m", "vendor": "openai", "model": "m"}, {"name": "v", "vendor": "embedded", "model": "blind"}]
    models.write_text(json.dumps({"models": entries}))
    image = "image: {tile_pixels: 32, tiles_max: 1536, tokens_a_tile: 1}"
    prices.write_text(f"tokens:\n  openai-m: {{input_usd_per_million: 1, output_usd_per_million: 4, {image}}}\n")
    asked = ("bench", "audit", "--store", store.root, "--bench", "scenes", "--models", models, "--prices", prices)
    before = store.height("audit_answers")
    every, blind = (
        curate(*asked, "--dry-run", "--set", f"evaluate.audit_modes={modes}") for modes in ("blind,all_a", "blind")
    )
    items = len(kept_items(store, "scenes").items)
    assert every[0] == blind[0] == 0 and len(every[1].splitlines()) == 1, "embedded models cost nothing"
    assert "at most $" in every[1]
    assert f"{2 * items} calls" in every[1] and f"{items} calls" in blind[1]
    assert store.height("audit_answers") == before


def test_a_file_of_answers_is_marked_by_the_keys(store, curate, tmp_path):
    items, before = kept_items(store, "basics").items, store.read("answers")
    rows = [{"item_id": each.item_id, "prediction": f"[{each.key}]"} for each in items[1:]]
    rows += [{"item_id": items[0].item_id, "prediction": "none of them"}, {"item_id": "other", "prediction": "[A]"}]
    file = tmp_path / "answers.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = ("judge", "submit", file, "--store", store.root, "--bench", "basics", "--model", "filed", "--json")
    try:
        assert curate(*asked, "--dry-run")[0] == 0 and store.read("answers").equals(before)
        status, out, err = curate(*asked)
        overall = json.loads(out.splitlines()[0])
        assert status == 0 and "unknown 1: other" in err
        assert (overall["right"], overall["unreadable"], overall["of"]) == (len(items) - 1, 1, len(items))
        assert f"{len(items)} answers, 0 of them new" in curate(*asked)[2]
        status, _, err = curate(*asked, "--set", "evaluate.with_reference=yes")
        assert status == 2 and "no judge is asked" in err and len(err.splitlines()) == 1
    finally:
        store.replace("answers", before)


@pytest.mark.parametrize(
    ("against", "said"),
    [
        (["scenes"], "is given twice"),
        (["basics"], "it tests another capability than 'scenes'"),
        (["nothing"], "no finished benchmark of this name"),
        (["second", "--table", "ranks"], "give one --bench"),
    ],
    ids=str,
)
def test_what_cannot_be_compared_is_one_clear_line(store, curate, against, said):
    status, _, err = curate("bench", "accuracy", "--store", store.root, "--bench", "scenes", "--bench", *against)
    assert status == 2 and said in err and len(err.splitlines()) == 1
