"""The `curate` command: all subcommands, in the order of the help. Heavy imports happen inside the commands."""

import errno
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any, NoReturn

import typer
from typer.exceptions import TyperException

from schemas.errors import CurateError, on_command_line, problem_in_words, why_unreadable

_LOOK, _RELEASES = "Look", "Releases"
_PATH_ERRORS = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT}
"""Error numbers that the user can fix by choosing another path."""
RENAMED = {
    "planted": "curate demo --check --out DIR [--store STORE]",
    "topics compare": "curate diff A B --table topics",
    "bench failures --csv": "curate review out failures --store STORE",
    "bench failures FILE": "curate review in failures FILE --store STORE",
    "bench findings": "curate review in items FILE --store STORE, and curate review results items",
    "bench review": "curate review out, in or results generated",
    "judge sheet": "curate review out battles --store STORE",
    "judge board --interval": "--resampled rows",
    "judge submit --battles": "--out FILE",
    "migrate --store": "curate migrate STORE",
    "review --results": "curate review results --store STORE",
    "review --serve": "curate review serve --store STORE",
    "review --store": "curate review out held --store STORE, and curate review in held FILE --store STORE",
    "review results --battles": "--out FILE",
    "status --store": "curate status STORE",
    "verify --store": "curate verify RELEASE",
    "view --store": "curate view STORE",
    "--against": "--agreement BOARD; for two benchmarks made on demand, --bench A --bench B",
    "--answers-at-once": "--set answers_at_once=N",
    "--aspects": "--set generate.general=N --set generate.fine=N",
    "--batch-hours": "--set batch_hours=HOURS",
    "--bench": "--set bench.KEY=VALUE",
    "--bench-size": "--set bench.size=N",
    "--both-bad": "--set both_bad=exclude",
    "--cluster": "--set cluster=NAME",
    "--conversations": "--set conversations=N",
    "--disagreements": "--first N",
    "--elo-k": "--set elo_k=POINTS",
    "--elo-order": "--set evaluate.elo_order=given",
    "--epoch": "--set bench.hidden_epoch=YYYY-MM",
    "--exclude-outliers": "--set exclude_outlier_judges=yes",
    "--failed-share-max": "--set failed_share_max=SHARE",
    "--format": "--file-format FORMAT",
    "--graph": "--set generate.graph=yes",
    "--guided": "--set guided=yes",
    "--images-max": "--set images_max=N",
    "--interval": "--set interval=bootstrap",
    "--items": "--documents FILE",
    "--levels": "--set generate.levels=easy,hard",
    "--log-addresses": "--set log_addresses=yes",
    "--messages-per-minute": "--set messages_per_minute=N",
    "--models": "--set models=N",
    "--modes": "--set evaluate.audit_modes=blind,all_a",
    "--narrow": "--set narrow=yes",
    "--no-graph": "--set generate.graph=no",
    "--per-aspect": "--set generate.per_aspect=N",
    "--per-model": "--set per_model=N",
    "--per-topic": "--set per_topic=N",
    "--proxies": "--set proxies=N",
    "--reference-battles": "--set evaluate.reference_battles=N",
    "--release": "--bench-release DIR",
    "--style": "--set style_preset=NAME; in `curate export sft`, --example-format NAME",
    "--task-runner": "--set task_runner=dask",
    "--task-runner-address": "--set task_runner_address=ADDRESS",
    "--title": "--set title=TEXT",
    "--topic-engine": "--set topics.engine=NAME",
    "--unguided": "--set guided=no",
    "--with-reference": "--set evaluate.with_reference=yes",
}
"""Commands, and options that every command or one command had -> how it is said now."""


def command_line() -> typer.Typer:
    """The app with every command, grouped by the headings of the help."""
    from flows.commands import check, demo, estimate, export, look, pipeline, publish, rate, tags, takedown, view
    from flows.commands.agreement import agree, correlate
    from flows.commands.arena import command as arena
    from flows.commands.bench import drawn as bench
    from flows.commands.bench import generated, written
    from flows.commands.judge import boards, calls, submit
    from flows.commands.review import command as review
    from flows.commands.settings import backup, doctor, init, status

    app = typer.Typer(name="curate", no_args_is_help=True, pretty_exceptions_enable=False)
    app.callback()(_curate)
    grouped: dict[str, tuple[Callable[..., Any], ...]] = {
        "Curate": (
            demo.demo,
            init.init,
            pipeline.run,
            arena.arena,
            estimate.estimate,
            doctor.doctor,
            status.status,
            backup.migrate,
        ),
        "One stage": (pipeline.ingest, pipeline.measure, pipeline.decide, pipeline.sample, rate.rate, pipeline.release),
        _LOOK: (view.view, look.explain, look.inspect, look.duplicates, correlate.correlate),
        _RELEASES: (check.verify, check.diff, publish.publish, publish.yank, takedown.takedown, backup.backup),
    }
    for heading, commands in grouped.items():
        for command in commands:
            app.command(rich_help_panel=heading)(command)

    def family(name: str, about: str, *commands: Callable[..., Any], heading: str = _LOOK) -> None:
        inner = typer.Typer(no_args_is_help=True, help=about)
        for command in commands:  # `in_` and `serve_pages` are the commands `in` and `serve`
            inner.command(command.__name__.partition("_")[0])(command)
        app.add_typer(inner, name=name, rich_help_panel=heading)

    of_people = (review.out, review.in_, review.results, review.serve_pages)
    family("review", "Ask people, in the browser or in files, and see what they say.", *of_people)
    family(
        "bench",
        "Show the benchmark and the prompts that models fail, refresh the hidden split, check datasets; take items in "
        "that people write.",
        *(bench.show, bench.refresh, bench.check, bench.failures, written.collect, written.write, written.demo),
        *(generated.generate, generated.accuracy, generated.audit),
    )
    judged = (calls.answer, calls.compare, submit.submit, boards.board, agree.agree, agree.votes, agree.metrics)
    family("judge", "Rank models by a judge's verdicts on their answers.", *judged)
    family("tags", "How good tags are, and how they are distributed.", tags.evaluate, tags.show)
    family("topics", "Topics of the kept prompts.", tags.show_topics)
    exports = (export.sft, export.dataset, export.figures)
    family("export", "A release in other formats, and figures for print.", *exports, heading=_RELEASES)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"curate {version('arena-curation')}")
        raise typer.Exit


def _curate(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Turn raw multimodal chat-arena logs into released datasets, a benchmark and leaderboards."""


def main() -> None:
    """Entry point. Errors that a user can fix are one line on stderr, with exit status 2, or 3 for a held release."""
    with on_command_line():
        try:
            status = command_line()(prog_name="curate", standalone_mode=False)
        except CurateError as error:
            _stop(str(error), error.exit_status)
        except typer.Abort:
            _stop("nothing was done", 1)
        except TyperException as error:
            _stop(_in_one_line(error), error.exit_code)
        except OSError as error:
            if error.errno not in _PATH_ERRORS or error.filename is None:
                _stop_if_store_lost(error)
                raise
            _stop(f"{error.filename!r}: {error.strerror}; give another path, or fix this one", 2)
        except Exception as error:
            _stop_if_store_lost(error)
            raise
        raise SystemExit(status)


def _stop_if_store_lost(error: Exception) -> None:
    from tasks.storage.tables import from_object_store

    if from_object_store(error):
        _stop(
            f"the object store cannot be reached any more ({why_unreadable(error)}); what was stored stays; "
            "check the address and the credentials, and run the same command again",
            2,
        )


def _stop(message: str, status: int) -> NoReturn:
    if message:
        from tasks.runtime.progress import tell

        tell(f"curate: {message}", level="error")
    raise SystemExit(status) from None


def _in_one_line(error: TyperException) -> str:
    """The usage error in one line; empty when the help was printed because no command was given."""
    from pydantic import ValidationError

    message = " ".join(error.format_message().split()).rstrip(".")
    if isinstance(error.__cause__, ValidationError):  # of an option's value, whose English is pydantic's
        (problem, *_) = error.__cause__.errors()
        given = "" if problem["type"] == "value_error" else f", not {problem['input']!r}"
        message = f"{message.partition(': ')[0]}: {problem_in_words(problem).rstrip('.')}{given}"
    command = getattr(getattr(error, "ctx", None), "command_path", "curate")
    word = ""  # what the command line does not know, also said with its command, as in `RENAMED`
    if message.startswith("Got unexpected extra argument"):
        word = "FILE"
    elif message.startswith("No such "):
        word = getattr(error, "option_name", None) or message.split("'")[1]
    for name in (f"{command} {word}".removeprefix("curate "), word):
        if name in RENAMED:
            return f"{name} is said in another way now: {RENAMED[name]}; see `{command} --help`"
    return message and f"{message}; see `{command} --help`"
