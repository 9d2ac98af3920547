"""`curate judge answer` and `compare` from the command line: asked once, in one line where something is wrong."""

import json
from pathlib import Path

import pytest

from schemas.asked_model import AskedModel
from schemas.benches.generated_results import AuditAnswer
from schemas.settings import EvaluateSettings
from tasks.generated_bench.results.errors import error_rows, wrong_answers
from tasks.judging.answers import ask_models
from tasks.judging.sources import bench_of
from tasks.review.generated import WrongAnswersQueue
from tasks.review.review_queue import review_of
from tasks.storage.reviews import add_reviews
from tasks.storage.run_record import run_records
from tasks.storage.tables import frame_of
from tests.asked_bench import PUBLIC, benched, completed, last_text, models_file
from tests.builders import NOON
from tests.generated_bench import NAME, decided, settings_for
from tests.http_server import HttpServer, Reply

pytest.importorskip("openai", reason="production extra")
pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture
def server():
    server = HttpServer()
    server.answer(Reply(completed("[[A=B]]")))
    yield server
    server.close()


def test_models_answer_a_judge_compares_and_a_second_run_makes_no_call(curate, server, tmp_path):
    store = benched(tmp_path)
    models, judge = (models_file(tmp_path, server.url, *names) for names in (("a", "b"), ("judge",)))
    answer = ("judge", "answer", "--store", store.root, "--models", models)
    compare = ("judge", "compare", "--store", store.root, "--judge", judge, "--baseline", "a")
    for calls in (2 * PUBLIC, 0):
        before = len(server.requests)
        code, _, err = curate(*answer)
        assert (code, len(server.requests) - before) == (0, calls), err
    for calls in (2 * PUBLIC, 0):
        before = len(server.requests)
        code, out, err = curate(*compare)
        assert (code, len(server.requests) - before) == (0, calls), err
    record = json.loads(store.read_bytes(out.split()[1].removeprefix(f"{store.root}/")) or b"")
    assert record["settings"]["evaluate"]["baseline"] == "a"
    assert str(tmp_path) not in json.dumps(record)
    assert store.height("verdicts") == 2 * PUBLIC
    code, _, err = curate(*compare[:4], "--baseline", "a", "--protocol", "wildvision")
    assert (code, len(server.requests) - before) == (0, 0)
    assert "the embedded judge is a stand-in" in err
    assert store.height("verdicts") == 3 * PUBLIC


def test_a_judge_is_told_the_prompts_of_a_folder_which_are_another_version_of_it(curate, server, tmp_path):
    store, folder = benched(tmp_path, answers={"a": "One.", "b": "Two."}), tmp_path / "paper" / "judges"
    folder.mkdir(parents=True)
    ours = Path("tasks/prompts/judges/user.md").read_text()
    (folder / "user.md").write_text("AS THE PAPER SAYS\n" + ours)
    judge = models_file(tmp_path, server.url, "judge")
    compare = ("judge", "compare", "--store", store.root, "--judge", judge, "--baseline", "a")
    for prompts, calls in (((), 2 * PUBLIC), (("--prompts", folder.parent), 2 * PUBLIC), ((), 0)):
        before = len(server.requests)
        code, _, err = curate(*compare, *prompts)
        assert (code, len(server.requests) - before) == (0, calls), err
        told = [last_text(each).startswith("AS THE PAPER SAYS") for each in server.requests[before:]]
        assert told == [bool(prompts)] * calls
    assert store.read("verdicts")["judge_version"].n_unique() == 2
    assert str(tmp_path) not in "".join(json.dumps(record) for record in run_records(store))


def test_wrong_answers_are_sorted_by_a_model_by_people_and_by_the_description(curate, server, tmp_path, monkeypatch):
    monkeypatch.setenv("CURATE_CALLS_AT_ONCE", "1")
    store = decided(settings_for(tmp_path / "store", general=1, fine=2, per_aspect=3, levels=["easy", "hard"]))
    blind = AskedModel(name="blind", vendor="embedded", model="blind")
    ask_models(store, bench_of(store, EvaluateSettings(generated=NAME)), [blind])
    server.answer(Reply(completed('{"reasons": "It saw another colour.", "error": "comprehension"}')))
    judge = models_file(tmp_path, server.url, "j")
    asked = ("bench", "audit", "--store", store.root, "--bench", NAME, "--judge", judge)
    wrong = wrong_answers(store, NAME)
    assert {each.model for each in wrong} == {"blind"}
    assert f"{len(wrong)} calls" in curate(*asked, "--dry-run")[1] and server.requests == []
    code, out, err = curate(*asked, "--json")
    assert (code, len(server.requests)) == (0, len(wrong)), err
    told = last_text(server.requests[0])
    assert wrong[0].item.question in told and '"right"' in told and "image_url" in json.dumps(server.requests[0])
    assert curate(*asked)[0] == 0 and len(server.requests) == len(wrong)
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


def test_what_is_wrong_is_one_line_and_status_2(curate, tmp_path):
    store = benched(tmp_path)
    models = models_file(tmp_path, "http://127.0.0.1:9", "a", vendor="opnai")
    for command, told in (
        (("answer", "--models", models), "unknown vendor 'opnai'"),
        (("answer", "--models", tmp_path / "none.yaml"), "cannot be read"),
        (("compare", "--baseline", "a", "--batch"), "--batch: no model is called"),
        (("compare", "--judge", models, "--baseline", "a", "--protocol", "wildvison"), "'wildvison' is not one of"),
    ):
        code, out, err = curate("judge", command[0], "--store", store.root, *command[1:])
        assert (code, out) == (2, "")
        assert told in err
        assert err.startswith("curate: ")
        assert err.count("\n") == 1
