"""Cost of `curate bench write`, for `curate estimate --writer`."""

from flows.commands.estimate import tokens_in
from flows.commands.options import existing
from schemas.errors import BadInput
from schemas.run import Estimate
from schemas.settings import Settings


def writing_estimates(settings: Settings, writer: str | None) -> list[Estimate] | None:
    """Cost of the captions and references that kept items lack, and of describing their images.

    None where the settings ask for another estimate: without a writer and without hidden items.
    """
    from flows.before_work import writer_named
    from schemas.signals import MeasuredOn
    from tasks.providers import Providers
    from tasks.runtime.budget import load_prices
    from tasks.signals.paid import estimate_images, image_sizes
    from tasks.signals.registry import chosen_signals
    from tasks.written_bench.write import estimate_writing
    from tasks.written_bench.written_items import check_known, item_images

    bench, hidden = settings.evaluate.bench, settings.evaluate.hidden
    if writer is None and not hidden:
        return None
    if writer is None:
        raise BadInput("--hidden belongs to --writer FILE, the model that would write; give both")
    if bench is None:
        raise BadInput("--writer needs --bench NAME, the benchmark that it would write for")
    opened = existing(settings.store)
    check_known(opened, bench)
    model, known_prices, count = writer_named(writer), load_prices(settings.prices), tokens_in()
    providers, sizes = Providers(settings.providers), image_sizes(opened, "images", "redacted_images")
    size_of_image = {image_id: sizes[image_id] for image_id in item_images(opened, bench)}
    objects = [*chosen_signals(providers, MeasuredOn.ITEM_IMAGES, screens=False)]
    return [
        *(estimate_writing(opened, bench, model, hidden, known_prices, count) if model else []),
        *estimate_images(opened, size_of_image, providers, known_prices, count, objects),
    ]


ESTIMATES = writing_estimates
