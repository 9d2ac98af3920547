"""Disturbs by a seed: `python -m tests.chaos commands STORE`, or the nights of a deployment, `… nights FOLDER`."""

import argparse

from tests.chaos import commands, nights

PARTS = {"commands": commands, "nights": nights}


def main() -> int:
    """0 when nothing was lost, and 1 otherwise; each part says what it disturbs and looks at."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parts = parser.add_subparsers(dest="part", required=True)
    for name, part in PARTS.items():
        part.add_options(parts.add_parser(name, help=(part.__doc__ or "").partition("\n")[0]))
    options = parser.parse_args()
    return PARTS[options.part].run(options)


raise SystemExit(main())
