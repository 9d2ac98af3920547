"""The model that writes captions and references; without Prefect, for the check before a run."""

from pathlib import Path

from schemas.asked_model import AskedModel
from schemas.errors import BadInput
from schemas.settings import Settings
from tasks.evaluate.sources import EMBEDDED_JUDGE, check_keys, check_own, read_models
from tasks.providers.chat import chat_model
from tasks.runtime.prices import check_prices, load_prices


def writer_of(settings: Settings) -> AskedModel | None:
    """The model that writes; None for the stand-in. Raises CurateError when it cannot be asked."""
    writer = writer_named(settings.written.writer)
    if writer is None:
        return None
    if settings.written.hidden:
        check_own([writer])
    check_keys([writer])
    if settings.budget_usd is not None:
        check_prices(load_prices(settings.prices), [chat_model(writer)])
    return writer


def writer_named(file: str) -> AskedModel | None:
    """The only entry of a models file; None for the stand-in. Raises BadInput for a file with more entries."""
    if file == EMBEDDED_JUDGE:
        return None
    found = read_models(Path(file))
    if len(found) > 1:
        raise BadInput(f"models file {file!r} names {len(found)} models; give one with one entry")
    return found[0]
