"""`curate arena`: the chat front end that writes the logs."""

import webbrowser
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.arena import serving
from flows.commands.arena.space import SPACE_OPTIONS, write_space
from flows.commands.options import KnownHashesOption, PolicyOption, ProviderOption
from flows.commands.view import listening
from schemas.errors import BadInput


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
        typer.Option(
            "--port", min=1, max=65_535, help="Port on this machine.", show_default=f"{serving.PORT}, or a free one"
        ),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; any other one is open to the network.")
    ] = "127.0.0.1",
    space: Annotated[
        Path | None,
        typer.Option("--space", metavar="DIR", help="Only write a Hugging Face Space of this arena into a new folder."),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of drawn pairs.", show_default="none")] = None,
) -> None:
    """Serve a chat arena whose logs `curate run` reads: battles with votes, side by side, direct chat.

    It listens on 127.0.0.1 unless --host says otherwise; put your own reverse proxy in front of it. Ctrl-C ends it.
    """
    if demo == (models is not None):
        raise BadInput("give either --demo or --models FILE")
    if space is not None:
        asked = {name: value for name, value in locals().items() if name in SPACE_OPTIONS}
        print(write_space(space, title, asked))
        return
    served, connect, examples_at = serving.served(demo, models, logs, seed)
    if check:
        serving.check(served, connect)
        return
    folder = logs or (serving.DEMO_FOLDER if demo else None)
    if folder is None:
        raise BadInput("--models FILE needs --logs DIR, the folder that logs and images are written to")
    chosen = serving.Chosen(
        folder,
        images_max if any(model.vision for model in served) else 0,
        narrow,
        log_addresses,
        proxies,
        messages_per_minute,
        answers_at_once,
        board or (serving.LIVE if demo else None),
        serving.terms(terms),
        title,
        seed,
        tasks,
    )
    from tasks.arena.uploads import private_folder

    admission = serving.admission(policy, provider, known_hashes)
    with (
        serving.ended_in_order(), private_folder() as private, listening(port, serving.PORT, host) as listener,
        ExitStack() as running,
    ):  # fmt: skip
        app = serving.app(chosen, served, connect, admission, presets or examples_at, private, running)
        link = f"http://{host}:{listener.getsockname()[1]}/"
        print(f"{link}\n{serving.hint(folder)}\nCtrl-C ends it", flush=True)
        if not no_browser:
            webbrowser.open(link)
        serving.run(app, listener)
