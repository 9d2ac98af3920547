"""Everything that is planted. A new kind is a planter, a line in its module, and a check in `checks.py`."""

from tasks.demo.problems import copies, flagged, lines, messages, presets, sessions, uploads, votes
from tasks.demo.problems.plan import Planter

PLANTERS: dict[str, Planter] = {
    **messages.PLANTERS,
    **uploads.PLANTERS,
    **copies.PLANTERS,
    **presets.PLANTERS,
    **flagged.PLANTERS,
    **lines.PLANTERS,
    **votes.PLANTERS,
    **sessions.PLANTERS,
}
"""Kind -> what plants it."""
