"""`curate publish` and `curate yank`: publish a release on the Hugging Face Hub, and take a version back."""

import shlex
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import existing, takes
from schemas.errors import BadInput
from schemas.settings import Settings

SITE_ROWS = 1_000
"""Items of a published explorer: each is a file, and the Hub is slow with repositories of very many files."""
RepoOption = Annotated[str, typer.Option("--repo", help="ORG/NAME of the dataset repository.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


@takes("accept_embedded", store="", others=False)
def publish(
    settings: Settings,
    release: Annotated[str, typer.Argument(help="Folder of a release, or its s3://… address.")],
    repo: RepoOption,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list what would be sent, and what forbids it; sends no request.")
    ] = False,
    public: Annotated[bool, typer.Option("--public", help="To a public repository.")] = False,
    per_config: Annotated[
        bool,
        typer.Option(
            "--repo-per-config", help="NAME-chat, NAME-battle, NAME-bench and NAME-failures in place of NAME."
        ),
    ] = False,
    preview: Annotated[
        bool, typer.Option("--preview", help="To a branch preview-VERSION, without a tag; repeatable.")
    ] = False,
    with_explorer: Annotated[
        bool,
        typer.Option(
            "--with-explorer",
            help=f"With the pages of `curate view --export` in explorer/: {SITE_ROWS:,} items, even over topics.",
        ),
    ] = False,
    yes: YesOption = False,
) -> None:
    """Publish a verified release on the Hub: one commit, tag = version. HF_TOKEN must hold a token with write access.

    Shows the funnel and the changes since the last published version, and asks for confirmation. Refuses builds with
    embedded stand-ins that --accept-embedded does not name, releases that do not verify, exports, and existing
    versions. If interrupted, run it again.
    """
    from flows.products import parts_of_release
    from tasks.publish.hub import hub_api, quiet_client
    from tasks.publish.plan import plan_lines, plan_upload, require_allowed, summary_lines, with_site
    from tasks.publish.push import check_hub, publish_release
    from tasks.release.fetched import fetched_of_store, read_manifest

    flags = {"--public": public, "--repo-per-config": per_config, "--preview": preview}
    flags |= {"--with-explorer": with_explorer, "--yes": yes}
    again = ["curate", "publish", release, "--repo", repo, *(name for name, is_given in flags.items() if is_given)]
    if with_explorer and per_config:
        raise BadInput("--with-explorer shows all configurations on one page; leave --repo-per-config out")
    accepted = settings.accept_embedded
    api = None if dry_run else hub_api()  # a missing token is reported before the long verification
    with (
        _command_to_paste([*again, *_accepting(accepted)]),
        fetched_of_store(release) as (folder, store),
        ExitStack() as until_sent,
    ):
        plan = plan_upload(folder, repo, parts_of_release, public, per_config, preview, store, dry_run, accepted)
        site = None
        if with_explorer:
            site = Path(until_sent.enter_context(tempfile.TemporaryDirectory(prefix="explorer-")))
            _write_site(folder, plan.version, site)
            plan = with_site(plan, site)
        if api is None:
            _print([*plan_lines(plan), "nothing was sent: this was a dry run"])
            require_allowed(folder, read_manifest(folder), public, accepted)
            return
        quiet_client()
        check_hub(api, folder, plan, store, site)
        if not yes:
            _print([*summary_lines(folder, plan, store, parts_of_release), *plan_lines(plan)])
            confirm("publish this?")
        commits = publish_release(api, folder, plan, store, datetime.now(UTC), site)
    of_store = f" --store {shlex.quote(store.root)}" if store else ""
    for name, commit in commits.items():
        revision = plan.tag or plan.branch
        print(f"published {name} at {revision}, commit {commit}")
        print(f'  datasets.load_dataset("{name}", revision="{revision}")')
        print(f"  to take it back: curate yank {revision} --repo {name}{of_store}")


def _accepting(names: Iterable[str]) -> list[str]:
    return [word for name in names for word in ("--accept-embedded", name)]


@contextmanager
def _command_to_paste(command: Sequence[str]) -> Iterator[None]:
    """Where stand-ins are left to accept, the line ends with the command that accepts them."""
    from tasks.publish.plan import StandInsLeft

    try:
        yield
    except StandInsLeft as error:
        raise BadInput(f"{error}: {shlex.join([*command, *_accepting(error.names)])}") from None


def _write_site(release: Path, version: str, root: Path) -> None:
    """The pages of the release in `root`/explorer: the same bytes for the same release."""
    from flows.products import explorer_here, parts_of_release
    from tasks.release.build import SITE
    from tasks.release.fetched import read_manifest
    from tasks.release.registered import OpenRelease

    parts = parts_of_release(OpenRelease(release, read_manifest(release), None))
    shown = explorer_here()
    source = shown.of_release(release, version, lambda: "", parts)
    source.refresh()
    shown.export(source, root / SITE, SITE_ROWS, None)


def yank(
    version: Annotated[str, typer.Argument(help="Published version: its tag, or a preview's branch.")],
    repo: RepoOption,
    store: Annotated[str | None, typer.Option("--store", help="Store whose record of publications is updated.")] = None,
    yes: YesOption = False,
) -> None:
    """Take a published version back: its tag, its files on main, and its large files in the history.

    Other versions stay. Copies that others downloaded stay, too.
    """
    from tasks.publish.hub import PREVIEW, hub_api, quiet_client
    from tasks.publish.plan import check_name
    from tasks.publish.push import require_version, yank_version
    from tasks.publish.records import record_yank

    api, now = hub_api(), datetime.now(UTC)
    quiet_client()
    check_name(repo, longest="")
    of_store = existing(store) if store else None
    try:
        require_version(api, repo, version)
    except BadInput:
        if of_store is None or not record_yank(of_store, version, repo, now):
            raise
        print(f"{repo} has no version {version} any more; the store's record says so now")
        return
    if not yes:
        history = "" if version.startswith(PREVIEW) else ", with the history of its main branch"
        print(f"version {version} of {repo} will be removed for good{history}")
        confirm("take it back?")
    for done, count in yank_version(api, repo, version).items():
        print(f"{done}: {count:,}")
    print(f"{repo} has no version {version} any more")
    if of_store:
        record_yank(of_store, version, repo, now)


def _print(lines: list[str]) -> None:
    for line in lines:
        print(line)


def confirm(question: str) -> None:
    """Go on only when the user says yes. Raises BadInput when nobody is at the terminal."""
    if not sys.stdin.isatty():
        raise BadInput("nobody is there to ask; read the output of --dry-run, then say --yes")
    if not typer.confirm(question):
        raise typer.Exit(1)
