"""`curate arena`: the chat front end that writes the logs."""

import webbrowser
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.arena.space import write_space
from flows.commands.listed import Added
from flows.commands.options import takes
from flows.commands.pages import NoBrowserOption, listening
from schemas.errors import BadInput
from tasks.arena.settings import ArenaSettings

_PORT, _ADMIN_PORT = 8385, 8386


@takes(
    "logs", "presets", "policy", "providers", "known_hashes", "seed", row=ArenaSettings,
    shared=("policy", "known_hashes"),
)  # fmt: skip
def arena(
    settings: ArenaSettings,
    demo: Annotated[
        bool, typer.Option("--demo", help="Serve three drawn models; needs no keys and no network.")
    ] = False,
    models: Annotated[
        Path | None, typer.Option("--models", metavar="FILE", help="YAML list of models (docs/models.md).")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only ask each model for one word, and print what came and what it cost.")
    ] = False,
    board: Annotated[
        str | None,
        typer.Option("--board", metavar="RELEASE|live", help="Leaderboard tab: of a release, or of the votes so far."),
    ] = None,
    tasks: Annotated[
        Path | None, typer.Option("--tasks", metavar="FILE", help="YAML of tasks for annotators (docs/people.md).")
    ] = None,
    terms: Annotated[
        Path | None, typer.Option("--terms", metavar="FILE", help="Markdown that visitors accept first.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=1, max=65_535, help="Port on this machine.", show_default=f"{_PORT}, or a free one"),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; any other one is open to the network.")
    ] = "127.0.0.1",
    space: Annotated[
        Path | None,
        typer.Option("--space", metavar="DIR", help="Only write a Hugging Face Space of this arena into a new folder."),
    ] = None,
    no_browser: NoBrowserOption = False,
) -> None:
    """Serve a chat arena whose logs `curate run` reads: battles with votes, side by side, direct chat.

    It listens on 127.0.0.1 unless --host says otherwise; put your own reverse proxy in front of it. Ctrl-C ends it.
    """
    if demo == (models is not None):
        raise BadInput("give either --demo or --models FILE")
    if space is not None:
        options = {"demo": demo, "board": board, "models": models, "terms": terms, "tasks": tasks}
        print(write_space(space, settings, options))
        return
    from flows.arena import serving
    from tasks.arena.admin.pages import Beside, admin_app, operator_tokens
    from tasks.runtime.serving import serve_on

    served, connect, examples_at = serving.served(demo, models, settings)
    if check:
        serving.check(served, connect)
        return
    folder = settings.logs or (serving.DEMO_FOLDER if demo else None)
    if folder is None:
        raise BadInput("--models FILE needs --logs DIR, the folder that logs and images are written to")
    shown_board = board or (serving.LIVE if demo else None)
    chosen = serving.Chosen(settings, Path(folder), shown_board, serving.terms(terms), tasks, host, demo)
    admission, tokens = serving.admission(settings), operator_tokens(settings)
    with ExitStack() as opened:
        listener = opened.enter_context(listening(port, _PORT, host))
        live_arena, app = serving.app(chosen, served, connect, admission, settings.presets or examples_at)
        link = f"http://{host}:{listener.getsockname()[1]}/"
        print(f"{link}\ncurate what was logged: curate run --logs {folder} --store {folder}-store", flush=True)
        served_app: Any = app
        listeners = [listener]
        if tokens:
            at = listening(settings.admin_port, _ADMIN_PORT, settings.admin_host, "--set admin_port=")
            listeners.append(opened.enter_context(at))
            number = listeners[1].getsockname()[1]
            served_app = Beside(app, admin_app(live_arena, tokens, settings), number)
            print(f"for operators: http://{settings.admin_host}:{number}/", flush=True)
        print("Ctrl-C ends it", flush=True)
        if not no_browser:
            webbrowser.open(link)
        serve_on(listener, served_app, *listeners[1:], timeout_graceful_shutdown=3)


COMMANDS = (Added(arena, "Curate", before="estimate"),)
