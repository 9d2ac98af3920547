"""`curate ingest`: logs or a published dataset to tables."""

from collections.abc import Callable

from flows.before_work import check_before_work
from flows.commands.engine import run_flow
from flows.commands.options import (
    FormatOption,
    ImagesOption,
    KnownHashesOption,
    LogsOption,
    PresetsOption,
    ProviderOption,
    SinceOption,
    StoreOption,
    TaskRunnerAddressOption,
    TaskRunnerOption,
    UntilOption,
    WorkersOption,
    settings_of,
)
from flows.commands.summary import print_stages
from schemas.run import StageReport
from schemas.settings import Settings


def ingest(
    logs: LogsOption,
    store: StoreOption,
    format: FormatOption = None,
    images: ImagesOption = None,
    presets: PresetsOption = None,
    known_hashes: KnownHashesOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    provider: ProviderOption = None,
    workers: WorkersOption = None,
    task_runner: TaskRunnerOption = None,
    task_runner_address: TaskRunnerAddressOption = None,
) -> None:
    """Logs, or a published dataset, to conversations, battles, pictures and rejects.

    Reads an arena server's own logs (YYYY-MM-DD-conv.json and vision-tmp-…, also .jsonl, .gz, .zst, of several
    servers) and, as Parquet, a `datasets` folder or JSON Lines: VisionArena-Chat and -Battle, WildVision,
    arena-human-preference, lmsys-chat-1m, OpenAI-style messages. What was read before is not read again.
    """
    settings = settings_of(**locals())
    check_before_work(settings)
    print_stages(run_flow(_flow, settings))


def _flow() -> Callable[[Settings], list[StageReport]]:
    from flows.ingest import ingest as flow

    return flow
