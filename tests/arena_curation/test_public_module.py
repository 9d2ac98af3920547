"""`import arena_curation` gives what the commands give, masked alike, and works from a wheel outside a clone."""

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import polars as pl
import pytest

import arena_curation
from arena_curation import BadInput
from schemas.upkeep import Audited
from tasks.runtime.untrusted import json_text
from tasks.storage.records import audit_entries
from tests.amputate import NOT_INSTALLED, copied
from tests.builders import USER_KEY, image_bytes
from tests.looked_store import EMAIL, looked_store
from tests.small_store import make_release, small_store
from tests.tampered_release import add_file
from tests.tasks.ingest.logs import DAY, chat, write

VOTES = "model_a,model_b,winner\n" + "a,b,model_a\n" * 30 + "b,a,model_a\n" * 20 + "a,b,tie\n" * 5 + "a,a,tie\n"
HEAVY = ("duckdb", "fastapi", "numpy", "pandas", "polars", "prefect", "pyarrow", "pydantic", "typer")


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """A store with a release 1.0.0."""
    store = small_store(tmp_path_factory.mktemp("small"))
    make_release(store, reported=True, release="1.0.0")
    return Path(store.root)


@pytest.fixture(scope="module")
def release(small) -> Path:
    """The release."""
    return small / "releases" / "1.0.0"


@pytest.fixture
def votes(tmp_path) -> Path:
    """A battle table."""
    file = tmp_path / "votes.csv"
    file.write_text(VOTES)
    return file


def _lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def test_an_import_loads_nothing_heavy():
    code = f"import sys, arena_curation; print([name for name in {HEAVY} if name in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == "[]\n"


def test_a_store_and_a_release_open_with_what_can_be_asked(small, release):
    store, opened = arena_curation.open(small), arena_curation.open(str(release))
    assert store.manifest is None
    assert opened.manifest.version == "1.0.0"
    assert "battles" in store.tables
    assert "battle" in opened.tables
    assert (
        arena_curation.sql(opened, "SELECT count(*) AS n FROM battle")["n"].item() == opened.manifest.counts["battle"]
    )
    with pytest.raises(BadInput, match="is not a release"):
        arena_curation.open(small.parent / "nowhere")


def test_questions_are_answered_as_the_command_answers_them(curate, small, release):
    for place, question in (
        (small, "SELECT item_kind, keep, count(*) AS items FROM decisions GROUP BY ALL ORDER BY ALL"),
        (release, "SELECT question_id, winner, categories FROM battle ORDER BY 1"),
    ):
        rows = arena_curation.sql(place, question)
        assert rows.height > 1
        assert rows.to_dicts() == _lines(curate("sql", place, question, "--json")[1])
    none = arena_curation.sql(release, "SELECT question_id, num_turns FROM battle WHERE false")
    assert (none.columns, none.height) == (["question_id", "num_turns"], 0)


@pytest.mark.parametrize("question", ["DROP TABLE battle", "SELECT * FROM battel", "FROM read_csv('/etc/passwd')", ""])
def test_a_question_that_does_more_than_read_known_tables_is_refused(release, question):
    with pytest.raises(BadInput, match=r"^SQL: "):
        arena_curation.sql(release, question)


def test_personal_data_is_masked_unless_the_audit_log_says_who_looked(tmp_path):
    store = looked_store(tmp_path).store
    question = "SELECT prompt FROM prompts WHERE conversation_id = 'personal'"
    assert arena_curation.sql(store.root, question)["prompt"].item() == "Write to [email], please"
    assert [*audit_entries(store)] == []
    assert EMAIL in arena_curation.sql(store.root, question, unmask=True)["prompt"].item()
    assert [entry.what for entry in audit_entries(store)] == [Audited.LOOKED]


def test_nothing_of_a_release_is_unmasked(release):
    with pytest.raises(BadInput, match=r"^unmask: nothing of a release is masked"):
        arena_curation.sql(release, "SELECT 1", unmask=True)


def test_a_file_a_frame_a_release_and_a_store_are_rated_as_by_the_command(curate, capsys, small, release, votes):
    columns = ["model", "rating", "ci95_low", "ci95_high", "rank", "battles"]
    frame = pl.read_csv(io.StringIO(VOTES))
    for battles, *arguments in ((votes, votes), (frame, votes), (release, release), (small, "--store", small)):
        board = arena_curation.rate(battles, slices=["all"])
        assert "left out" in capsys.readouterr().err or not isinstance(battles, pl.DataFrame)
        printed = _lines(curate("rate", *arguments, "--slice", "all", "--json")[1])
        assert board.select(columns).to_dicts() == [{name: row[name] for name in columns} for row in printed]
    anchored = arena_curation.rate(votes, anchor_model="b", anchor_rating=1100)
    assert anchored.filter(model="b")["rating"].item() == 1100
    assert arena_curation.rate(votes, table="win_rates", reference="b").height > 0


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"table": "rating"}, "'rating'. Known: .* Did you mean ratings?"),
        ({"slices": ["language:Klingon"]}, "Klingon"),
        ({"bootstrap": 3}, "setting 'bootstrap'. Known: .* Did you mean bootstraps?"),
        ({"bootstraps": -1}, "^bootstraps: must be at least 2, not -1"),
    ],
)
def test_a_bad_argument_of_a_board_is_one_line_in_words_of_python(votes, settings, line):
    with pytest.raises(BadInput, match=line) as refused:
        arena_curation.rate(votes, **settings)
    assert "\n" not in str(refused.value)
    assert "--" not in str(refused.value)


def test_a_frame_without_winners_is_refused_with_its_columns():
    with pytest.raises(BadInput, match="lacks winner; its columns are model_a, model_b"):
        arena_curation.rate(pl.DataFrame({"model_a": ["x"], "model_b": ["y"]}))


def test_signals_of_files_are_those_of_the_command(curate, tmp_path):
    image, texts = tmp_path / "image.png", tmp_path / "texts.jsonl"
    image.write_bytes(image_bytes(1, (32, 24)))
    texts.write_text('{"text": "Write to ann.lee@example.org"}\n{"no": "text"}\n')
    inspected = arena_curation.inspect(image, str(texts))
    assert inspected == _lines(curate("inspect", image, texts, "--json")[1])
    assert inspected[1]["signals"]["text_pii"]["types"] == ["email"]
    assert inspected[2]["signals"]["text_pii"] == {"error": "no_text"}
    with pytest.raises(BadInput, match="does not exist"):
        arena_curation.inspect(image, tmp_path / "absent.png")


def test_an_account_has_the_sentences_and_the_facts_of_the_command(curate, small):
    for item in ("c01", "d0", "b1", "2024-09-18-conv.json:600"):
        account = arena_curation.explain(small, item)
        assert account.sentences == curate("explain", item, "--store", small)[1].splitlines()
        assert json.loads(json_text(account.facts)) == json.loads(
            curate("explain", item, "--store", small, "--json")[1]
        )
    with pytest.raises(BadInput, match="'zz' is not in store"):
        arena_curation.explain(small, "zz")


def test_problems_of_a_release_are_a_list_and_a_folder_without_one_is_refused(release, small, tmp_path):
    assert arena_curation.verify(release) == []
    changed = tmp_path / "1.0.0"
    shutil.copytree(release, changed)
    add_file(changed, "notes.txt")
    assert arena_curation.verify(changed) == ["notes.txt: no release has such a file"]
    with pytest.raises(BadInput, match="is not a release"):
        arena_curation.verify(small)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"store": "s"}, "Missing option 'logs'"),
        ({"logs": "absent", "store": "s"}, "absent"),
        ({"logs": ".", "store": "s", "since": "yesterday"}, "^since: must be a day"),
        ({"logs": ".", "store": "s", "bench": {"sise": 3}}, "^bench.sise: is no key"),
    ],
)
def test_a_run_with_a_bad_setting_ends_before_it_starts(tmp_path, monkeypatch, settings, line):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=line):
        arena_curation.run(**settings)
    assert not (tmp_path / "s" / "tables").exists()


OUTSIDE = """
import json, sys
import arena_curation, flows, schemas, tasks
installed, release, votes = sys.argv[1:]
assert all(module.__file__.startswith(installed) for module in (arena_curation, flows, schemas, tasks))
board = arena_curation.rate(votes)
opened = arena_curation.open(release)
battles = arena_curation.sql(opened, "SELECT count(*) AS n FROM battle")["n"].item()
reports = arena_curation.run(logs="logs", store="store", workers=1)
kept = arena_curation.sql("store", "SELECT keep FROM decisions")["keep"].to_list()
print(json.dumps([board["model"].to_list(), battles == opened.manifest.counts["battle"], reports[-1].stage, kept,
    arena_curation.verify(f"store/{reports[-1].result}")]))
"""


def test_it_works_from_a_wheel_outside_a_clone(tmp_path, release, votes):
    """Rates a table, opens a release and asks it, and runs logs to a release that is whole."""
    clone, installed, elsewhere = (tmp_path / name for name in ("clone", "installed", "elsewhere"))
    copied(clone)
    (clone / "sitecustomize.py").unlink()
    build = [
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "--wheel-dir",
        tmp_path,
        clone,
    ]
    subprocess.run([sys.executable, "-m", *build], check=True, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        assert "arena_curation/py.typed" in files.namelist()
        files.extractall(installed)
    (installed / "sitecustomize.py").write_text(NOT_INSTALLED)
    write(elsewhere / "logs", DAY, chat("one"))
    command = [sys.executable, "-P", "-c", OUTSIDE, installed, release, votes]
    environment = {**os.environ, "PYTHONPATH": str(installed), "CURATE_USER_KEY": USER_KEY}
    done = subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["a", "b"], True, "release", [True], []]
