"""Raw records as FastChat's `serve/` writes them, in the shapes of all three eras."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from tasks.demo.models import Model
from tasks.demo.timeline import Era

BUCKET = "https://pictures.example.org/serve_images"
"""Early servers sometimes logged a bucket address in place of a name."""


class Turn(NamedTuple):
    """A user message and its answer."""

    prompt: str
    answer: str | None


@dataclass(frozen=True)
class Talk:
    """One conversation with one model, as the server holds it."""

    conv_id: str
    model: Model
    turns: tuple[Turn, ...]
    picture: str | None = None
    """Logged name: 32 hex digits, or something hostile."""
    flagged: bool = False
    """Whether the server's scan flagged the picture as child abuse."""
    examples: tuple[str, ...] = ()
    """Few-shot messages of the template, before the user's first."""


def new_conv_id(rng: Random) -> str:
    """32 hex digits, like a uuid4 without dashes."""
    return f"{rng.getrandbits(128):032x}"


def state(talk: Talk, era: Era, turn_count: int | None = None) -> dict[str, Any]:
    """The conversation state after `turn_count` turns, by default after all."""
    user, assistant = talk.model.roles
    messages: list[list[Any]] = [[(user, assistant)[index % 2], text] for index, text in enumerate(talk.examples)]
    for index, turn in enumerate(talk.turns[:turn_count]):
        with_picture = talk.picture is not None and index == 0 and era is not Era.TEXT
        messages.append([user, [turn.prompt, [talk.picture]] if with_picture else turn.prompt])
        messages.append([assistant, turn.answer])
    content: dict[str, Any] = {
        "template_name": talk.model.name.partition("-")[0],
        "system_message": "",
        "roles": talk.model.roles,
        "messages": messages,
        "offset": len(talk.examples),
        "conv_id": talk.conv_id,
        "model_name": talk.model.name,
    }
    if era is Era.PNG and talk.picture is not None:
        content["has_csam_image"] = talk.flagged
    return content


def chat(talk: Talk, era: Era, turn_count: int, start: float, finish: float, address: str) -> dict[str, Any]:
    """The line that follows a model's turn."""
    record: dict[str, Any] = {
        "tstamp": round(finish, 4),
        "type": "chat",
        "model": talk.model.name,
        "gen_params": {"temperature": 0.7, "top_p": 0.7, "max_new_tokens": 1024},
        "start": round(start, 4),
        "finish": round(finish, 4),
        "state": state(talk, era, turn_count),
        "ip": address,
    }
    if era is Era.TEXT and talk.picture is not None:
        by_address = talk.conv_id[0] == "0"
        record["images"] = [f"{BUCKET}/{talk.picture}.jpg" if by_address else talk.picture]
    return record


def feedback(kind: str, talk: Talk, era: Era, at: float, address: str) -> dict[str, Any]:
    """The line of a button in direct chat: upvote, downvote or flag."""
    return {
        "tstamp": round(at, 4),
        "type": kind,
        "model": talk.model.name,
        "state": state(talk, era),
        "ip": address,
    }


def vote(kind: str, talks: Sequence[Talk], shown: Sequence[str], era: Era, at: float, address: str) -> dict[str, Any]:
    """The line of a vote between two conversations; `shown` are the names as the page showed them."""
    return {
        "tstamp": round(at, 4),
        "type": kind,
        "models": list(shown),
        "states": [state(talk, era) for talk in talks],
        "ip": address,
    }
