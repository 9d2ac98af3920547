"""The Hub, asked patiently: passing faults are retried, others become one clear line that never holds the token."""

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx2
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils.tqdm import disable_progress_bars

from schemas.errors import BadInput, HubError, ReleaseConflict

TOKEN_VARIABLE = "HF_TOKEN"  # noqa: S105 - the variable's name
ATTEMPTS = 6
_WAIT_SECONDS_MAX = 60.0
_PASSING = {408, 425, 429, 500, 502, 503, 504}
_LATER = "nothing was lost; run the same command again, and what was uploaded is not uploaded again"
_REFUSED = {
    401: f"{TOKEN_VARIABLE} is expired or wrong; make a new one with write access at huggingface.co/settings/tokens",
    402: "the account's plan does not allow it",
    403: f"{TOKEN_VARIABLE} may not write there; check the organisation and the token's permissions",
    404: "no such repository, or the token may not see it",
    409: "the name is taken",
    412: "somebody else committed meanwhile; run the same command again",
    413: "a file is too large for the Hub",
}

T = TypeVar("T")


def hub_api() -> HfApi:
    """The real client, with the token of the environment and nothing else. Raises BadInput without one."""
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        raise BadInput(f"{TOKEN_VARIABLE} is not set; set it to a token with write access to the repository")
    if not all("!" <= letter <= "~" for letter in token):
        raise BadInput(f"{TOKEN_VARIABLE} holds a space or a letter that no token has; copy the token again")
    return HfApi(endpoint=os.environ.get("HF_ENDPOINT"), token=token)


def quiet_client() -> None:
    """Keep the client's own bars and notices off the terminal; warnings of ours are errors with one line."""
    disable_progress_bars()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)


def patiently(work: Callable[[], T], doing: str, wait: Callable[[float], None] = time.sleep) -> T:
    """Do `work`, which may be done twice, again and again while the Hub or the network is unwell.

    Raises HubError, in one line, when the Hub refuses, or still fails after 6 attempts.
    """
    told = ""
    for attempt in range(ATTEMPTS):
        try:
            return work()
        except (HfHubHTTPError, httpx2.TransportError, OSError, RuntimeError) as error:
            told, seconds = _passing(error, doing)
        if attempt + 1 < ATTEMPTS:
            wait(min(_WAIT_SECONDS_MAX, max(seconds, 2.0**attempt)))
    raise HubError(f"{doing}: {told} {ATTEMPTS} times; {_LATER}")


def _passing(error: BaseException, doing: str) -> tuple[str, float]:
    """(what happened, seconds the Hub asks to wait) of a fault that may pass. Raises HubError for a refusal."""
    if isinstance(error, RuntimeError) and error.__cause__ is not None:
        error = error.__cause__  # the client wraps what goes wrong in its upload threads
    if isinstance(error, OSError) and error.filename is not None:  # of this machine, not of the network
        name = Path(error.filename).name
        raise ReleaseConflict(f"{doing}: {name} cannot be read any more ({error.strerror}); nothing more is published")
    if isinstance(error, (httpx2.TransportError, OSError)) and not isinstance(error, HfHubHTTPError):
        return f"the connection failed ({type(error).__name__})", 0.0
    if not isinstance(error, HfHubHTTPError):
        raise error
    status = error.response.status_code
    if status not in _PASSING:
        raise HubError(f"{doing}: the Hub answered {status}: {_REFUSED.get(status, _first_line(error))}") from None
    retry_after = error.response.headers.get("retry-after", "")
    return f"the Hub answered {status}", float(retry_after) if retry_after.isdecimal() else 0.0


def _first_line(error: Any) -> str:
    text = str(getattr(error, "server_message", None) or error).strip().splitlines() or ["no reason given"]
    return text[0].replace(os.environ.get(TOKEN_VARIABLE) or "\0", "***")[:200]
