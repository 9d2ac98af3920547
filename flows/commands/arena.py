"""`curate arena`: the chat front end that writes the logs."""

import os
import signal
import socket
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.arena_tasks import open_tasks
from flows.commands.options import KnownHashesOption, PolicyOption, ProviderOption, settings_of
from flows.commands.view import listening
from schemas.errors import BadInput, MissingProvider, why_unreadable

if TYPE_CHECKING:
    from fastapi import FastAPI

    from schemas.arena import ArenaModel
    from tasks.arena.entrance.door import Door
    from tasks.arena.rounds import Arena
    from tasks.arena.tabs.board import Board
    from tasks.providers.capabilities import StreamingModel

PORT = 8385
DEMO_FOLDER = Path("arena-demo")
LIVE = "live"
TERMS = """This page is a research preview. Do not upload private pictures or personal data.
Conversations, images and votes are stored under a keyed hash of your network address, cleaned, and may be published as
a dataset. Answers come from models and may be wrong or offensive. You may ask for the removal of a conversation with
the button below it."""


@dataclass(frozen=True)
class _Chosen:
    """The options of a run."""

    logs: Path
    images_max: int
    narrow: bool
    log_addresses: bool
    proxies: int
    messages_a_minute: int
    answers_at_once: int
    board: str | None
    terms: str
    title: str
    seed: int | None
    tasks: Path | None


def arena(
    demo: Annotated[
        bool, typer.Option("--demo", help="Serve three drawn models; needs no keys and no network.")
    ] = False,
    models: Annotated[
        Path | None, typer.Option("--models", metavar="FILE", help="YAML list of models (docs/arena.md).")
    ] = None,
    logs: Annotated[
        Path | None,
        typer.Option("--logs", metavar="DIR", help="Folder for logs and images.", show_default="of --demo: arena-demo"),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only ask each model for one word, and print what came and what it cost.")
    ] = False,
    presets: Annotated[
        str | None,
        typer.Option("--presets", help="Folder of example images, with presets.json.", show_default="LOGS/presets"),
    ] = None,
    images_max: Annotated[int, typer.Option("--images-max", min=0, max=20, help="Images in one message.")] = 4,
    known_hashes: KnownHashesOption = None,
    provider: ProviderOption = None,
    policy: PolicyOption = "public_release",
    board: Annotated[
        str | None,
        typer.Option("--board", metavar="RELEASE|live", help="Leaderboard tab: of a release, or of the votes so far."),
    ] = None,
    tasks: Annotated[
        Path | None, typer.Option("--tasks", metavar="FILE", help="YAML of tasks for annotators (docs/arena.md).")
    ] = None,
    narrow: Annotated[
        bool, typer.Option("--narrow", help="Draw pairs more often whose next vote narrows the board's intervals most.")
    ] = False,
    terms: Annotated[
        Path | None, typer.Option("--terms", metavar="FILE", help="Markdown that visitors accept first.")
    ] = None,
    title: Annotated[str, typer.Option("--title", help="Heading of the page.")] = "Vision arena",
    log_addresses: Annotated[
        bool, typer.Option("--log-addresses", help="Log network addresses as they are, instead of keyed hashes.")
    ] = False,
    proxies: Annotated[
        int, typer.Option("--proxies", min=0, help="Your own reverse proxies in front, whose X-Forwarded-For counts.")
    ] = 0,
    messages_per_minute: Annotated[
        int, typer.Option("--messages-per-minute", min=1, help="Messages of one visitor in a minute.")
    ] = 20,
    answers_at_once: Annotated[
        int, typer.Option("--answers-at-once", min=1, help="Messages answered at once; others wait in a queue.")
    ] = 40,
    port: Annotated[
        int | None,
        typer.Option("--port", min=1, max=65_535, help="Port on this machine.", show_default=f"{PORT}, or a free one"),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of drawn pairs.", show_default="none")] = None,
) -> None:
    """Serve a chat arena whose logs `curate run` reads: battles with votes, side by side, direct chat.

    It listens on 127.0.0.1 only; put your own reverse proxy in front of it. Ctrl-C ends it.
    """
    if demo == (models is not None):
        raise BadInput("give either --demo or --models FILE")
    served, connect, examples_at = _served(demo, models, logs, seed)
    if check:
        _check(served, connect)
        return
    folder = logs or (DEMO_FOLDER if demo else None)
    if folder is None:
        raise BadInput("--models FILE needs --logs DIR, the folder that logs and images are written to")
    chosen = _Chosen(
        folder,
        images_max if any(model.vision for model in served) else 0,
        narrow,
        log_addresses,
        proxies,
        messages_per_minute,
        answers_at_once,
        board or (LIVE if demo else None),
        _terms(terms),
        title,
        seed,
        tasks,
    )
    from tasks.arena.entrance.uploads import private_folder

    door = _door(policy, provider, known_hashes)
    with _ended_in_order(), private_folder() as private, listening(port, PORT) as listener, ExitStack() as running:
        app = _app(chosen, served, connect, door, presets or examples_at, private, running)
        link = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        print(f"{link}\n{_hint(folder)}\nCtrl-C ends it", flush=True)
        if not no_browser:
            webbrowser.open(link)
        _run(app, listener)


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """SIGTERM and SIGHUP end the block as an exception, so that what it holds on the disk is deleted."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _hint(folder: Path) -> str:
    return f"curate what was logged: curate run --logs {folder} --store {folder}-store"


def _run(app: "FastAPI", listener: socket.socket) -> None:
    import uvicorn

    options = uvicorn.Config(
        app,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=3,
    )
    with suppress(KeyboardInterrupt):  # uvicorn raises it again after it has stopped
        uvicorn.Server(options).run([listener])


def _served(
    demo: bool, models: Path | None, logs: Path | None, seed: int | None
) -> tuple[list["ArenaModel"], Callable[["ArenaModel"], "StreamingModel"], str | None]:
    """The models, how to reach them, and the folder of the demo's example images."""
    from schemas.arena import ArenaModel

    if not demo:
        from tasks.arena.models_file import check_keys, read_models
        from tasks.providers.chat import streaming_model

        found = read_models(models or Path())
        check_keys(found)
        return found, streaming_model, None
    from tasks.demo.served_models import DrawnModel, demo_models, draw_examples

    folder = (logs or DEMO_FOLDER) / "presets"
    try:
        known = draw_examples(folder, 0)
    except OSError as error:
        raise BadInput(f"--logs {str(folder.parent)!r} cannot be written ({error.strerror}); give another") from None
    drawn = {model.name: DrawnModel(model, known, seed or 0) for model in demo_models()}
    rows = [ArenaModel(name=name, base_url="http://127.0.0.1", vision=True) for name in drawn]
    return rows, lambda model: drawn[model.name], str(folder)


def _check(served: Sequence["ArenaModel"], connect: Callable[["ArenaModel"], "StreamingModel"]) -> None:
    """Ask each model for one word. Raises BadInput when one does not answer."""
    import asyncio

    from tasks.arena.check import asked_once

    results = asyncio.run(asked_once(served, connect))
    for result in results:
        print(result.line)
    if bad := [result.name for result in results if not result.answered]:
        raise BadInput(f"{len(bad)} of {len(results)} models do not answer: {', '.join(bad)}")


def _door(policy: str, provider: list[str] | None, known_hashes: list[str] | None) -> "Door":
    """The door's checks: the run's providers, with the thresholds of its policy."""
    from tasks.arena.entrance.door import Door
    from tasks.ingest.known_images import file_digests, load_known_hashes
    from tasks.policy.policy_file import load_policy
    from tasks.providers import Providers

    providers = Providers(settings_of(store="", provider=provider).providers)
    rules = load_policy(policy).rules
    nsfw = [rule.at_least for rule in rules if rule.signal == "nsfw.nsfw_probability" and rule.at_least is not None]
    if not nsfw:
        raise BadInput(
            f"--policy {policy!r} has no rule `at_least` for nsfw.nsfw_probability, so no NSFW image would be refused; "
            "give a policy with one, such as public_release"
        )
    known = load_known_hashes(known_hashes or [])
    return Door(
        nsfw=providers["nsfw"],
        nsfw_probability_max=min(nsfw),
        moderator=providers["moderation"],
        image_moderator=providers["image_moderation"] if "image_moderation" in providers.names else None,
        known=known or None,
        holds_file=lambda content: bool(known) and known.holds_file(file_digests(content)),
    )


def _app(
    chosen: _Chosen,
    served: Sequence["ArenaModel"],
    connect: Callable[["ArenaModel"], "StreamingModel"],
    door: "Door",
    presets: str | None,
    private: Path,
    running: ExitStack,
) -> "FastAPI":
    os.environ |= {"GRADIO_ANALYTICS_ENABLED": "False", "GRADIO_TEMP_DIR": str(private)}
    try:
        from tasks.arena.app import Pictures, make_app
        from tasks.arena.page import Page, make_page
    except ImportError as error:
        raise MissingProvider(
            f"the arena's page cannot be made ({error.name} is not installed); run: "
            '.venv/bin/uv pip install -c constraints.txt -e ".[arena]"'
        ) from None
    from tasks.arena.entrance.examples import examples
    from tasks.arena.entrance.uploads import Uploads

    arena = _arena(chosen, served, connect, door)
    uploads, pictures = Uploads(door, private), Pictures(chosen.logs)
    running.enter_context(uploads.purged())
    listed = _listed(presets, chosen.logs) if chosen.images_max else []
    page = Page(arena, uploads, examples(door, listed, Random()) if listed else None, pictures.show)  # noqa: S311
    blocks = make_page(
        arena,
        page,
        title=chosen.title,
        terms=chosen.terms,
        answers_at_once=chosen.answers_at_once,
        examples=bool(listed),
        board=_board(chosen.board, arena),
        tasks=open_tasks(chosen.tasks, pictures.serve) if chosen.tasks else None,
    )
    return make_app(arena, blocks, uploads, pictures, chosen.images_max)


def _arena(
    chosen: _Chosen,
    served: Sequence["ArenaModel"],
    connect: Callable[["ArenaModel"], "StreamingModel"],
    door: "Door",
) -> "Arena":
    from tasks.arena.entrance.visitors import Visitors, key_of
    from tasks.arena.logs import LogFolder
    from tasks.arena.rounds import Arena

    folder = LogFolder(chosen.logs)
    folder.prepare(datetime.now(UTC).date())
    visitors = Visitors(
        key_of(chosen.logs),
        messages_a_minute=chosen.messages_a_minute,
        proxies=chosen.proxies,
        raw=chosen.log_addresses,
    )
    made = Arena(
        served,
        connect,
        door,
        folder,
        visitors,
        version=version("arena-curation"),
        images_max=chosen.images_max,
        narrowing=chosen.narrow,
        rng=Random(chosen.seed),  # noqa: S311 - draws pairs
    )
    made.read_votes(folder.records())
    return made


def _listed(presets: str | None, logs: Path) -> list[tuple[str, Path]]:
    from tasks.ingest.presets import find_presets, preset_files

    folder = Path(presets) if presets else find_presets(logs)
    return [(preset.path, preset.file) for preset in preset_files(folder)] if folder else []


def _board(board: str | None, arena: "Arena") -> "Board | None":
    from tasks.arena.tabs.board import LiveBoard, ReleaseBoard
    from tasks.leaderboard.leaderboard import leaderboard
    from tasks.leaderboard.votes import rateable, votes

    if board is None:
        return None
    if board == LIVE:
        return LiveBoard(arena.cast, lambda table: leaderboard(votes(rateable(table))))
    return ReleaseBoard(Path(board))


def _terms(file: Path | None) -> str:
    if file is None:
        return TERMS
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"--terms {str(file)!r} cannot be read ({why_unreadable(error)}); give a text file") from None
