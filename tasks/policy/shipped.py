"""The policies that ship with the install, in `policies/`."""

from pathlib import Path

SHIPPED = {file.stem: file for file in sorted((Path(__file__).parent / "policies").glob("*.yaml"))}
"""Name -> its file."""
