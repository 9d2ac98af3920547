"""The invariants of the design, on a whole run."""

import io
import json
import re
import shutil
from pathlib import Path

import PIL.Image
import polars as pl
import yaml

from flows.products import problems_of
from schemas.release import ROW_KEYS
from schemas.run import StageReport
from schemas.settings import BenchSettings
from schemas.tables import TABLES
from tasks.storage.records import funnel, line_outcomes
from tasks.storage.tables import Store


def _calls(reports: list[StageReport]) -> int:
    return sum(sum(report.model_calls.values()) for report in reports)


def _expected(arena: Path, kind: str) -> list[dict]:
    lines = (arena / "expected.jsonl").read_text().splitlines()
    return [fact for fact in map(json.loads, lines) if fact["kind"] == kind]


def _log_lines(arena: Path) -> dict[str, int]:
    contents = {path.name: path.read_bytes() for path in (arena / "logs").glob("*-conv.json")}
    return {name: content.count(b"\n") + (not content.endswith(b"\n")) for name, content in contents.items()}


def test_every_input_line_is_counted_exactly_once_and_flagged_images_leave_no_trace(curated):
    outcomes = line_outcomes(curated.store)
    assert dict(outcomes.group_by("source").len().rows()) == _log_lines(curated.arena)
    gone = funnel(curated.store)
    assert gone.kept + gone.dropped + gone.rejected == gone.lines == sum(_log_lines(curated.arena).values())
    assert sum(gone.dropped_by.values()) == gone.dropped
    assert sum(gone.rejected_by.values()) == gone.rejected
    flagged = _expected(curated.arena, "csam_flag")
    assert len(flagged) >= 2
    names = {fact["image"] for fact in flagged if fact.get("image")}
    assert any((curated.arena / "logs" / "serve_images" / f"{name}.png").exists() for name in names)
    assert not [path for path in curated.opened_first if any(name in path for name in names)]
    files = curated.store.read("image_files")["name"].str.slice(0, 32)
    assert names.isdisjoint(files)
    conversations = set(curated.store.read("sightings")["conv_id"])
    assert conversations.isdisjoint(curated.store.read("quarantine").filter(kind="conversation")["key"])


def test_nothing_failed_the_release_passes_its_check_and_a_second_run_gives_the_same_bytes(curated):
    assert {name: n for report in curated.first for name, n in report.failures.items()} == {}
    assert problems_of(curated.release) == []

    def files(folder: Path) -> dict[str, bytes]:
        return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}

    assert curated.second[-1].counts["new"] == 0
    assert not {"decide", "topics", "report"} & {report.stage for report in curated.second}, "nothing is new"
    assert files(curated.first_release) == files(curated.release)


def test_every_image_file_is_opened_once_and_a_second_run_opens_none_and_calls_no_model(curated):
    assert _calls(curated.first) > 1000
    assert _calls(curated.second) == 0
    assert [path for path in curated.opened_second if "serve_images" in path] == []
    opened = [Path(path).name for path in curated.opened_first if "/serve_images/" in path]
    assert len(opened) > 30
    assert sorted(opened) == sorted(set(opened))


def test_no_address_of_a_log_is_in_any_table_or_release(curated):
    logs = b"".join(path.read_bytes() for path in (curated.arena / "logs").glob("*-conv.json"))
    addresses = {address.decode() for address in re.findall(rb'"ip": "([0-9a-f.:]{7,})"', logs)}
    assert len(addresses) > 10
    hidden = re.compile("|".join(re.escape(address) for address in addresses))
    texts = {turn["content"] for turns in curated.store.read("conversations")["turns"] for turn in turns}
    said_by_users = {found for text in texts for found in hidden.findall(text)}
    for name in TABLES:
        for cell in _strings(curated.store.read(name)):
            assert cell in texts or not set(hidden.findall(cell)) - said_by_users, name
    for path in curated.release.rglob("*.*"):
        if path.suffix in (".md", ".json", ".html", ".csv"):
            assert not hidden.search(path.read_text())


def _strings(frame: pl.DataFrame) -> list[str]:
    return [cell for column in frame.select(pl.col(pl.String)).iter_columns() for cell in column.drop_nulls().unique()]


def test_released_images_carry_no_metadata(curated):
    rows = pl.read_parquet(curated.release / "chat" / "data" / "*.parquet", columns=["images"])["images"]
    images = [image["bytes"] for row in rows for image in row]
    assert len(images) > 30
    for content in images:
        header = PIL.Image.open(io.BytesIO(content))
        assert not header.getexif() and "exif" not in header.info


def test_unmeasured_items_are_not_released(curated, tmp_path):
    from flows.stages import decide

    shutil.copytree(curated.settings.store, tmp_path / "store", ignore=shutil.ignore_patterns("releases"))
    shutil.rmtree(tmp_path / "store" / "tables" / "signals" / "nsfw")
    decide(curated.settings.model_copy(update={"store": str(tmp_path / "store")}))
    store = Store(str(tmp_path / "store"))
    decided = store.read("conversations").join(
        store.read("decisions").filter(item_kind="conversation"), left_on="conversation_id", right_on="item_id"
    )
    pictured = decided.filter(pl.col("image_ids").list.len() > 0)
    assert pictured.height > 50
    assert not pictured["keep"].any()
    assert pictured["reasons"].list.contains("unmeasured_nsfw").all()


def test_changed_threshold_measures_nothing(curated, tmp_path):
    from flows.stages import decide, describe

    policy = yaml.safe_load(Path("tasks/policy/policies/public_release.yaml").read_text())
    next(rule for rule in policy["rules"] if rule["reason"] == "nsfw_image")["at_least"] = 0.0001
    file = tmp_path / "strict.yaml"
    file.write_text(yaml.safe_dump(policy | {"name": "strict"}))
    shutil.copytree(curated.settings.store, tmp_path / "store", ignore=shutil.ignore_patterns("releases"))
    settings = curated.settings.model_copy(update={"store": str(tmp_path / "store"), "policy": str(file)})
    assert _calls([*decide(settings), *describe(settings)]) == 0
    before, after = (Store(root).read("decisions")["keep"].sum() for root in (curated.settings.store, settings.store))
    assert 0 < after < before


def _asked(row: dict, column: str) -> tuple[str, str]:
    """The user's words, without case and punctuation, and the first image."""
    said = " ".join(turn["content"] for turn in row[column] if turn["role"] == "user")
    return " ".join(re.findall(r"\w+", said.lower())), next((image["path"] for image in row["images"]), "")


def test_no_benchmark_prompt_is_in_chat_in_other_words_or_unmarked_in_a_battle(curated):
    rows = {
        name: pl.read_parquet(curated.release / name / "data" / "*.parquet").to_dicts()
        for name in ("chat", "battle", "bench")
    }
    bench = {_asked(row, "turns") for row in rows["bench"]}
    long = [words for words, _ in bench if len(words.split()) >= 13]
    assert bench
    for row in rows["chat"]:
        words, image = _asked(row, "conversation")
        assert (words, image) not in bench and not any(prompt in words for prompt in long)
    for row in rows["battle"]:
        assert row["in_bench"] or _asked(row, "conversation_a") not in bench


def test_the_hidden_split_is_in_no_released_file(curated, tmp_path):
    from flows.release import release, sample

    shutil.copytree(curated.settings.store, tmp_path / "store", ignore=shutil.ignore_patterns("releases"))
    bench = BenchSettings(hidden_fraction=0.3, hidden_months=12)
    settings = curated.settings.model_copy(update={"store": str(tmp_path / "store"), "bench": bench})
    sample(settings)
    built = tmp_path / "store" / release(settings)[-1].result
    store = Store(settings.store)
    hidden = store.read("hidden")
    secret = store.read("conversations").join(hidden, on="document_id", how="semi")
    assert hidden["drawn"].sum() > 5
    assert problems_of(built) == []
    names = set(secret["conversation_id"])
    prompts = [turns[0]["content"] for turns in secret.join(hidden.filter("drawn"), on="document_id")["turns"]]
    released: set[str] = set()
    for config, key in ROW_KEYS.items():
        released |= set(pl.read_parquet(built / config / "data" / "*.parquet", columns=[key])[key])
    assert released and not names & released
    distinctive = [text for text in prompts if len(text) > 60]
    for path in built.rglob("*.*"):
        if path.suffix in (".md", ".json", ".html", ".csv", ".svg"):
            content = path.read_text()
            assert not [name for name in names if name in content]
            assert not [text for text in distinctive if text in content]
