"""The model that writes captions and references; without Prefect, for the check before a run."""

from pathlib import Path

from schemas.asked_model import AskedModel
from schemas.errors import BadInput
from schemas.settings import Settings
from tasks.evaluate.files.models_file import check_keys, check_own, read_models
from tasks.evaluate.sources import EMBEDDED
from tasks.providers.chat import chat_model
from tasks.runtime.prices import check_prices, load_prices


def writer_of(settings: Settings) -> AskedModel | None:
    """The model that writes; None for the stand-in. Raises CurateError when it cannot be asked."""
    if settings.written.writer == EMBEDDED:
        return None
    found = read_models(Path(settings.written.writer))
    if len(found) > 1:
        raise BadInput(f"models file {settings.written.writer!r} names {len(found)} models; give one with one entry")
    if settings.written.hidden:
        check_own(found)
    check_keys(found)
    if settings.budget_usd is not None:
        check_prices(load_prices(settings.prices), [chat_model(found[0])])
    return found[0]
