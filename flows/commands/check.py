"""`curate verify` and `curate doctor`: is a release as it was made, and what can run here."""

import importlib.util
import os
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import Annotated

import typer

from flows.commands.options import ProviderOption, settings_of
from schemas.errors import CurateError


def verify(release: Annotated[str, typer.Argument(help="Folder of a release, or its s3://… address.")]) -> None:
    """Checksums, columns, counts, pictures without metadata, no identifiers, no leaks, the card. Exit 1 on problems."""
    from tasks.release.fetched import fetched, store_of
    from tasks.release.layout import MANIFEST_DIGITS, manifest_sha256
    from tasks.release.verify import verify_release
    from tasks.untrusted import one_line

    with fetched(release) as folder:
        problems = verify_release(folder, store_of(release))
        sealed = manifest_sha256(folder)[:MANIFEST_DIGITS]
    for problem in problems[:50]:
        print(one_line(problem.encode(errors="backslashreplace").decode(), 1000))
    if problems:
        print(f"{len(problems)} problems: this release is not as it was made")
        raise typer.Exit(1)
    print(f"{release} is whole; its manifest is {sealed}")


def doctor(provider: ProviderOption = None) -> None:
    """What is installed, which providers can run, what is missing and how to get it. Downloads nothing."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from tasks.providers import PROVIDERS, Providers

    chosen = Providers(settings_of(store="", provider=provider).providers).names
    for package in ("arena-curation", "prefect", "polars", "pyarrow", "datasets", "onnxruntime", "torch"):
        print(f"{package:<16} {_version(package)}")
    print()
    for capability, among in PROVIDERS.items():
        own = [chosen[capability]] if capability in chosen else []
        for name in dict.fromkeys([*among, *own]):
            try:
                found = Providers({capability: name})[capability]
                print(f"ready    {capability:<16} {name:<14} {found.version}")
            except CurateError as error:
                print(f"missing  {capability:<16} {name:<14} {error}")


def _version(package: str) -> str:
    try:
        return installed_version(package)
    except PackageNotFoundError:
        return "not installed" if importlib.util.find_spec(package) is None else "unknown"
