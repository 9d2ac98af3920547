"""Validates settings before any work starts, for the command line and for every deployment."""

import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, date, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from schemas.asked_model import AskedModel
from schemas.errors import BadInput, install_command
from schemas.settings import THREADS, Settings
from tasks.runtime.parallel import cards, on_card

SECONDS_TO_ANSWER = 10.0
"""Timeout for connecting to a task runner's address."""
_checked: ContextVar[tuple[Settings, ...]] = ContextVar("checked", default=())


@contextmanager
def checked(settings: Settings) -> Iterator[None]:
    """Check settings, unless a caller has checked the same ones: a command does so before it starts Prefect.

    Raises CurateError for the first setting that cannot be used.
    """
    if settings not in _checked.get():
        check_before_work(settings)
    before = _checked.set((*_checked.get(), settings))
    try:
        yield
    finally:
        _checked.reset(before)


def check_before_work(settings: Settings, today: date | None = None) -> None:
    """Raises CurateError for the first setting that cannot be used. `today` is by default this machine's UTC date."""
    from tasks.storage.keyed_ids import given_key, known_key
    from tasks.storage.tables import Store

    check_settings(settings, today)
    store = Store.open(settings.store)
    if settings.logs is not None or settings.source is not None or given_key():
        known_key(store)


def check_settings(settings: Settings, today: date | None = None) -> None:
    """The same without the store: nothing is created."""
    from tasks.ingest.image_files import preset_files
    from tasks.ingest.known_images import load_known_hashes
    from tasks.ingest.log_files import source_files
    from tasks.policy.policy_file import load_policy
    from tasks.release.build import checked_version
    from tasks.storage.keyed_ids import given_key
    from tasks.takedown.take_down import requested
    from tasks.topics.engines import engine

    given_key()
    if settings.logs is not None:
        files = source_files(Path(settings.logs), settings.format, settings.since, settings.until)
        requested(Path(settings.logs))
        _check_clock([file.day for file, _ in files if file.day], today or datetime.now(UTC).date())
    if settings.source is not None:
        from tasks.ingest.database import check_database

        check_database(settings.source, settings.format)
    if settings.presets is not None:
        preset_files(Path(settings.presets))
    if settings.images is not None and not Path(settings.images).is_dir():
        raise BadInput(
            f"--images {settings.images!r} does not exist or is not a folder; give the server's image folder"
        )
    load_known_hashes(settings.known_hashes)
    if settings.known_benchmarks:
        from tasks.bench.contamination.known_sources import named_places

        named_places(settings.known_benchmarks)
    load_policy(settings.policy)
    if settings.release is not None:
        checked_version(settings.release)
    on_card()
    _check_providers(settings)
    _check_task_runner(settings)
    if settings.evaluate.models or settings.evaluate.judge:
        from tasks.providers.asked_models import to_ask

        to_ask(settings)
    engine(settings.topics.engine)


def writer_of(settings: Settings) -> AskedModel | None:
    """The model that writes captions; None for the stand-in. Raises CurateError when it cannot be asked."""
    from tasks.providers.asked_models import check_keys, check_own
    from tasks.providers.chat import chat_model
    from tasks.runtime.budget import check_prices, load_prices

    writer = writer_named(settings.written.writer)
    if writer is None:
        return None
    if settings.written.hidden:
        check_own([writer])
    check_keys([writer])
    if settings.has_budget:
        check_prices(load_prices(settings.prices), [chat_model(writer)])
    return writer


def writer_named(file: str) -> AskedModel | None:
    """The only entry of a models file; None for the stand-in. Raises BadInput for a file with more entries."""
    from tasks.providers.asked_models import EMBEDDED_JUDGE, read_models

    if file == EMBEDDED_JUDGE:
        return None
    models = read_models(Path(file))
    if len(models) > 1:
        raise BadInput(f"models file {file!r} names {len(models)} models; give one with one entry")
    return models[0]


def _check_clock(days: Sequence[date], today: date) -> None:
    """Raises BadInput for log files dated in the future, because the release is named after the last day."""
    tomorrow = today + timedelta(days=1)  # some time zones are up to 14 hours ahead of UTC
    ahead = [day for day in days if day > tomorrow]
    if ahead:
        raise BadInput(
            f"log files reach {max(ahead)}, but today is {today} by this machine's clock; set the clock that is wrong "
            f"(this machine's, or the arena server's), or leave them out with --until {tomorrow}"
        )


def _check_providers(settings: Settings) -> None:
    """Checks that every chosen provider can run, has a price if there is a budget, and supports --batch if given."""
    from tasks.providers import EMBEDDED, PROVIDERS, Providers
    from tasks.runtime.budget import check_prices, covers, load_prices

    providers = Providers(settings.providers)
    chosen = [providers[capability] for capability in settings.providers]
    prices = load_prices(settings.prices)
    names = [*prices.token_prices, *prices.unit_prices]
    for limited in settings.month_usd_max_by:
        if not limited or not any(covers(limited, name) for name in names):
            raise BadInput(
                f"--set month_usd_max_by: the price file has no {limited!r}; give a name in it, or the beginning of "
                f"several: {', '.join(sorted({re.split('[-_]', name)[0] for name in names}))}"
            )
    if settings.has_budget:
        check_prices(prices, chosen)
    evaluation = settings.evaluate.models or settings.evaluate.judge  # `to_ask` checks these
    if (
        settings.batch
        and not evaluation
        and not any(hasattr(getattr(provider, "model", None), "together") for provider in chosen)
    ):
        batch_providers = " or ".join(name for name in PROVIDERS["categories"] if name != EMBEDDED)
        raise BadInput(f"--batch: no chosen provider supports batches; give --provider categories={batch_providers}")


def _check_task_runner(settings: Settings) -> None:
    """Checks that the chosen task runner is installed, has cards to share, and can be reached at its address."""
    address, share = settings.task_runner_address, settings.gpus_a_worker
    if settings.task_runner == THREADS:
        for key, value in (("task_runner_address", address), ("gpus_a_worker", share)):
            if value is not None:
                raise BadInput(f"--set {key}={value!r}: threads have none; add --set task_runner=dask, or ray")
        return
    if share and address is None and (settings.task_runner == "dask" or not cards()):
        why = (
            "this machine has no NVIDIA card" if settings.task_runner == "ray" else "Dask places cards of clusters only"
        )
        raise BadInput(f"--set gpus_a_worker={share}: {why}; leave it out, or give a cluster's task_runner_address")
    if find_spec(f"prefect_{settings.task_runner}") is None:
        raise BadInput(
            f"--set task_runner={settings.task_runner}: it is not installed; run: {install_command('scale')}"
        )
    if address is not None:
        _check_address(address)


def _check_address(address: str) -> None:
    place = urlsplit(address if "://" in address else f"tcp://{address}")
    try:
        socket.create_connection((place.hostname or "", place.port or 0), timeout=SECONDS_TO_ANSWER).close()
    except (OSError, ValueError) as error:
        raise BadInput(
            f"--set task_runner_address={address!r} cannot be reached ({error}); give that of a Dask scheduler, as "
            "tcp://HOST:8786, or of a Ray cluster, as ray://HOST:10001, or none for a cluster on this machine"
        ) from None
