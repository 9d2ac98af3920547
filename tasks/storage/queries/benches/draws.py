"""The old place of names that moved."""

from tasks.bench.drawn_prompts import *  # noqa: F403
