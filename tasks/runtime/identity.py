"""Whether a text asks which model answers: one pattern, for votes and for tags."""

from pathlib import Path

from tasks.runtime.untrusted import read_yaml

ASKS_IDENTITY = "|".join(read_yaml(Path(__file__).with_name("asks_identity.yaml"))["asks_identity"])
"""A regular expression without look-around, to be matched without regard to case."""
