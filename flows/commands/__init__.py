"""The `curate` command: all subcommands, in the order of the help. Heavy imports happen inside the commands."""

import errno
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from schemas.errors import CurateError, on_command_line, problem_in_words, why_unreadable

_PATH_ERRORS = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT}
_PATH_ERRORS |= {errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG}
"""Error numbers that the user can fix by choosing another path."""


def command_line() -> typer.Typer:
    """The app with every command, grouped by the headings of the help."""
    from flows.commands import check, estimate, export, look, personal_data, pipeline, publish, rate, tags, takedown
    from flows.commands.bench import drawn as bench
    from flows.commands.listed import CommandGroup, HelpLine, add_all, put
    from flows.commands.review import command as review
    from flows.commands.settings import backup, doctor, init, status
    from flows.products import PRODUCTS

    of_people = CommandGroup(
        "review",
        "Ask people, in the browser or in files, and see what they say.",
        [review.out, review.in_, review.results, review.serve_pages],
    )
    of_benches = CommandGroup(
        "bench",
        "Show the benchmark and the prompts that models fail, refresh the hidden split, check datasets; take items in "
        "that people write.",
        [bench.show, bench.refresh, bench.check, bench.failures],
    )
    of_tags = CommandGroup("tags", "How good tags are, and how they are distributed.", [tags.evaluate, tags.show])
    of_topics = CommandGroup("topics", "Topics of the kept prompts.", [tags.show_topics])
    exports = CommandGroup(
        "export",
        "A release in other formats, and figures for print.",
        [export.sft, export.preferences, export.dataset, export.figures],
    )
    headings: dict[str, list[HelpLine]] = {
        "Curate": [
            init.init,
            pipeline.run,
            estimate.estimate,
            doctor.doctor,
            status.status,
            backup.migrate,
        ],
        "One stage": [pipeline.ingest, pipeline.measure, pipeline.decide, pipeline.sample, rate.rate, pipeline.release],
        "Look": [
            look.explain,
            look.inspect,
            look.duplicates,
            of_people,
            of_benches,
            of_tags,
            of_topics,
        ],
        "Releases": [
            check.verify,
            check.diff,
            publish.publish,
            publish.yank,
            backup.backup,
            exports,
        ],
        "Personal data": [
            takedown.takedown,
            personal_data.subject,
            personal_data.scrub,
            personal_data.processing,
        ],
    }
    for product in PRODUCTS:
        for added in import_module(product.commands).COMMANDS if product.commands else ():
            put(headings, added)
    app = typer.Typer(name="curate", no_args_is_help=True, pretty_exceptions_enable=False)
    app.callback()(_curate)
    for heading, listed in headings.items():
        add_all(app, listed, heading)
    return app


def _print_version(is_asked: bool) -> None:
    if is_asked:
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
        value_in_words = "" if problem["type"] == "value_error" else f", not {problem['input']!r}"
        message = f"{message.partition(': ')[0]}: {problem_in_words(problem).rstrip('.')}{value_in_words}"
    command = getattr(getattr(error, "ctx", None), "command_path", "curate")
    return message and f"{message}; see `{command} --help`"
