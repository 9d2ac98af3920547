"""All planted problems. A new kind needs a planter, a line in its module, and a check in `planted.py`."""

from tasks.demo.problems import images, lines, messages
from tasks.demo.problems.plan import Planter

PLANTERS: dict[str, Planter] = {
    **messages.OF_MESSAGES,
    **images.IMAGE_PLANTERS,
    **lines.LINE_PLANTERS,
    **messages.OF_VOTES,
}
"""Kind -> function that plants it."""
