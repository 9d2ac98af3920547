"""`curate judge answer` and `compare` from the command line: asked once, in one line where something is wrong."""

import json
from pathlib import Path

import pytest

from tasks.storage.run_record import run_records
from tests.asked_bench import PUBLIC, benched, completed, last_text, models_file
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
