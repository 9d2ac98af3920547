"""Validates settings before any work starts, for the command line and for every deployment."""

import os
import socket
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from schemas.errors import BadInput
from schemas.settings import THREADS, Settings

SECONDS_TO_ANSWER = 10.0
"""Timeout for connecting to a task runner's address."""


def check_before_work(settings: Settings, today: date | None = None) -> None:
    """Raises CurateError for the first setting that cannot be used. `today` is by default this machine's UTC date."""
    from tasks.ingest.formats.data_files import source_files
    from tasks.ingest.known_images import load_known_hashes
    from tasks.ingest.presets import preset_files
    from tasks.policy.policy_file import load_policy
    from tasks.release.build import checked_version
    from tasks.storage.tables import Store
    from tasks.storage.user_ids import given_key, known_key
    from tasks.takedown.requests import requested
    from tasks.topics.engines import engine

    given_key()
    if settings.logs is not None:
        files = source_files(Path(settings.logs), settings.format, settings.since, settings.until)
        requested(Path(settings.logs))
        _check_clock([file.day for file, _ in files if file.day], today or datetime.now(UTC).date())
    if settings.presets is not None:
        preset_files(Path(settings.presets))
    if settings.images is not None and not Path(settings.images).is_dir():
        raise BadInput(
            f"--images {settings.images!r} does not exist or is not a folder; give the server's image folder"
        )
    load_known_hashes(settings.known_hashes)
    load_policy(settings.policy)
    if settings.release is not None:
        checked_version(settings.release)
    _check_providers(settings)
    _check_task_runner(settings)
    if settings.evaluate.models or settings.evaluate.judge:
        from tasks.evaluate.sources import to_ask

        to_ask(settings)
    engine(settings.topics.engine)
    store = Store.open(settings.store)
    if settings.logs is not None or given_key():
        known_key(store)


def check_places() -> dict[str, str]:
    """A build step of prefect.yaml: ends `prefect deploy` with one line unless CURATE_LOGS and CURATE_STORE are set."""
    missing = [name for name in ("CURATE_LOGS", "CURATE_STORE") if not os.environ.get(name)]
    if missing:
        raise SystemExit(
            f"prefect deploy: {' and '.join(missing)} not set; export the log folder as CURATE_LOGS and that of "
            "the store as CURATE_STORE (docs/operating.md), and deploy again"
        )
    return {}


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
    from tasks.providers import Providers
    from tasks.runtime.prices import check_prices, load_prices

    providers = Providers(settings.providers)
    chosen = [providers[capability] for capability in settings.providers]
    prices = load_prices(settings.prices)
    if settings.budget_usd is not None:
        check_prices(prices, chosen)
    asked = settings.evaluate.models or settings.evaluate.judge  # `to_ask` checks these
    if (
        settings.batch
        and not asked
        and not any(hasattr(getattr(provider, "model", None), "together") for provider in chosen)
    ):
        raise BadInput("--batch: no chosen provider supports batches; give --provider categories=openai or =gemini")


def _check_task_runner(settings: Settings) -> None:
    """Checks that the chosen task runner is installed, and that its address can be reached if one is given."""
    address = settings.task_runner_address
    if settings.task_runner == THREADS:
        if address is not None:
            raise BadInput(f"--task-runner-address {address!r}: threads have none; add --task-runner dask or ray")
        return
    if find_spec(f"prefect_{settings.task_runner}") is None:
        raise BadInput(
            f"--task-runner {settings.task_runner}: it is not installed; install arena-curation[scale]: "
            '.venv/bin/uv pip install -c constraints.txt -e ".[scale]"'
        )
    if address is not None:
        _check_address(address)


def _check_address(address: str) -> None:
    place = urlsplit(address if "://" in address else f"tcp://{address}")
    try:
        socket.create_connection((place.hostname or "", place.port or 0), timeout=SECONDS_TO_ANSWER).close()
    except (OSError, ValueError) as error:
        raise BadInput(
            f"--task-runner-address {address!r} cannot be reached ({error}); give that of a Dask scheduler, as "
            "tcp://HOST:8786, or of a Ray cluster, as ray://HOST:10001, or none for a cluster on this machine"
        ) from None
