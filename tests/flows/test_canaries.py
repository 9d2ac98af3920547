"""Every shipped policy catches the planted probes; a probe that is not caught ends the run."""

import shutil
from pathlib import Path

import pytest
import yaml

from schemas.errors import CanaryEscaped
from schemas.policy import Action
from tasks.policy.canaries import STORE, probes
from tasks.policy.policy_file import load_policy
from tasks.release.build import MANIFEST
from tasks.storage.keyed_ids import KEY_VARIABLE
from tasks.storage.tables import Store
from tests.http_server import Reply
from tests.places import contents
from tests.tasks.ingest.logs import DAY, chat, ingested, write


@pytest.fixture
def planted(curated, tmp_path):
    """Settings of a store that has only the measured probes of an earlier run."""
    shutil.copytree(Path(curated.settings.store) / STORE, tmp_path / "store" / STORE)
    return curated.settings.model_copy(update={"store": str(tmp_path / "store")})


def run(settings, policy: str):
    from flows.running.night import canaries

    return canaries(settings.model_copy(update={"policy": policy}))[0]


def changed(tmp_path, name: str, **changes) -> str:
    """A shipped policy, with changes to the rule of each reason."""
    policy = load_policy(name).model_dump(mode="json", exclude_none=True)
    policy["rules"] = [rule | changes.get(rule["reason"], {}) for rule in policy["rules"]]
    file = tmp_path / "changed.yaml"
    file.write_text(yaml.safe_dump(policy))
    return str(file)


def test_a_run_reports_its_probes_which_are_in_no_release_and_a_second_run_measures_none(curated):
    first, second = (next(r for r in reports if r.stage == "canaries") for reports in (curated.first, curated.second))
    assert first.counts == second.counts == {"probes": len(probes()), "caught": len(probes())}
    assert sum(first.model_calls.values()) > 0
    assert second.model_calls == {}
    folders = [Path(curated.settings.store) / "tables", curated.release]
    for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
        assert b"canary" not in path.read_bytes(), path
    store = Store.existing(f"{curated.settings.store}/{STORE}")
    taken_in = store.read("image_files").height
    assert taken_in == sum(probe.image is not None and not probe.listed for probe in probes())
    assert set(store.read("rejects")["reason"]) == {"known_hash"}


@pytest.mark.parametrize("policy", ["redact", "internal"])
def test_the_other_presets_catch_every_probe_too(planted, policy):
    assert run(planted, policy).counts["caught"] == len(probes())


LOOSE = {
    "no rule": ("public_release", {"pii_image": {"over": "messages"}}, None),
    "tag": ("internal", {"face": {"at_least": 1.1}}, "face: it is not tagged"),
}


@pytest.mark.parametrize("case", LOOSE)
def test_a_probe_that_gets_through_a_rule_about_it_ends_the_run(planted, tmp_path, case):
    name, changes, said = LOOSE[case]
    policy = changed(tmp_path, name, **changes)
    if said is None:  # no rule is about that probe any more: the operator chose not to look
        assert run(planted, policy).counts["caught"] == len(probes())
        return
    with pytest.raises(CanaryEscaped, match=said):
        run(planted, policy)


def test_a_listed_image_that_is_taken_in_ends_the_run(planted, monkeypatch):
    monkeypatch.setattr("tasks.ingest.known_images.PDQ_DISTANCE", 0)
    shutil.rmtree(planted.store)
    with pytest.raises(CanaryEscaped, match="listed_image: its image is on a list"):
        run(planted, "public_release")


@pytest.mark.parametrize("probed", [False, True], ids=["no probes yet", "probes of another key"])
def test_a_run_with_a_wrong_user_key_changes_nothing_and_the_right_key_works_afterwards(
    curated, tmp_path, curate, monkeypatch, capsys, probed
):
    logs, store = tmp_path / "logs", tmp_path / "store"
    write(logs, DAY, chat("a"))
    monkeypatch.setenv(KEY_VARIABLE, "the key of this store")
    ingested(logs, store)
    if probed:
        shutil.copytree(Path(curated.settings.store) / STORE, store / STORE)
    before, _ = contents(store), capsys.readouterr()
    for command in (["run", "--logs", logs], ["ingest", "--logs", logs], ["decide"]):
        monkeypatch.setenv(KEY_VARIABLE, "the key of another store")
        code, out, err = curate(*command, "--store", store)
        assert (code, out, err.count("\n"), contents(store) == before) == (2, "", 1, True), err
        assert err.startswith("curate: the user key differs from the one this store was started with; set ")
    monkeypatch.delenv(KEY_VARIABLE)
    code, out, err = curate("run", "--logs", logs, "--store", store)
    assert (code, out, err.count("\n"), contents(store) == before) == (2, "", 1, True), err
    monkeypatch.setenv(KEY_VARIABLE, "the key of this store")
    own = curated.settings.model_copy(update={"store": str(store), "logs": str(logs)})
    assert run(own, "public_release").counts["caught"] == len(probes())
    assert ingested(logs, store).read("conversations").height == 1


def test_an_escape_ends_the_command_with_one_line_and_no_release(curated, planted, tmp_path, curate):
    policy = changed(tmp_path, "public_release", face={"at_least": 1.1})
    code, _, err = curate("run", "--logs", curated.settings.logs, "--store", planted.store, "--policy", policy)
    assert code != 0
    last = err.splitlines()[-1]
    assert (
        last.startswith("curate: nothing is released, because planted probes got through")
        and "face: it is kept" in last
    )
    assert not list(Path(planted.store).glob(f"releases/*/{MANIFEST}"))


def test_every_preset_has_a_rule_for_every_probe():
    from tasks.policy.canaries import rules_about

    for name in ("public_release", "redact", "internal"):
        for probe in probes():
            actions = {rule.action for rule in rules_about(probe, load_policy(name))}
            assert probe.listed or (actions <= {Action.DROP, Action.REDACT, Action.TAG} and actions), (name, probe.name)


def test_the_images_of_probes_go_to_the_service_that_is_chosen_for_images(planted, openai_server):
    from tests.moderation_answers import answer, of_image

    openai_server.answer(Reply(answer(of_image())))
    report = run(planted.model_copy(update={"providers": {"image_moderation": "openai"}}), "public_release")
    assert report.model_calls == {"image_moderation": len(openai_server.requests)}
    assert len(openai_server.requests) == sum(probe.image is not None and not probe.listed for probe in probes())
    assert report.counts["caught"] == len(probes())
