"""All planted problems. A new kind needs a planter, a line in its module, and a check in `planted.py`."""

from tasks.demo.problems import images, lines, messages, votes
from tasks.demo.problems.plan import Planter

PLANTERS: dict[str, Planter] = {**messages.PLANTERS, **images.PLANTERS, **lines.PLANTERS, **votes.PLANTERS}
"""Kind -> function that plants it."""
