"""The figures for Prometheus: their names, labels and values, and the alerts and the dashboard that read them."""

import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from schemas.run import StageReport, Use
from schemas.settings import RetentionSettings, Settings
from schemas.tables import SIGNALS
from tasks.storage.records import RunRecord, record_paths
from tasks.storage.tables import Store
from tasks.upkeep.metrics import GAUGES, STATES
from tasks.upkeep.retention import removable, remove
from tests.places import ROOT
from tests.small_store import small_store

DEPLOY = ROOT / "deploy"
FOLDER = DEPLOY / "prometheus"
GUIDE = ROOT / "docs" / "operating.md"
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def store(tmp_path) -> Store:
    """The small store."""
    return small_store(tmp_path)


def _figures(curate, store: Store, *options: str) -> Series:
    """The series of the file, without the label `store`."""
    file = Path(store.root).parent / "curate.prom"
    assert curate("status", store.root, "--out", file, *options) == (0, "", ""), "cron mails what is printed"
    assert [path.name for path in file.parent.glob("*curate.prom*")] == [file.name]
    series = Series()
    for family in text_string_to_metric_families(file.read_text()):
        assert family.type == "gauge" and family.documentation
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("store") == (options[-1] if options else "store")
            series[sample.name, frozenset(labels.items())] = sample.value
    return series


def _of(series: Series, figure: str, **labels: str) -> float:
    return series[f"curate_{figure}", frozenset(labels.items())]


def _run(
    store: Store,
    run: str,
    started: datetime,
    state: str,
    *reports: StageReport,
    providers: dict[str, str] | None = None,
) -> dict:
    record = RunRecord(store, Settings(store=store.root, providers=providers or {}), started, run)
    record.reports = [*reports]
    record.write(state)
    return json.loads(store.read_bytes(record_paths(store)[-1]))


@pytest.mark.parametrize("state", ["running", "held"])
def test_items_that_failed_stay_failed_while_the_next_run_has_measured_nothing(store, curate, state):
    now = datetime.now(UTC)
    failures = StageReport(stage="screen", failures={"categories: http_401": 3})
    _run(store, "nightly", now - timedelta(hours=24), "completed", failures)
    _run(store, "nightly", now, state)
    labels = {"deployment": "nightly", "signal": "categories", "provider": "embedded"}
    assert _of(_figures(curate, store), "failed_items", **labels) == 3


def test_figures_are_those_of_the_store_and_its_last_runs(store, curate):
    now = datetime.now(UTC)
    use = {"openai-mini": Use(calls=40, usd=1.25, usd_unconfirmed=0.5)}
    night = _run(
        store, "nightly", now, "completed",
        StageReport(stage="read_logs", seconds=2.0, counts={"lines": 12}),
        StageReport(stage="screen", seconds=4.0, model_calls={"text_pii": 8}, use=use),
    )  # fmt: skip
    _run(store, "backfill", now, "held", StageReport(stage="screen", failures={"categories: http_401": 3}))
    series = _figures(curate, store)
    assert _of(series, "conversations") == store.height("conversations")
    assert _of(series, "last_completed_timestamp_seconds", deployment="nightly") == pytest.approx(
        datetime.fromisoformat(night["finished_at"]).timestamp()
    )
    assert _of(series, "stage_seconds", deployment="nightly", stage="screen") == 4
    assert _of(series, "stage_items", deployment="nightly", stage="read_logs") == 12
    assert _of(series, "stage_items", deployment="nightly", stage="screen") == 8
    assert _of(series, "failed_items", deployment="backfill", signal="categories", provider="embedded") == 3
    assert _of(series, "failed_items", deployment="nightly", signal="categories", provider="embedded") == 0
    assert _of(series, "last_run_state", deployment="backfill", state="held") == 1
    assert _of(series, "last_run_state", deployment="backfill", state="completed") == 0
    assert _of(series, "month_all_usd") == _of(series, "month_usd", deployment="nightly", service="openai-mini") == 1.75
    assert _of(series, "month_requests", deployment="nightly", service="openai-mini") == 40
    files = {path.stat().st_ino: path.stat().st_size for path in Path(store.root).rglob("*") if path.is_file()}
    assert _of(series, "store_bytes") == sum(files.values())
    assert _of(series, "disk_free_bytes") > 0
    assert abs(_of(series, "written_timestamp_seconds") - now.timestamp()) < 60


@pytest.mark.parametrize("seed", range(3))
def test_no_series_goes_and_each_figure_has_its_labels(store, curate, seed):
    draw = random.Random(seed)
    begun = datetime.now(UTC) - timedelta(days=90)
    earlier = set(_figures(curate, store))
    for number in range(6):
        stages = draw.sample(["read_logs", "screen", "decide", "release"], draw.randint(0, 4))
        failures = {f"{signal}: http_500": 2 for signal in draw.sample(sorted(SIGNALS), 2)}
        reports = [StageReport(stage=stage, seconds=1.0, counts={"lines": 3}) for stage in stages]
        uses = {draw.choice(["a", "b"]): Use(calls=1, usd=1.0)} if draw.random() < 0.5 else {}
        reports.append(StageReport(stage="measure", failures=failures if draw.random() < 0.5 else {}, use=uses))
        deployment = draw.choice(["nightly", "backfill", "release"])
        providers = {signal: draw.choice(["openai", "gemini"]) for signal in draw.sample(sorted(SIGNALS), 2)}
        at = begun + timedelta(days=15 * number)
        _run(store, deployment, at, draw.choice(STATES), *reports, providers=providers)
        series = set(_figures(curate, store))
        assert earlier <= series
        earlier = series
    for name, labels in earlier:
        assert {label for label, _ in labels} == set(GAUGES[name.removeprefix("curate_")][1])
    of_the_store = {figure for figure, (_, labels) in GAUGES.items() if "deployment" not in labels}
    assert not {figure for figure in of_the_store if figure.startswith(("last_", "stage_", "failed_"))}
    assert {("curate_failed_items", signal) for signal in SIGNALS} <= {
        (name, dict(labels).get("signal")) for name, labels in earlier
    }


@pytest.mark.parametrize("seed", range(2))
def test_figures_stay_when_retention_removes_run_records(store, curate, seed):
    draw, now = random.Random(seed), datetime.now(UTC)
    for number in range(120):
        stages = draw.sample(["read_logs", "screen", "decide", f"once_{number % 40}"], draw.randint(0, 2))
        reports = [StageReport(stage=stage, seconds=1.0 + number, counts={"lines": 3}) for stage in stages]
        uses = {f"service_{number % 50}": Use(calls=1, usd=1.0)} if draw.random() < 0.3 else {}
        failures = {f"{draw.choice(sorted(SIGNALS))}: http_500": 2} if draw.random() < 0.3 else {}
        reports.append(StageReport(stage="measure", failures=failures, use=uses))
        deployment = draw.choice(["nightly"] * 20 + ["backfill", "release", f"deployment_{number % 30}"])
        providers = {signal: draw.choice(["openai", "gemini"]) for signal in draw.sample(sorted(SIGNALS), 1)}
        at = now - timedelta(days=300 - 2 * number)
        _run(store, deployment, at, draw.choice(STATES), *reports, providers=providers)
        if draw.random() < 0.5:
            _had_lines(store, {"kept": number, "dropped_by": {f"reason_{number % 50}": number}})
    figures = _of_records(_figures(curate, store))
    removed = removable(store, Settings(store=store.root, retention=RetentionSettings(runs_days=7)), now)
    remove(store, removed)
    assert len(removed.runs) > 10
    assert _of_records(_figures(curate, store)) == figures


def _had_lines(store: Store, funnel: dict) -> None:
    """Put the lines of a release into the last record."""
    (path,) = record_paths(store)[-1:]
    record = json.loads(store.read_bytes(path))
    store.write_bytes(path, json.dumps(record | {"funnel": funnel}).encode())


def _of_records(series: Series) -> Series:
    """The series without those of the store itself at this moment."""
    of_the_moment = {"curate_written_timestamp_seconds", "curate_disk_free_bytes", "curate_store_bytes"}
    return {key: value for key, value in series.items() if key[0] not in of_the_moment}


def test_without_a_night_and_without_costs_alerts_have_their_data(store, curate):
    series = _figures(curate, store, "--name", "an arena")
    assert _of(series, "last_completed_timestamp_seconds", deployment="nightly") == 0
    assert _of(series, "month_all_usd") == 0
    assert _of(series, "waiting", what="log files that lost lines") == 0


def test_the_label_of_the_store_is_the_same_where_the_tables_are_printed_as_json(store, curate, tmp_path):
    file = tmp_path / "curate.prom"
    assert curate("status", store.root, "--out", file, "--name", "an arena", "--json")[0] == 0
    assert set(re.findall(r'store="([^"]*)"', file.read_text())) == {"an arena"}


def test_a_folder_that_is_not_there_is_one_line(store, refused, tmp_path):
    assert "cannot be written" in refused("status", store.root, "--out", tmp_path / "none" / "curate.prom")


CRON_LINES = re.findall(r"^MAILTO=\"\"\n\*/5 \* \* \* \* (\S+) (.+)$", GUIDE.read_text("utf-8"), re.MULTILINE)
"""User and command of each line for cron in the guide."""


@pytest.mark.parametrize(("user", "command"), CRON_LINES)
def test_a_line_for_cron_prints_nothing_from_before_the_first_night_on(user, command, tmp_path):
    (tmp_path / "curate.yaml").write_text("store: store\n")
    (tmp_path / "metrics").mkdir()
    (tmp_path / "store" / "audit").mkdir(parents=True)  # of the explorer, which waits for the store
    places = {
        "docker exec curation-worker-1 curate ": "/srv/curate/.venv/bin/curate ",
        "/srv/curate/.venv/bin/": f"{Path(sys.executable).parent}/",
        "/srv/curation/": f"{tmp_path}/",
        "/data/": f"{tmp_path}/",
        "/var/lib/node_exporter/": f"{tmp_path}/metrics/",
    }
    for there, here in places.items():
        command = command.replace(there, here)
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "SHELL": "/bin/sh", "PYTHONPATH": str(ROOT)}

    def ended() -> tuple[int, str, str]:
        """Status and output of the line, with the environment that cron gives."""
        done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    assert ended() == (0, "", "") and not list((tmp_path / "metrics").iterdir())
    small_store(tmp_path)
    assert ended() == (0, "", "") and (tmp_path / "metrics" / "curate.prom").is_file()


def test_lines_for_cron_name_the_user_the_container_or_the_folder_that_deploy_has():
    services, containers = CRON_LINES
    unit = (DEPLOY / "systemd" / "curate-worker.service").read_text("utf-8")
    assert f"User={services[0]}\n" in unit and "WorkingDirectory=/srv/curate\n" in unit
    composed = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
    (named,) = re.findall(r"docker exec curation-(\w+)-1 ", containers[1])
    assert any(volume.endswith(":/data") for volume in composed[named]["volumes"]), "which is mounted to be written"


def test_a_place_that_no_settings_file_names_has_no_figures(refused, tmp_path):
    (tmp_path / "curate.yaml").write_text("store: store\n")
    assert "there is no such folder" in refused("status", tmp_path / "stroe", "--out", tmp_path / "curate.prom")
    assert not (tmp_path / "curate.prom").exists()


needs_promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")


def _promtool(*arguments: object, given: str = "") -> tuple[int, str]:
    """Status and output of Prometheus' own checks."""
    done = subprocess.run(
        ["promtool", *map(str, arguments)], input=given, capture_output=True, text=True, cwd=FOLDER, check=False
    )
    return done.returncode, done.stdout + done.stderr


@needs_promtool
def test_prometheus_takes_every_figure(store, curate):
    limits = "month_usd_max: 5\nmonth_usd_max_by: {openai: 2}\n"
    (Path(store.root).parent / "curate.yaml").write_text(f"store: store\n{limits}")
    _run(
        store,
        "nightly",
        datetime.now(UTC),
        "completed",
        StageReport(stage="measure", use={"openai-mini": Use(calls=1)}),
    )
    assert {name.removeprefix("curate_") for name, _ in _figures(curate, store)} == set(GAUGES)
    assert _promtool("check", "metrics", given=(Path(store.root).parent / "curate.prom").read_text()) == (0, "")


@needs_promtool
def test_prometheus_takes_every_alert_with_every_question_of_the_dashboard(tmp_path):
    panels = json.loads((FOLDER / "dashboard.json").read_text("utf-8"))["panels"]
    asked = [target["expr"].replace("$store", ".*") for panel in panels for target in panel["targets"]]
    rules = [{"record": f"panel:{number}", "expr": expression} for number, expression in enumerate(asked)]
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    alerts = [rule for group in _alert_groups() for rule in group["rules"]]
    for file, count in ((FOLDER / "alerts.yaml", len(alerts)), (tmp_path / "panels.yaml", len(asked))):
        status, output = _promtool("check", "rules", "--lint=all", "--lint-fatal", file)
        assert status == 0 and f"SUCCESS: {count} rules found" in output, output


WRITTEN, COMPLETED = (
    'curate_written_timestamp_seconds{store="a"}',
    ('curate_last_completed_timestamp_seconds{deployment="nightly", store="a"}'),
)


@needs_promtool
@pytest.mark.parametrize(
    ("alert", "series", "quiet", "fires"),
    [
        ("CurationFiguresMissing", {}, "25h", "27h"),
        ("CurationFiguresOld", {WRITTEN: "0+300x12 3600x500"}, "1h50m", "2h10m"),
        ("CurationNoNightYet", {COMPLETED: "0x500"}, "25h", "27h"),
        ("CurationNightMissed", {COMPLETED: "0x23 7200x500"}, "27h", "29h"),
    ],
)
def test_an_alert_fires_at_its_time_without_any_other(alert, series, quiet, fires, tmp_path):
    given = [{"series": name, "values": values} for name, values in ({WRITTEN: "0+300x500"} | series).items()]
    (rule,) = [rule for group in _alert_groups() for rule in group["rules"] if rule["alert"] == alert]
    there = {"store": "a"} if "$labels.store" in rule["annotations"]["summary"] else {}
    texts = {name: text.replace("{{ $labels.store }}", "a") for name, text in rule["annotations"].items()}
    expected = {"exp_labels": rule["labels"] | there, "exp_annotations": texts}
    names = [rule["alert"] for group in _alert_groups() for rule in group["rules"]]
    moments = [{"eval_time": quiet, "alertname": name, "exp_alerts": []} for name in names]
    moments += [
        {"eval_time": fires, "alertname": name, "exp_alerts": [expected] if name == alert else []} for name in names
    ]
    unit = {"interval": "5m", "input_series": given if series else [], "alert_rule_test": moments}
    file = tmp_path / "alerts_test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(FOLDER / "alerts.yaml")], "tests": [unit]}))
    status, output = _promtool("test", "rules", file)
    assert status == 0, output


def _alert_groups() -> list[dict]:
    return yaml.safe_load((FOLDER / "alerts.yaml").read_text("utf-8"))["groups"]


def _expressions() -> Iterator[str]:
    for group in _alert_groups():
        for rule in group["rules"]:
            assert rule.keys() >= {"alert", "expr", "labels", "annotations"} and rule["annotations"]["do"]
            yield rule["expr"]
    dashboard = json.loads((FOLDER / "dashboard.json").read_text("utf-8"))
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"]) > 10
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= variables
            legends = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            known = {label for name in _names(target["expr"]) for label in GAUGES[name][1]} | {"store"}
            assert legends <= known, target
            yield target["expr"]


def _names(expression: str) -> list[str]:
    return re.findall(r"\bcurate_(\w+)", expression)


def test_alerts_and_dashboard_ask_for_figures_labels_and_values_that_there_are(store, curate):
    now = datetime.now(UTC)
    _run(store, "nightly", now, "completed", StageReport(stage="read_logs", seconds=1.0, counts={"lines": 2}))
    series = _figures(curate, store)
    asked = set[str]()
    for expression in _expressions():
        for name, matchers in re.findall(r"\bcurate_(\w+)(?:{([^}]*)})?", expression):
            asked.add(name)
            _, labels = GAUGES[name]
            for label, sign, value in re.findall(r'(\w+)(=~|!=|=)"([^"]*)"', matchers):
                assert label in {"store", *labels}, expression
                values = {dict(given).get(label) for figure, given in series if figure == f"curate_{name}"}
                if label not in ("store", "outcome") and sign != "!=":
                    matching = [
                        each
                        for each in values
                        if each and re.fullmatch(value if sign == "=~" else re.escape(value), each)
                    ]
                    assert matching, expression
    assert asked >= set(GAUGES) - {"releases", "last_run_timestamp_seconds"}
