"""Help, one-line errors, settings and completion."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer import Typer

from flows.commands.listed import Added, CommandGroup, add_all, put
from flows.commands.options import takes
from schemas.settings import BenchSettings, Settings
from tests.places import ROOT

RUN = "run --logs {logs} --store {here}/store"


@pytest.fixture
def here(tmp_path) -> Path:
    """A folder with logs, an empty folder, a file, a policy, votes and a list of planted problems that is none."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "vision-tmp-2024-06-20-conv.json").write_text("{}\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "store" / "tables").mkdir(parents=True)
    (tmp_path / "file").write_text("")
    rule = "{reason: x, signal: nsfw.nsfw_probability, over: images, atleast: 1}"
    (tmp_path / "mine.yaml").write_text(f"name: mine\nrules:\n  - {rule}\n")
    (tmp_path / "votes.csv").write_text("left,right,winner\nA,B,left\nA,B,draw\n")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("nonsense", ["No such command 'nonsense'; see `curate --help`"]),
        ("bench nonsense", ["see `curate bench --help`"]),
        ("run --stor x", ["--store); see `curate run --help`"]),
        ("run --logs", ["'--logs' requires an argument"]),
        ("run --logs a", ["Missing option '--store'"]),
        ("run --logs a --store b --workers -1", ["'--workers': must be at least "]),
        (
            "rate a.csv --bootstraps few",
            ["'--bootstraps': must be a whole number, not 'few'; see `curate rate --help`"],
        ),
        ("doctor --models vendor", ["'--models': 'vendor' is not one of 'embedded', 'self_hosted', 'vendors'; see"]),
        ("status --store s", ["No such option: --store", "see `curate status --help`"]),
        ("rate a.csv --set interval=exact", ["--set interval: ", "'bootstrap' or 'sandwich'"]),
        ("verify a b", ["extra argument"]),
        ("run --logs {here}/nowhere --store {here}/store", ["nowhere", "does not exist"]),
        ("run --logs {here}/empty --store {here}/store", ["holds no log file", "conv.json"]),
        ("run --logs {logs} --store {here}/file", ["cannot be opened (Not a directory)"]),
        (f"{RUN} --policy {{here}}/mine.yaml", ["unknown key", "atleast", "Did you mean at_least?"]),
        (f"{RUN} --since yesterday", ["--since", "YYYY-MM-DD"]),
        (f"{RUN} --since 2024-07-01 --until 2024-06-01", ["--until 2024-06-01 is before --since 2024-07-01"]),
        (f"{RUN} --provider nsfw=nothing", ["Known: embedded"]),
        (f"{RUN} --provider nsfw", ["--provider 'nsfw': give NAME=VALUE, for example nsfw=opennsfw2"]),
        (f"{RUN} --anchor gpt-4", ["--anchor 'gpt-4': give MODEL=RATING, for example gpt-4=1150"]),
        (f"{RUN} --presets /nowhere", ["preset"]),
        (f"{RUN} --known-hashes /nowhere", ["cannot be read"]),
        (f"{RUN} --set failed_share_max=2", ["--set failed_share_max: ", "must be at most 1.0, not '2'"]),
        (f"{RUN} --set bench.size=-1", ["--set bench.size: ", "must be at least 0, not '-1'"]),
        (f"{RUN} --set bench.sise=1", ["--set 'bench.sise'. Known: bench.f", "Did you mean bench.size?"]),
        (f"{RUN} --set environment=none", ["--set environment: must have keys and values, not None"]),
        (f"{RUN} --set environment=a,b", ["--set environment: must have keys and values, not ['a', 'b']"]),
        (f"{RUN} --models vendors --set providers=none", ["--provider: must have keys and values, not None"]),
        (f"{RUN} --set polycy=x", ["--set 'polycy'. Known: accept_drift, ", "Did you mean policy?"]),
        (f"{RUN} --set bench.size", ["--set 'bench.size': give NAME=VALUE, for example bench.size=200"]),
        (f"{RUN} --set topics.engine=k-means", ["--set topics.engine: ", "'umap'", "'k-means'"]),
        (f"{RUN} --bench-size 9", ["No such option: --bench-size", "see `curate run --help`"]),
        ("planted --store s", ["No such command 'planted'", "see `curate --help`"]),
        ("judge submit a --store s --model m --set evaluate.elo_order=x", ["--set evaluate.elo_order: ", "'given'"]),
        ("judge compare --store s --protocol x", ["'--protocol'", "'visit'"]),
        (f"{RUN} --set task_runner=spark", ["'spark'", "dask"]),
        ("decide --store {here}/empty", ["is not a store"]),
        ("decide --store {here}/store --json", ["--json prints what --dry-run finds; add --dry-run"]),
        ("estimate --store {here}/typo", ["typo", "is not a store"]),
        ("rate", ["give either a battle table or --store DIR"]),
        ("rate a.csv --store s", ["give either a battle table or --store DIR"]),
        ("export sft {here} --out {here}/new --set models=0", ["--set models", "must be at least 1"]),
        ("init --config {here}/file/curate.yaml", ["/file': File exists; give another path, or fix this one"]),
        ("bench check --bench-release {here}", ["--bench-release and --column are for a DATASET; name it"]),
        ("bench check --store s --column text", ["--bench-release and --column are for a DATASET; name it"]),
        ("diff a b --table topics --store s", ["--store 's' gives reasons of changes; leave it or --table topics out"]),
        ("inspect {here}", ["is a folder; name the files"]),
    ],
)
def test_a_mistake_is_one_line_and_status_2(refused, here, arguments, words):
    err = refused(*shlex.split(arguments.format(here=here, logs=here / "logs")))
    assert all(word in err for word in words), err


def _settings(*arguments: str) -> Settings:
    """The settings that a command is called with."""
    found = []

    app = Typer()
    app.command()(takes("store", "policy", "seed", "providers", policy="redact")(found.append))
    app(["--store", "s", *arguments], standalone_mode=False)
    return found[0]


def test_any_setting_can_be_set_and_an_option_wins():
    given = ("bench.size=200", "known_hashes=a,b", "bench.per_user_max=none", "providers.nsfw=x", "bench.presets=yes")
    found = _settings(*(word for each in given for word in ("--set", each)), "--provider", "faces=y")
    bench = BenchSettings(size=200, per_user_max=None, presets=True)
    wanted = Settings(store="s", policy="redact", known_hashes=["a", "b"], bench=bench, providers={"nsfw": "x"})
    assert found == wanted.model_copy(update={"providers": {"nsfw": "x", "faces": "y"}})
    assert _settings("--set", "seed=3", "--set", "policy=internal") == Settings(store="s", policy="internal", seed=3)
    assert _settings("--set", "seed=3", "--seed", "4").seed == 4


def test_bash_completes_commands_choices_and_settings():
    wanted = {
        "curate bench ref": "refresh", "curate rate --cluster q": "question_id",
        "curate run --set topics.e": "topics.engine=",
    }  # fmt: skip
    asked = "\n".join(
        f"COMP_WORDS=({words}); COMP_CWORD={words.count(' ')}; _curate_completion curate; echo ${{COMPREPLY[@]}}"
        for words in wanted
    )
    script = f'eval "$(_CURATE_COMPLETE=source_bash curate)"\n{asked}'
    found = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": "/nonexistent"}
    done = subprocess.run(["bash", "-c", script], env=found, capture_output=True, text=True, check=True)
    assert (done.stdout.splitlines(), done.stderr) == ([*wanted.values()], "")


@pytest.mark.parametrize("family", [(), ("bench",)])
def test_without_a_command_the_help_is_printed_and_nothing_else(curate, family):
    code, out, err = curate(*family)
    assert (code, err) == (2, "")
    assert "Usage: curate" in out


def test_a_product_puts_its_command_before_the_one_that_it_names_or_last():
    def command(name):
        return type(name, (), {})

    pages = CommandGroup("pages", "Pages.", [command("write"), command("read_")])
    headings = {"Look": [command("view"), pages]}
    for name, *place in (("a", "Look", "view"), ("b", "Look"), ("c", "pages", "read"), ("d", "pages", "gone")):
        put(headings, Added(command(name), *place))
    app = Typer()
    add_all(app, headings["Look"])
    assert [each.name for each in app.registered_commands] == ["a", "view", "b"]
    (inner,) = app.registered_groups
    assert [each.name for each in inner.typer_instance.registered_commands] == ["write", "c", "read", "d"]
