"""`curate arena --space DIR`: an arena as one folder for a Hugging Face Space: code, pinned requirements, no keys."""

import json
import shutil
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement

import flows
import schemas
import tasks
from schemas.asked_model import is_here
from schemas.errors import BadInput, install_command, why_unreadable
from tasks.arena.models_file import read_arena_models
from tasks.arena.reasons import read_reasons
from tasks.arena.settings import ArenaSettings
from tasks.arena.starters import read_starters

DISTRIBUTION = "arena-curation"
_PACKAGES = (flows, schemas, tasks)
_COPIED = {"models": "models.yaml", "terms": "terms.md"}
"""Option -> the name that its file gets in the Space."""
_REFUSED = {
    "known_hashes": "--known-hashes does not go with --space: a list of known images does not belong into a public "
    "repository",
    "tasks": "--tasks does not go with --space: a store does not belong on a Space; run the arena with --tasks on a "
    "machine of your own",
    "log_addresses": "--set log_addresses does not go with --space: a Space does not log network addresses",
}
_OF_PLACE = {"logs", "presets", "proxies", "proxied_by", "admin_host", "admin_port", "operators", *_REFUSED}
"""Settings that a Space has of its own."""

_APP = '''"""The arena of this Space. Keys of models are secrets of it, under the names that models.yaml gives."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
os.chdir(HERE)
sys.path.insert(0, str(HERE))

from flows.commands import main  # noqa: E402

OPTIONS = {options}
VOLUME = Path("/data")  # storage of the Space; without it, votes are lost at a restart
LOGS = os.environ.get("ARENA_LOGS", str(VOLUME / "logs"))
HOST = os.environ.get("ARENA_HOST", "0.0.0.0")  # noqa: S104 - a Space is reached through its proxy
PORT = os.environ.get("ARENA_PORT", "7860")
NETWORKS = "proxied_by=10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,100.64.0.0/10"  # a Space's proxy is in one of them

if __name__ == "__main__":
    if "ARENA_LOGS" not in os.environ and not os.path.ismount(VOLUME):
        sys.exit(f"{{VOLUME}} is no storage that was mounted, so votes would be lost; mount it, or set ARENA_LOGS")
    placed = ["--logs", LOGS, "--host", HOST, "--port", PORT, "--set", "proxies=1", "--set", NETWORKS, "--no-browser"]
    sys.argv = ["curate", "arena", *OPTIONS, *placed]
    main()
'''
_README = """---
title: {title}
sdk: docker
app_port: 7860
pinned: false
---

An arena: people chat with models, and vote. Made by `curate arena --space`.

* **Secrets**: every variable that `models.yaml` names as a `key`, and `CURATE_USER_KEY` (at least 16 bytes), under
  which the addresses of visitors are hashed. No key is in this folder.
* **Storage**: mount storage at `/data`; logs are written to `/data/logs`. Without it the arena does not start. To write
  elsewhere, set the variable `ARENA_LOGS` to a folder that outlives a restart.
* **Address**: open the page of the Space itself (`https://OWNER-NAME.hf.space`); it is not shown inside others.
* **Tonight**: download the logs, with `takedown_requests.txt`, then `curate run --logs LOGS --store STORE`. What
  visitors asked to forget is taken down first.
"""
_DOCKERFILE = """FROM python:3.11-slim
RUN apt-get update && apt-get install -y --no-install-recommends build-essential && rm -rf /var/lib/apt/lists/*
RUN useradd -m -u 1000 user
WORKDIR /home/user/app
COPY --chown=user requirements.txt .
RUN pip install --no-cache-dir -r requirements.txt
COPY --chown=user . .
USER user
EXPOSE 7860
CMD ["python", "app.py"]
"""


def write_space(folder: Path, settings: ArenaSettings, options: Mapping[str, object]) -> str:
    """Write the folder; returns what to do next. Raises BadInput if it is not empty, and for what a Space cannot do."""
    option_values = {**options, **settings.model_dump()}
    if refused := next((refusal for name, refusal in _REFUSED.items() if option_values[name]), None):
        raise BadInput(refused)
    if options["board"] not in (None, "live"):
        raise BadInput("--board of a release does not go with --space; give live")
    policy = settings.policy
    if policy.endswith((".yaml", ".yml")) or "/" in policy:
        raise BadInput("--policy with --space: give one that ships, by name")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"--space {str(folder)!r} exists and is not empty; give a new folder")
    models = read_arena_models(Path(str(options["models"]))) if options["models"] else []
    read_reasons(Path(settings.reasons) if settings.reasons else None)
    read_starters(Path(settings.starters) if settings.starters else None)
    try:
        _write(folder, settings, options)
    except OSError as error:
        raise BadInput(f"--space {str(folder)!r} cannot be written ({why_unreadable(error)}); give another") from None
    here = ", ".join(model.name for model in models if is_here(model.base_url))
    warning = f"warning: a Space does not reach this machine, where these models are: {here}\n" if here else ""
    return (
        f"{warning}{folder}: push it to a new Space (`hf upload OWNER/NAME {folder} . --repo-type space`); "
        "README.md in it says which secrets and storage it needs"
    )


def _write(folder: Path, settings: ArenaSettings, command_options: Mapping[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    options = ["--demo"] if command_options["demo"] else []
    options += ["--board", "live"] if command_options["board"] or command_options["demo"] else []
    for name, file in _COPIED.items():
        if command_options[name]:
            shutil.copyfile(str(command_options[name]), folder / file)
            options += [f"--{name}", file]
    if settings.presets:
        shutil.copytree(settings.presets, folder / "presets")
        options += ["--presets", "presets"]
    # options for the settings that are not those by default
    changed_settings = settings.model_dump(exclude_defaults=True, exclude=_OF_PLACE) | _copied_texts(folder, settings)
    chosen = {f"providers.{name}": value for name, value in changed_settings.pop("providers", {}).items()}
    options += [part for key, value in (changed_settings | chosen).items() for part in ("--set", f"{key}={value}")]
    (folder / "app.py").write_text(_APP.format(options=json.dumps(options)), encoding="utf-8")
    (folder / "README.md").write_text(_README.format(title=json.dumps(settings.title)), encoding="utf-8")
    (folder / "Dockerfile").write_text(_DOCKERFILE, encoding="utf-8")
    (folder / "requirements.txt").write_text("".join(f"{line}\n" for line in pinned()), encoding="utf-8")
    dist_info = folder / f"arena_curation-{version(DISTRIBUTION)}.dist-info"  # says the version to the copied code
    dist_info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: {version(DISTRIBUTION)}\n"
    (dist_info / "METADATA").write_text(metadata, encoding="utf-8")
    for package in _PACKAGES:
        here = Path(str(package.__path__[0]))
        shutil.copytree(here, folder / here.name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))


def _copied_texts(folder: Path, settings: ArenaSettings) -> dict[str, str]:
    """Copy the files of reasons and starter prompts, with its pictures; returns the settings that name the copies."""
    copied = {}
    if settings.reasons:
        copied["reasons"] = "reasons.yaml"
        shutil.copyfile(settings.reasons, folder / copied["reasons"])
    if settings.starters:
        copied["starters"] = "starters/starters.yaml"
        (folder / "starters").mkdir()
        shutil.copyfile(settings.starters, folder / copied["starters"])
        for name, picture in read_starters(Path(settings.starters)).pictures.items():
            shutil.copyfile(picture, folder / "starters" / name)
    return copied


def pinned() -> list[str]:
    """The packages that an arena needs, in the versions that are installed. Raises BadInput when one is missing."""
    pins: dict[str, str] = {}
    waiting = [Requirement(f"{DISTRIBUTION}[arena]")]
    seen = set()
    while waiting:
        requirement = waiting.pop()
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        try:
            if requirement.name != DISTRIBUTION:
                pins[requirement.name] = f"{requirement.name}=={version(requirement.name).partition('+')[0]}"
            needs = [Requirement(text) for text in requires(requirement.name) or ()]
        except PackageNotFoundError:
            raise BadInput(
                f"--space: package {requirement.name} is not installed; run: {install_command('arena')}"
            ) from None
        extras = requirement.extras or {""}
        waiting += [
            need for need in needs if not need.marker or any(need.marker.evaluate({"extra": extra}) for extra in extras)
        ]
    return sorted(pins.values(), key=str.lower)
