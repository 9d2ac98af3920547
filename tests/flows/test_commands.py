"""The command line: one clear line and exit 2 for bad input, stable output for scripts."""

import json
import shutil

import pytest

from tasks.providers import PROVIDERS

HUMAN_VOTES = "left,right,winner\nA,B,left\nB,C,left\nC,A,tie\nA,C,left\nB,A,right\n"


def _one_line(code: int, err: str, *words: str) -> bool:
    return code == 2 and err.count("\n") == 1 and err.startswith("curate: ") and all(word in err for word in words)


@pytest.mark.parametrize("line", ["planted", "[]", '{"kinds": "face"}', "\udcff"])
def test_planted_facts_that_are_none_are_one_clear_line(curate, tmp_path, line):
    (tmp_path / "tables").mkdir()
    (tmp_path / "expected.jsonl").write_bytes(b'{"kind": "face"}\n' + line.encode(errors="surrogateescape"))
    code, _, err = curate("demo", "--check", "--out", tmp_path)
    assert _one_line(code, err, "expected.jsonl", "line 2", "kind")


def test_rate_prints_json_rows_best_first(curate, tmp_path):
    table = tmp_path / "votes.csv"
    table.write_text(HUMAN_VOTES)
    code, out, _ = curate("rate", table, "--json", "--bootstraps", "20", "--anchor", "B=1200")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [row["model"] for row in rows] == ["A", "B", "C"]
    assert set(rows[0]) == {"model", "rating", "ci95_low", "ci95_high", "rank", "battles"}
    assert rows[1]["rating"] == pytest.approx(1200)


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
