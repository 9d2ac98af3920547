"""`curate judge`: answers and verdicts asked for once; submissions, what a file lacks, costs, boards and lines."""

import json
from pathlib import Path

import pytest

from flows.products import keyed_items
from schemas.asked_model import AskedModel
from schemas.benches.generated_results import AuditAnswer
from schemas.settings import EvaluateSettings
from tasks.generated_bench.queues import WrongAnswersQueue
from tasks.generated_bench.results.errors import error_rows, wrong_answers
from tasks.judging.answers import ask_models
from tasks.judging.sources import bench_of
from tasks.review_queue import review_of
from tasks.runtime.budget import SHIPPED_PRICES
from tasks.storage.records import latest_run_record, run_records
from tasks.storage.reviews import add_reviews
from tasks.storage.tables import frame_of
from tests.asked_bench import PUBLIC, benched, completed, last_text, models_file, said_by
from tests.builders import NOON
from tests.generated_bench import NAME, decided, settings_for
from tests.http_server import Reply
from tests.visit_bench import HIDDEN, visit_bench

pytest.importorskip("openai", reason="production extra")


pytestmark = pytest.mark.usefixtures("prefect_server")
PRICE = """
  openai-m-1:
    input_usd_per_million: 30
    output_usd_per_million: 60
    batch_share: 0.5
    image: {tile_pixels: 32, tiles_max: 1536, tokens_a_tile: 1.62}
    source: the price list of 2023
    date: 2023-08-01
    confirmed: false
units:
"""


def _by_words(text):
    """A judge that likes blue cups best, then anything but plates."""
    first, second = (text.split(f"Response {seat}:")[1].split("[end of")[0] for seat in "AB")
    worth = [("blue" in said) - ("plate" in said) for said in (first, second)]
    better = "none" if worth[0] == worth[1] else "A" if worth[0] > worth[1] else "B"
    return json.dumps({"reasons": f"The caption says {text[:30]}", "better": better})


@pytest.fixture
def submit(http_server, tmp_path, curate):
    """Runs the command on some rows of a CSV; returns status, output, notes and requests."""
    http_server.answer(Reply(said_by(_by_words)))
    store = visit_bench(tmp_path / "store", {"x": "A cup of {}.", "y": "A plate."}, items=6)
    judge = models_file(tmp_path, http_server.url, "judge")

    def submit(rows, *options, model="new"):
        file = tmp_path / "answers.csv"
        file.write_text("item_id,instruction,instruction_category,new_output\n" + "\n".join(rows))
        before = len(http_server.requests)
        ran = curate(
            "judge", "submit", file, "--store", store.root, "--model", model, "--bench", "b", "--judge", judge, *options
        )
        return (*ran, http_server.requests[before:])

    submit.store = store
    return submit


BLUE = [f"i{n},,,A blue cup." for n in range(5)]


def test_a_submission_is_checked_judged_and_rated_and_a_second_run_asks_nothing(submit, tmp_path, curate):
    rows = [*BLUE[:3], ",What is in i3?,Humor,A blue cup.", "i4,,,One.", "i4,,,Two.", "i5,,,", "zz,,,What?"]
    lines = tmp_path / "lines.jsonl"
    code, out, err, requests = submit(rows, "--set", "evaluate.reference_battles=2", "--out", str(lines))
    assert code == 0, err
    listed = ("missing 1: hidden-item", "unknown 1: zz", "double 1: i4", "empty 1: i5")
    assert [each for each in listed if each not in err] == []
    assert "4 answers, 6 battles" in err and len(requests) == 12
    assert not any(HIDDEN in last_text(each) for each in requests)
    assert any(line.split()[:2] == ["-", "new"] for line in out.splitlines())  # it only won, so it has no rank
    told = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [each["item_id"] for each in told] == ["i0", "i1", "i2", "i3"]
    assert {each["opponent"] for each in told} <= {"x", "y"} and {each["result"] for each in told} == {"win"}
    assert "caption" not in lines.read_text() and "reasons" not in lines.read_text()
    code, out, _, requests = submit(rows, "--set", "evaluate.reference_battles=2", "--json")
    assert (code, requests) == (0, [])
    board = {(row["slice"], row["model"]): row for row in map(json.loads, out.splitlines())}
    new = board["overall", "new"]
    assert (new["matches"], new["coverage"]) == (6, 4 / 6)
    assert (new["win_rate_vs_reference"], new["decisive_vs_reference"]) == (1, 2)
    code, now, _ = curate("judge", "board", "--store", submit.store.root, "--bench", "b", "--json")
    assert [row | {"made_at": ""} for row in map(json.loads, now.splitlines())] == [
        row | {"made_at": ""} for row in board.values()
    ]
    record = submit.store.read_bytes(latest_run_record(submit.store)).decode()
    assert str(tmp_path) not in record and json.loads(record)["funnel"] is None
    assert "low_coverage" in new["flags"] and new["elo"] > 1000
    assert board["family:humor", "new"]["matches"] >= 2
    assert len(list((Path(submit.store.root) / "boards" / "b").iterdir())) in (1, 2)  # a file a second


def test_the_draw_follows_content_and_another_model_changes_only_what_it_is_drawn_for(submit):
    assert submit(BLUE, "--set", "evaluate.reference_battles=3")[0] == 0
    first = submit.store.read("verdicts")
    assert submit(BLUE, "--set", "evaluate.reference_battles=3", model="other")[0] == 0
    met = {name: _met(submit.store.read("verdicts"), name) for name in ("new", "other")}
    references = [{item for item, who in met[name] if who == "reference"} for name in met]
    assert references[0] == references[1] and len(references[0]) == 3
    assert all(len({item for item, who in met[name] if who != "reference"}) == 5 for name in met)
    assert first.height == 2 * (5 + 3)
    assert {who for item, who in met["other"]} <= {"new", "x", "y", "reference"}


def _met(verdicts, name):
    pairs = verdicts.select("question_id", "model_a", "model_b").iter_rows()
    return {(item, a if b == name else b) for item, a, b in pairs if name in (a, b)}


def test_the_cost_is_said_first_and_a_budget_stops_the_calls_and_a_later_run_asks_for_the_rest(submit, tmp_path):
    prices = tmp_path / "prices.yaml"
    prices.write_text(SHIPPED_PRICES.read_text().replace("\nunits:\n", PRICE))
    options = ("--set", "evaluate.reference_battles=2", "--prices", str(prices))
    code, _, err, requests = submit(BLUE, "--dry-run", *options)
    assert (code, requests) == (0, []) and "14 calls" in err and "$" in err
    assert submit.store.read("answers").filter(model="new").is_empty()
    code, _, err, requests = submit(BLUE, "--budget", "0.1", *options)  # less than one call may cost
    assert (code, requests) == (0, []) and "budget_reached" in err and "has no verdicts on benchmark 'b'" in err
    assert submit.store.read("answers").filter(model="new").height == 5
    assert len(submit(BLUE, "--budget", "9", *options)[3]) == 14


@pytest.mark.parametrize(
    ("rows", "options", "said"),
    [
        (["zz,,,A cup."], {}, "has no answer to an item of this benchmark (1 rows on others"),
        (BLUE, {"model": "Reference"}, "is the name of the verified reference"),
        (BLUE, {"model": ""}, "Missing option '--model': give it"),
        (BLUE, {"model": "x"}, "--model 'x' has other answers on this board"),
    ],
)
def test_what_cannot_be_submitted_ends_with_one_line_and_keeps_nothing(submit, rows, options, said):
    code, out, err, requests = submit(rows, **options)
    assert (code, out, requests) == (2, "", []) and said in err
    assert submit.store.read("verdicts").is_empty()
    assert submit.store.read("answers")["model"].unique().sort().to_list() == ["x", "y"]


def test_an_id_that_is_no_text_is_unknown_and_a_folder_that_is_not_there_is_said_first(
    submit, tmp_path, curate, refused
):
    store, file = ("--store", submit.store.root, "--bench", "b", "--model", "new"), tmp_path / "answers.jsonl"
    rows = [{"item_id": ["x"], "prediction": "A cup."}, {"item_id": "i0", "prediction": "A cup."}]
    file.write_text("\n".join(map(json.dumps, rows)))
    code, _, err = curate("judge", "submit", file, *store, "--dry-run")
    assert code == 0 and "unknown 1: ['x']" in err, err
    assert "in a folder that is not there" in refused(
        "judge", "submit", file, *store, "--out", tmp_path / "nodir" / "x.jsonl"
    )
    assert submit.store.read("verdicts").is_empty()


@pytest.fixture
def answering_server(http_server):
    http_server.answer(Reply(completed("[[A=B]]")))
    return http_server


def test_models_answer_a_judge_compares_and_a_second_run_makes_no_call(curate, answering_server, tmp_path):
    store = benched(tmp_path)
    models, judge = (models_file(tmp_path, answering_server.url, *names) for names in (("a", "b"), ("judge",)))
    answer = ("judge", "answer", "--store", store.root, "--models", models)
    compare = ("judge", "compare", "--store", store.root, "--judge", judge, "--baseline", "a")
    for calls in (2 * PUBLIC, 0):
        before = len(answering_server.requests)
        code, _, err = curate(*answer)
        assert (code, len(answering_server.requests) - before) == (0, calls), err
    for calls in (2 * PUBLIC, 0):
        before = len(answering_server.requests)
        code, out, err = curate(*compare)
        assert (code, len(answering_server.requests) - before) == (0, calls), err
    record = json.loads(store.read_bytes(out.split()[1].removeprefix(f"{store.root}/")) or b"")
    assert record["settings"]["evaluate"]["baseline"] == "a"
    assert str(tmp_path) not in json.dumps(record)
    assert store.height("verdicts") == 2 * PUBLIC
    code, _, err = curate(*compare[:4], "--baseline", "a", "--protocol", "wildvision")
    assert (code, len(answering_server.requests) - before) == (0, 0)
    assert "the embedded judge is a stand-in" in err
    assert store.height("verdicts") == 3 * PUBLIC


def test_a_judge_is_told_the_prompts_of_a_folder_which_are_another_version_of_it(curate, answering_server, tmp_path):
    store, folder = benched(tmp_path, answers={"a": "One.", "b": "Two."}), tmp_path / "paper" / "judges"
    folder.mkdir(parents=True)
    ours = Path("tasks/prompts/judges/user.md").read_text()
    (folder / "user.md").write_text("AS THE PAPER SAYS\n" + ours)
    judge = models_file(tmp_path, answering_server.url, "judge")
    compare = ("judge", "compare", "--store", store.root, "--judge", judge, "--baseline", "a")
    for prompts, calls in (((), 2 * PUBLIC), (("--prompts", folder.parent), 2 * PUBLIC), ((), 0)):
        before = len(answering_server.requests)
        code, _, err = curate(*compare, *prompts)
        assert (code, len(answering_server.requests) - before) == (0, calls), err
        told = [last_text(each).startswith("AS THE PAPER SAYS") for each in answering_server.requests[before:]]
        assert told == [bool(prompts)] * calls
    assert store.read("verdicts")["judge_version"].n_unique() == 2
    assert str(tmp_path) not in "".join(json.dumps(record) for record in run_records(store))


def test_wrong_answers_are_sorted_by_a_model_by_people_and_by_the_description(
    curate, answering_server, tmp_path, monkeypatch
):
    monkeypatch.setenv("CURATE_CALLS_AT_ONCE", "1")
    store = decided(settings_for(tmp_path / "store", general=1, fine=2, per_aspect=3, levels=["easy", "hard"]))
    blind = AskedModel(name="blind", vendor="embedded", model="blind")
    ask_models(store, bench_of(store, EvaluateSettings(generated=NAME), keyed_items), [blind])
    answering_server.answer(Reply(completed('{"reasons": "It saw another colour.", "error": "comprehension"}')))
    judge = models_file(tmp_path, answering_server.url, "j")
    asked = ("bench", "audit", "--store", store.root, "--bench", NAME, "--judge", judge)
    wrong = wrong_answers(store, NAME)
    assert {each.model for each in wrong} == {"blind"}
    assert f"{len(wrong)} calls" in curate(*asked, "--dry-run")[1] and answering_server.requests == []
    code, out, err = curate(*asked, "--json")
    assert (code, len(answering_server.requests)) == (0, len(wrong)), err
    told = last_text(answering_server.requests[0])
    assert (
        wrong[0].item.question in told and '"right"' in told and "image_url" in json.dumps(answering_server.requests[0])
    )
    assert curate(*asked)[0] == 0 and len(answering_server.requests) == len(wrong)
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert sum(row["comprehension"] for row in rows if row["slice"] == "overall") == len(wrong)

    queue = WrongAnswersQueue(NAME, 100, 0)
    waiting = queue.waiting(store)
    assert {each.item_id for each in waiting} == {each.content_id for each in wrong}
    said = [review_of(queue, waiting[0], word, name, NOON) for name, word in (("a", "reasoning"), ("b", "reasoning"))]
    add_reviews(store, [*said, review_of(queue, waiting[0], "neither", "c", NOON)])
    described = AuditAnswer(
        item_id=wrong[0].item.item_id, model=wrong[0].model, mode="described", key="A", letter="B", text="B",
        version=wrong[0].version,
    )  # fmt: skip
    store.append("audit_answers", frame_of(AuditAnswer, [described]))
    found = {(row.by, row.model): row for row in error_rows(store, NAME) if row.slice == "overall"}
    assert sum(row.reasoning for (by, _), row in found.items() if by == "people") == 1
    assert found["description", wrong[0].model].reasoning == 1
    assert sum(row.wrong for (by, _), row in found.items() if by == "people") == len(wrong)


def test_what_is_wrong_is_one_line_and_status_2(refused, tmp_path):
    store = benched(tmp_path)
    models = models_file(tmp_path, "http://127.0.0.1:9", "a", vendor="opnai")
    for command, told in (
        (("answer", "--models", models), "unknown vendor 'opnai'"),
        (("answer", "--models", tmp_path / "none.yaml"), "cannot be read"),
        (("compare", "--baseline", "a", "--batch"), "--batch: no model is called"),
        (("compare", "--judge", models, "--baseline", "a", "--protocol", "wildvison"), "'wildvison' is not one of"),
    ):
        assert told in refused("judge", command[0], "--store", store.root, *command[1:])
