"""`curate doctor`: what is installed, what is in force and where it comes from, and whether a run can start."""

import importlib.util
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.commands.options import takes
from flows.running.settings_file import keys_of, read
from schemas.errors import CurateError, StoreUnwell
from schemas.run import SETUP_FAILURES
from schemas.settings import Settings
from tasks.runtime.untrusted import one_line

if TYPE_CHECKING:
    from tasks.storage.tables import Store

AUDITED = 20
"""Entries of the audit log that are printed."""

AskOption = Annotated[
    bool, typer.Option("--ask", help="Also make one cheap call to each chosen paid service, of less than a cent.")
]


@takes("store", "models", "providers", "prompts", store="")
def doctor(settings: Settings, ask: AskOption = False) -> None:
    """Say what is in force and where it comes from, which models can run, and how to get what is missing.

    The last line is a verdict, and exit 1 says that something is missing. Downloads nothing. With --store, check every
    byte of its tables and its audit log instead: name what was damaged, lost or cut off since it was written, and what
    reads a store that this version does not; print who last looked at masked content, exported, published or took down.
    """
    if settings.store:
        _check_store(settings.store)
        return
    os.environ["HF_HUB_OFFLINE"] = "1"
    from tasks.prompts import replaced_hashes

    for package in ("arena-curation", "prefect", "polars", "pyarrow", "datasets", "onnxruntime", "torch"):
        with suppress(PackageNotFoundError):
            print(f"{package:<16} {version(package)}")
            continue
        print(f"{package:<16} {'unknown' if importlib.util.find_spec(package) else 'not installed'}")
    for name, text_hash in replaced_hashes().items():
        print(f"replaced prompt {name:<24} {text_hash}")
    of_file = read(Path(settings.config)) if settings.config else {}
    print("\nin force")
    for key, value, origin in _in_force(settings, of_file):
        print(f"  {key:<24} {value!s:<32} {origin}")
    print("  every other setting has its default; `curate init` writes all of them with their meaning\n")
    wrong = [*_models(settings), *_unusable(settings.model_copy(update={"store": of_file.get("store", "")}))]
    if ask and not wrong:
        wrong = list(_silent(settings))
    if wrong:
        print("not ready:", *wrong, sep="\n  ")
        raise typer.Exit(1)
    print("ready" + (": every chosen model is here" if not ask else ": every chosen model is here and answers"))


def _in_force(settings: Settings, of_file: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """(key, value, where it comes from) of every setting that is not left at its default."""
    from tasks.providers import model_set

    set_values, file = settings.model_dump(mode="json", exclude_unset=True), str(settings.config)
    of_set = model_set(settings.models)
    for key in keys_of():
        section, _, name = key.rpartition(".")
        inside, in_file = (set_values.get(section, {}), of_file.get(section, {})) if section else (set_values, of_file)
        value = inside.get(name)
        if key == "store" or key == "config" or name not in inside:
            continue
        if not isinstance(value, dict):
            yield key, value, file if name in in_file and str(in_file[name]) == str(value) else "an option"
        for part, chosen in value.items() if isinstance(value, dict) else ():
            is_of_set = key == "providers" and of_set.get(part) == chosen
            named = f"models: {settings.models}" if is_of_set else "an option"
            yield f"{key}.{part}", chosen, file if in_file.get(name, {}).get(part) == chosen else named
    if store := of_file.get("store"):
        yield "store", store, file


def _models(settings: Settings) -> Iterator[str]:
    """Print providers, those that are chosen or, where none is, all; yields how to get what is missing, each once."""
    from tasks.providers import PROVIDERS, Providers

    chosen, wrong = Providers(settings.providers).names, dict[str, list[str]]()
    for capability, among in PROVIDERS.items():
        names = [chosen[capability]] if capability in chosen else []
        for name in dict.fromkeys([*names, *(() if settings.providers or settings.config else among)]):
            try:
                print(f"ready    {capability:<16} {name:<14} {Providers({capability: name})[capability].version}")
            except CurateError as error:
                print(f"missing  {capability:<16} {name:<14} {error}")
                if name in names:
                    wrong.setdefault(str(error), []).append(capability)
    yield from (f"{', '.join(capabilities)}: {remedy}" for remedy, capabilities in wrong.items())


def _unusable(settings: Settings) -> Iterator[str]:
    """The first setting that a run would refuse."""
    from flows.before_work import check_settings
    from schemas.errors import MissingProvider

    try:
        check_settings(settings)
    except MissingProvider:
        return  # is told with the others
    except CurateError as error:
        yield str(error)


def _silent(settings: Settings) -> Iterator[str]:
    """Ask each paid service; yields those that do not answer."""
    from flows.running.night import first_answers
    from tasks.providers import Providers

    for service, why in first_answers(Providers(settings.providers)):
        print(f"{'silent ' if why else 'answers'}  {service}  {why}".rstrip())
        if why:
            yield f"{service}: {SETUP_FAILURES.get(why, why)}"


def _check_store(root: str) -> None:
    from tasks.storage.layout import layout_in_words, stated_layout
    from tasks.storage.tables import Store

    store = Store.existing(root, any_layout=True)
    if lines := list(store_problems(store)):
        print(*lines, sep="\n")
        raise typer.Exit(1)
    layout = stated_layout(store)
    print(f"store {root!r} is whole; it has {layout_in_words(layout) if layout else 'no number of its layout yet'}")


def store_problems(store: "Store") -> Iterator[str]:
    """One line for each thing that is wrong with a store, and what reads one of another version."""
    from tasks.storage.layout import why_not_read

    yield from filter(None, [why_not_read(store)])
    yield from store.damage()
    yield from _audited(store)


def _audited(store: "Store") -> Iterator[str]:
    """Print what the audit log has, the last entries last; yields what is wrong with it."""
    from tasks.storage.records import audit_entries, cut_off, known_people, run_records

    try:
        entries = list(audit_entries(store))
        people = known_people(store) if entries else {}
    except StoreUnwell as error:
        yield str(error)
        return
    for entry in entries[-AUDITED:]:
        counted = ", ".join(f"{count:,} {name}" for name, count in entry.counts.items())
        who = one_line(people.get(entry.who, entry.who) or "somebody", 60)
        print(
            one_line(f"audit    {entry.at:%Y-%m-%d %H:%M}  {who}  {entry.what}  {counted}  {entry.about}".rstrip(), 400)
        )
    print(f"audit    {len(entries):,} entries" + (f", the last {AUDITED} above" if len(entries) > AUDITED else ""))
    seen = [record["audit"] for record in run_records(store) if record.get("audit")]
    yield from filter(None, [cut_off(store, *seen[-1])] if seen else [])
