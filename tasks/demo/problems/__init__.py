"""All planted problems. A new kind needs a planter, a line in its module, and a check in `planted.py`."""

from tasks.demo.problems import failures, images, lines, messages, rigging
from tasks.demo.problems.plan import Planter

PLANTERS: dict[str, Planter] = {
    **messages.PLANTERS,
    **images.PLANTERS,
    **lines.PLANTERS,
    **failures.PLANTERS,
    **rigging.PLANTERS,
}
"""Kind -> function that plants it."""
