"""Everything that is planted. A new kind is a planter, a line in its module, and an expectation in `planted.py`."""

from tasks.demo.problems import copies, lines, messages, sessions, uploads
from tasks.demo.problems.plan import Planter

PLANTERS: dict[str, Planter] = {
    **messages.PLANTERS,
    **uploads.PLANTERS,
    **copies.PLANTERS,
    **lines.PLANTERS,
    **sessions.PLANTERS,
}
"""Kind -> what plants it."""
