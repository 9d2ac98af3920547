"""The settings file: what `curate init` writes, which value wins, what is refused, what `curate doctor` says."""

import json
import os
import re
from pathlib import Path

import pytest
import yaml
from typer import Typer

from flows.commands.options import takes
from flows.running.settings_file import OF_ONE_RUN, deployed, in_force, read
from schemas.errors import MissingProvider
from schemas.settings import Settings
from tasks.providers import Providers
from tests.http_server import Reply
from tests.small_store import small_store

VENDORS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "GEMINI_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> Path:
    """An empty folder with a folder of logs; no vendor's key is set."""
    for name in (*VENDORS, "CURATE_CONFIG", "CURATE_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "2024-06-20-conv.json").write_text("{}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _settings(*arguments: str, **defaults: object) -> Settings:
    """The settings that a command is called with."""
    found: list[Settings] = []
    app = Typer()
    app.command()(takes("store", "policy", "seed", "providers", "evaluate.judge", **defaults)(found.append))
    app(list(arguments), standalone_mode=False)
    return found[0]


def test_init_writes_every_setting_with_its_meaning_and_its_default(curate, here):
    code, out, _ = curate("init")
    text = (here / "curate.yaml").read_text()
    assert (code, out.splitlines()[0]) == (0, "curate.yaml: models embedded")
    assert text.count("# Size of the smallest topic; by default 0.5 %") == 1
    whole = re.sub(r"^( *)# (\w+: .*)$", r"\1\2", text, flags=re.MULTILINE)  # every default is said
    (here / "whole.yaml").write_text(whole)
    keys = yaml.safe_load(whole).keys() - {"version"}
    assert keys == Settings.model_fields.keys() - {*OF_ONE_RUN}
    given = read(here / "whole.yaml")
    assert Settings(**given) == Settings(
        store=str(here / "store"), logs=str(here / "logs"), retention={"thin_releases": True}
    )
    assert "is there already" in curate("init")[2]


def test_init_leaves_an_address_with_a_password_in_the_environment(curate, here, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://someone:a-password@127.0.0.1:9/v1")
    assert curate("init", "--models", "embedded")[0] == 0
    assert "a-password" not in (here / "curate.yaml").read_text()
    assert "environment" not in read(here / "curate.yaml")


PLACES = {"option": "given/curate.yaml", "beside": "of/curate.yaml", "variable": "named/mine.yaml",
          "here": "curate.yaml", "beside variable": "shop/curate.yaml"}  # fmt: skip
"""Where a settings file lies, from that which wins over all others to the last."""


@pytest.mark.parametrize("left", range(len(PLACES) + 1))
def test_the_nearest_file_and_store_count_and_the_variables_of_the_guide_are_known(here, monkeypatch, left):
    monkeypatch.setenv("CURATE_STORE", str(here / "shop" / "store"))
    there = list(PLACES)[left:]
    for place in there:
        file = here / PLACES[place]
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"seed: {list(PLACES).index(place) + 1}\n")
        if place == "variable":
            monkeypatch.setenv("CURATE_CONFIG", str(file))
    arguments = ["--config", PLACES["option"]] if "option" in there else []
    arguments += ["--store", "of/store"] if "beside" in there else []
    settings = _settings(*arguments)
    assert settings.seed == (left + 1) % (len(PLACES) + 1)
    assert Path(settings.store) == (Path("of/store") if "beside" in there else here / "shop" / "store")


def test_the_store_of_a_file_wins_over_the_variable_and_status_and_deployments_know_both(here, curate, monkeypatch):
    monkeypatch.setenv("CURATE_STORE", str(here / "shop" / "store"))
    small_store(here / "shop")
    code, out, _ = curate("status", "--json")
    assert (code, json.loads(out.splitlines()[0])["conversations"] > 0) == (0, True)
    (here / "shop" / "curate.yaml").write_text("store: store\nlogs: ../logs\n")
    assert deployed() == {"config": str(here / "shop" / "curate.yaml")}
    (here / "mine.yaml").write_text("store: elsewhere\nlogs: logs\n")
    monkeypatch.setenv("CURATE_CONFIG", "mine.yaml")
    assert deployed() == {"config": str(here / "mine.yaml")}
    assert _settings().store == str(here / "elsewhere")
    code, out, err = curate("status")
    assert (code, out) == (2, "") and "elsewhere" in err


def test_a_file_without_a_store_is_deployed_and_run_with_that_of_the_variable(here, monkeypatch):
    (here / "curate.yaml").write_text("logs: logs\n")
    with pytest.raises(SystemExit, match="store must be given"):
        deployed()
    monkeypatch.setenv("CURATE_STORE", str(here / "shop" / "store"))
    config = deployed()["config"]
    assert in_force(Settings(config=config)).store == str(here / "shop" / "store")


def test_the_line_about_a_missing_file_of_the_variable_names_the_command_that_writes_it(here, curate, monkeypatch):
    monkeypatch.setenv("CURATE_CONFIG", str(here / "etc" / "mine.yaml"))
    code, _, err = curate("doctor")
    assert (code, "`curate init` writes one" in err) == (2, True)
    assert curate("init")[0] == 0
    assert (here / "etc" / "mine.yaml").is_file() and not (here / "curate.yaml").exists()
    assert Path(_settings().logs or "").resolve() == here / "logs"


def test_an_option_wins_over_the_file_also_with_the_value_of_the_default(here):
    (here / "curate.yaml").write_text(
        "store: s\nseed: 7\npolicy: redact\nproviders: {nsfw: x}\nbench: {size: 9, language: null}\n"
        "evaluate: {judge: judge.yaml}\n"
    )
    plain = _settings()
    assert (plain.store, plain.seed, plain.policy, plain.bench.size) == (str(here / "s"), 7, "redact", 9)
    assert _settings("--seed", "0", "--set", "bench.size=3").bench.model_dump() == {
        **plain.bench.model_dump(),
        "size": 3,
    }
    assert _settings("--seed", "0").seed == 0
    assert _settings("--provider", "faces=y").providers == {"nsfw": "x", "faces": "y"}
    own = _settings(policy="generated", **{"evaluate.judge": "embedded"})
    assert (own.policy, own.evaluate.judge) == ("generated", "judge.yaml"), "a command's own policy stands"


def test_the_file_beside_the_store_is_read_before_that_of_the_folder(here):
    (here / "curate.yaml").write_text("seed: 1\n")
    (here / "other").mkdir()
    (here / "other" / "curate.yaml").write_text("seed: 2\n")
    assert (_settings("--store", "s").seed, _settings("--store", "other/s").seed) == (1, 2)
    assert _settings("--store", "other/s", "--config", "curate.yaml").seed == 1


def test_a_night_and_a_backfill_differ_in_what_they_are_given_alone(here):
    (here / "curate.yaml").write_text("store: s\nlogs: logs\npolicy: redact\nbench: {size: 9}\n")
    config = str(here / "curate.yaml")
    night, days = in_force(Settings(config=config)), in_force(Settings(config=config, since="2024-06-20"))
    assert night.policy == "redact" and night.logs == str(here / "logs")
    assert days == night.model_copy(update={"since": days.since})


def test_without_its_folders_nothing_is_deployed_and_one_line_says_so(here):
    (here / "curate.yaml").write_text("logs: logs\n")
    with pytest.raises(SystemExit, match=r"^prefect deploy: .*curate.yaml': store must be given [^\n]*operating.md\)$"):
        deployed()


def test_the_environment_of_a_file_reaches_providers_with_paths_from_its_folder_and_an_exported_one_wins(
    here, monkeypatch
):
    monkeypatch.setenv("CURATE_OPENAI_MODEL", "exported")
    monkeypatch.setenv("CURATE_YUNET_WEIGHTS", "")
    (here / "curate.yaml").write_text(
        "store: s\nenvironment: {CURATE_OPENAI_MODEL: x, CURATE_YUNET_WEIGHTS: yunet.onnx}\n"
    )
    _settings()
    assert os.environ["CURATE_OPENAI_MODEL"] == "exported"
    assert os.environ["CURATE_YUNET_WEIGHTS"] == str(here / "yunet.onnx")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("polcy: x", ["unknown key 'polcy'; did you mean policy?"]),
        ("topics: {engin: umap}", ["unknown key 'topics.engin'; did you mean topics.engine?"]),
        ("topics: 3", ["topics has keys of its own"]),
        ("workers: 0", ["workers: must be at least 1"]),
        ("version: 2", ["is of version 2, and this program reads 1"]),
        ("store: a\nstore: b", ["'store' is given twice"]),
        ("store: [a, b]", ["store: must be text"]),
        ("openai_api_key: abc", ["openai_api_key holds a secret", "export OPENAI_API_KEY"]),
        ("environment: {OPENAI_API_KEY: abc}", ["holds a secret", "export OPENAI_API_KEY"]),
        ("policy: sk-abcdefghijklmnopqrstuv", ["policy holds a secret"]),
        ("logs: [a.json, sk-abcdefghijklmnopqrstuv]", ["logs holds a secret"]),
        ("accept_drift: true", ["is about one run; give --accept-drift"]),
        ("a: [", ["is not YAML: line 2"]),
    ],
)
def test_a_wrong_file_is_one_line_without_its_secrets_and_changes_nothing(refused, here, text, words):
    (here / "curate.yaml").write_text(text + "\n")
    line = refused("run", "--logs", "logs", "--store", "new", "--config", "curate.yaml")
    assert all(word in line for word in words), line
    assert "abc" not in line and not (here / "new").exists()


def test_one_word_chooses_all_models_and_a_single_capability_wins(monkeypatch):
    vendors = _settings("--store", "s", "--set", "models=vendors", "--provider", "faces=embedded").providers
    assert (vendors["nsfw"], vendors["faces"], vendors["categories"]) == ("google_vision", "embedded", "openai")
    monkeypatch.setenv("GEMINI_API_KEY", "x")
    assert _settings("--store", "s", "--set", "models=vendors").providers["categories"] == "gemini"
    own = in_force(Settings(store="s", models="self_hosted")).providers
    assert (own["nsfw"], own["moderation"], "pictures" in own) == ("opennsfw2", "openai_chat", False)


def test_init_proposes_what_it_finds(curate, here, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1")
    curate("init", "--logs", "logs")
    found = read(here / "curate.yaml")
    assert (found["models"], found["environment"]) == ("self_hosted", {"OPENAI_BASE_URL": "http://127.0.0.1:8000/v1"})
    assert found["providers"].keys() >= {"nsfw", "faces"}, "without weights the embedded ones are proposed, and why"
    assert "CURATE_YUNET_WEIGHTS" in (here / "curate.yaml").read_text()


def test_doctor_says_what_is_in_force_and_ends_with_a_verdict(curate, here, monkeypatch):
    (here / "curate.yaml").write_text("store: s\nlogs: logs\npolicy: redact\n")
    code, out, _ = curate("doctor", "--provider", "moderation=openai")
    assert re.search(r"^  policy +redact +curate.yaml$", out, re.MULTILINE)
    assert re.search(r"^  providers.moderation +openai +an option$", out, re.MULTILINE)
    assert code == 1 and out.endswith(
        "not ready:\n  moderation: openai: OPENAI_API_KEY is not set; export a key in it, or choose another provider\n"
    )
    code, out, _ = curate("doctor")
    assert (code, out.splitlines()[-1], (here / "s").exists()) == (0, "ready: every chosen model is here", False)


def test_doctor_tells_a_provider_of_the_command_from_those_of_its_model_set(curate, here):
    (here / "curate.yaml").write_text("models: self_hosted\nproviders: {criteria: embedded}\n")
    _, out, _ = curate("doctor", "--provider", "categories=embedded")
    origins = dict(re.findall(r"^  providers\.(\w+) +\w+ +(.+)$", out, re.MULTILINE))
    assert (origins["categories"], origins["criteria"]) == ("an option", "curate.yaml")
    assert set(origins.values()) == {"an option", "curate.yaml", "models: self_hosted"}


def test_doctor_asks_each_paid_service_once_and_says_that_a_key_is_refused(curate, here, openai_server):
    chosen = (f"--provider={name}=openai" for name in ("categories", "criteria", "topic_names"))
    openai_server.answer(Reply({"error": {"message": "no such key: test-key"}}, 401))
    code, out, err = curate("doctor", "--ask", *chosen)
    assert len(openai_server.requests) == 1
    assert code == 1 and out.endswith("not ready:\n  openai-gpt-5.4-mini-2026-03-17: the key is refused\n"), out + err
    assert "test-key" not in out + err


NIGHT = Settings(store="s", providers={"moderation": "openai", "nsfw": "embedded"})


def test_services_are_not_asked_before_a_command_where_somebody_waits():
    from flows.running.night import services_answer

    assert list(services_answer(NIGHT)) == []


@pytest.fixture
def in_deployment(monkeypatch, short_waits) -> None:
    """This is a run of a deployment."""
    monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__ID", "1")


def test_a_deployed_night_measures_though_a_service_is_down(openai_server, in_deployment):
    from flows.running.night import services_answer

    openai_server.answer(Reply({}, 503))
    assert [report.counts for report in services_answer(NIGHT)] == [{"asked": 1, "silent": 1}]


def test_a_deployed_night_measures_nothing_when_a_service_refuses(openai_server, in_deployment):
    from flows.running.night import services_answer

    openai_server.answer(Reply({"error": {"code": "insufficient_quota"}}, 429))
    with pytest.raises(MissingProvider, match=r"^openai_moderation: the quota is used up; nothing was measured"):
        list(services_answer(NIGHT))


def test_publish_reads_the_accepted_stand_ins(curate, here):
    from tests.small_store import make_release, small_store

    store = small_store(here / "made")
    make_release(store, release="1.0.0")
    command = ("publish", f"{store.root}/releases/1.0.0", "--repo", "org/name", "--dry-run")
    assert curate(*command)[0] == 2
    (here / "curate.yaml").write_text(f"accept_embedded: {json.dumps(Providers().stand_ins)}\n")
    code, _, err = curate(*command)
    assert code == 0, err
