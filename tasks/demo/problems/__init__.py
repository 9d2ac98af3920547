"""All planted problems. A new kind needs a planter, a line in its module, and a check in `planted.py`."""

from tasks.demo.problems import copies, lines, messages, sessions, uploads
from tasks.demo.problems.plan import Planter

PLANTERS: dict[str, Planter] = {
    **messages.PLANTERS,
    **uploads.PLANTERS,
    **copies.PLANTERS,
    **lines.PLANTERS,
    **sessions.PLANTERS,
}
"""Kind -> function that plants it."""
