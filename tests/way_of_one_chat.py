"""Lists the modules that work on one chat with one image, from its log line to the verified release.

`python -m tests.way_of_one_chat FOLDER` prints a module and how many of its functions ran, one a line. Prefect's
decorators are left out, so that flows call steps as plain functions.
"""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parent.parent
CODE = tuple(f"{ROOT / name}{os.sep}" for name in ("flows", "tasks", "schemas"))
AT_IMPORT = ("<module>", "<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<lambda>")
OF_FUNCTION = 0x1
"""CO_OPTIMIZED: the code of a function, not of a class."""


def executed(work: Callable[[], Any]) -> dict[str, set[str]]:
    """Module -> qualified names of its functions that ran, on all threads, while `work` did."""
    seen: dict[str, set[str]] = {}

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        named = code.co_flags & OF_FUNCTION and code.co_name not in AT_IMPORT
        if event == "call" and named and code.co_filename.startswith(CODE):
            seen.setdefault(code.co_filename.removeprefix(f"{ROOT}{os.sep}"), set()).add(code.co_qualname)

    threading.settrace(note)  # told of calls alone: a profiler is told of returns and of C code, too
    sys.settrace(note)
    try:
        work()
    finally:
        sys.settrace(None)
        threading.settrace(None)
    return seen


def _plain_prefect() -> None:
    """Steps and flows are the functions that they are made of."""
    import prefect

    prefect.task = lambda **_: lambda step: step  # type: ignore[assignment]
    from flows.running.checked_flow import CheckedFlow

    CheckedFlow.__call__ = lambda self, *arguments: self.fn(*arguments)  # type: ignore[method-assign]


def release_one_chat(folder: Path) -> list[str]:
    """Ingest, measure, decide, release and verify one chat with one image. Returns what `verify` found."""
    from flows.products import problems_of
    from flows.release import release
    from flows.stages import decide, decide_described, describe, ingest, screen
    from schemas.settings import Settings

    settings = Settings(logs=str(folder / "logs"), store=str(folder / "store"), workers=1)
    for stage in (ingest, screen, decide, describe, decide_described):
        stage(settings)
    made = release(settings)[-1]
    return problems_of(folder / "store" / str(made.result))


def _write_log(folder: Path) -> None:
    from tests.builders import image_bytes
    from tests.tasks.ingest.logs import DAY, chat, image_name, write

    name = image_name("p")
    write(folder / "logs", DAY, chat("a", images=[name]))
    (folder / "logs" / "serve_images").mkdir()
    (folder / "logs" / "serve_images" / f"{name}.png").write_bytes(image_bytes(1, (64, 64)))


if __name__ == "__main__":
    _plain_prefect()
    place = Path(sys.argv[1])
    _write_log(place)
    problems: list[str] = []
    modules = executed(lambda: problems.extend(release_one_chat(place)))
    if problems:
        sys.exit("\n".join(problems))
    sys.stdout.write("".join(f"{module} {len(functions)}\n" for module, functions in sorted(modules.items())))
