"""The command line: one clear line and exit 2 for bad input, stable output for scripts."""

import json
import shutil
from pathlib import Path

import pytest

from tasks.providers import PROVIDERS

HUMAN_VOTES = "left,right,winner\nA,B,left\nB,C,left\nC,A,tie\nA,C,left\nB,A,right\n"


@pytest.fixture
def logs(tmp_path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "vision-tmp-2024-06-20-conv.json").write_text("{}\n")
    return folder


def _one_line(code: int, err: str, *words: str) -> bool:
    return code == 2 and err.count("\n") == 1 and err.startswith("curate: ") and all(word in err for word in words)


def test_missing_log_folder_is_one_clear_line(curate, tmp_path):
    code, _, err = curate("run", "--logs", tmp_path / "nowhere", "--store", tmp_path / "store")
    assert _one_line(code, err, "nowhere", "does not exist")


def test_empty_log_folder_is_one_clear_line(curate, tmp_path):
    (tmp_path / "empty").mkdir()
    code, _, err = curate("run", "--logs", tmp_path / "empty", "--store", tmp_path / "store")
    assert _one_line(code, err, "holds no log file", "conv.json")


def test_unknown_policy_key_is_one_clear_line(curate, logs, tmp_path):
    policy = tmp_path / "mine.yaml"
    policy.write_text("name: mine\nrules:\n  - {reason: x, signal: nsfw.nsfw_probability, over: images, atleast: 1}\n")
    code, _, err = curate("run", "--logs", logs, "--store", tmp_path / "store", "--policy", policy)
    assert _one_line(code, err, "unknown key", "atleast", "Did you mean at_least?")


def test_unwritable_store_is_one_clear_line(curate, logs, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = curate("run", "--logs", logs, "--store", tmp_path / "file")
    assert _one_line(code, err, "cannot be written to")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--since", "yesterday"), "YYYY-MM-DD"),
        (("--since", "2024-07-01", "--until", "2024-06-01"), "before"),
        (("--since", "2025-01-01"), "the folder holds 2024-06-20"),
        (("--provider", "nsfw=nothing"), "Known: embedded"),
        (("--provider", "smell=embedded"), "unknown capability"),
        (("--release", "../x"), "letters, digits"),
        (("--anchor", "gpt-4"), "MODEL=RATING"),
        (("--policy", "public_relase"), "Did you mean public_release?"),
        (("--presets", "/nowhere"), "preset"),
        (("--known-hashes", "/nowhere"), "cannot be read"),
    ],
)
def test_bad_option_is_one_clear_line_before_any_work(curate, logs, tmp_path, arguments, word):
    code, _, err = curate("run", "--logs", logs, "--store", tmp_path / "store", *arguments)
    assert _one_line(code, err, word), err


def test_stage_on_something_that_is_no_store_is_one_clear_line(curate, tmp_path):
    code, _, err = curate("decide", "--store", tmp_path)
    assert _one_line(code, err, "is not a store")


def test_a_store_that_is_not_there_is_not_estimated_and_not_made(curate, tmp_path):
    code, out, err = curate("estimate", "--store", tmp_path / "typo")
    assert _one_line(code, err, "typo", "is not a store") and out == ""
    assert not (tmp_path / "typo").exists()


@pytest.mark.parametrize("line", ["planted", "[]", '{"kinds": "face"}', "\udcff"])
def test_planted_facts_that_are_none_are_one_clear_line(curate, tmp_path, line):
    (tmp_path / "tables").mkdir()
    (tmp_path / "facts.jsonl").write_bytes(b'{"kind": "face"}\n' + line.encode(errors="surrogateescape"))
    code, _, err = curate("planted", tmp_path / "facts.jsonl", "--store", tmp_path)
    assert _one_line(code, err, "facts.jsonl", "line 2", "kind")


def test_a_folder_is_not_inspected(curate, tmp_path):
    code, _, err = curate("inspect", tmp_path)
    assert _one_line(code, err, "is a folder; name the files")


def test_rate_prints_json_rows_best_first(curate, tmp_path):
    table = tmp_path / "votes.csv"
    table.write_text(HUMAN_VOTES)
    code, out, _ = curate("rate", table, "--json", "--bootstraps", "20", "--anchor", "B=1200")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [row["model"] for row in rows] == ["A", "B", "C"]
    assert set(rows[0]) == {"model", "rating", "ci95_low", "ci95_high", "rank", "battles"}
    assert rows[1]["rating"] == pytest.approx(1200)


def test_rate_refuses_a_label_it_does_not_know(curate, tmp_path):
    table = tmp_path / "votes.csv"
    table.write_text(HUMAN_VOTES + "A,B,draw\n")
    code, _, err = curate("rate", table)
    assert _one_line(code, err, "draw", "tie")


def test_inspect_prints_one_object_a_text(curate, tmp_path):
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"text": "mail me at ana@example.org please"}\nnot json\n')
    code, out, _ = curate("inspect", texts, "--json")
    good, bad = map(json.loads, out.splitlines())
    assert code == 0
    assert good["signals"]["text_pii"]["spans"][0] == {"type": "email", "start": 11, "end": 26, "confidence": 1.0}
    assert good["signals"]["language"]["language"] == "en"
    assert bad["signals"]["text_pii"] == {"error": "no_text"}


def test_inspect_prints_every_image_signal(curate, curated):
    image = next((curated.arena / "logs" / "serve_images").glob("*.jpg"))
    code, out, _ = curate("inspect", image, "--json")
    signals = json.loads(out)["signals"]
    assert code == 0
    assert 0 <= signals["nsfw"]["nsfw_probability"] <= 1
    assert len(signals["image_hash"]["phash"]) == 16 and len(signals["image_hash"]["pdq"]) == 64
    assert isinstance(signals["faces"]["faces"], list)


def test_explain_names_reason_and_signals(curate, curated):
    dropped = curated.store.read("decisions").filter(item_kind="conversation", keep=False).row(0, named=True)
    code, out, _ = curate("explain", dropped["item_id"], "--store", curated.settings.store, "--json")
    account = json.loads(out)
    assert code == 0
    assert account["decision"]["reasons"] == dropped["reasons"]
    assert account["messages"][0]["signals"]["text_pii"]["types"] is not None


def test_verify_tells_a_changed_release_from_a_whole_one(curate, curated, tmp_path):
    assert curate("verify", curated.release)[0] == 0
    shutil.copytree(curated.release, tmp_path / "copy")
    card = tmp_path / "copy" / "README.md"
    card.write_text(card.read_text() + "more")
    code, out, _ = curate("verify", tmp_path / "copy")
    assert code == 1 and "README.md: changed" in out


def test_doctor_says_what_is_missing_and_how_to_get_it(curate, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "")  # which `doctor` overrules; restored afterwards
    monkeypatch.setenv("NO_GCE_CHECK", "true")  # asks the network whether this is one of Google's machines
    few = {name: PROVIDERS[name] for name in ("nsfw", "moderation")}  # the others take seconds to import
    monkeypatch.setattr("tasks.providers.PROVIDERS", few)
    code, out, _ = curate("doctor")
    assert code == 0
    assert "ready    nsfw             embedded" in out
    assert "OPENAI_API_KEY" in out
