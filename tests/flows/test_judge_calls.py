"""`curate judge answer` and `compare` from the command line: asked once, in one line where something is wrong."""

import json

import pytest

from tests.asked_bench import PUBLIC, benched, completed, models_file
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
