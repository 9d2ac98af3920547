"""The web server's own text log, which stands beside the conversation logs and must be ignored."""

from datetime import timedelta
from pathlib import Path
from random import Random

from tasks.demo.people import Crowd
from tasks.demo.timeline import LogDay

NAME = "gradio_web_server.log"
_ACTIONS = (
    "load_demo",
    "add_text",
    "bot_response",
    "regenerate",
    "clear_history",
    "leftvote (anony)",
    "vote_last_response",
)


def write_server_log(logs: Path, days: list[LogDay], crowd: Crowd, rng: Random, lines_a_day: int = 20) -> None:
    """Some lines of every day."""
    with (logs / NAME).open("w", encoding="utf-8") as stream:
        for day in days:
            for number in range(lines_a_day):
                clock = timedelta(seconds=6 * 3600 + number * 3000 + rng.randint(0, 2999))
                action, person = rng.choice(_ACTIONS), crowd.anybody(rng)
                stream.write(f"{day.date} {clock!s:0>8} | INFO | gradio_web_server | {action}. ip: {person.address}\n")
