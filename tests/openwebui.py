"""Feedback rows as Open WebUI exports them, drawn by rule with a seed; all names and texts are invented.

`feedbacks(seed)` are rows of `FeedbackModel` as `feedbackHandler` of ResponseMessage.svelte at d79ba4a fills it: of
each kind one: a rated answer alone, one beside another model's, one among three, and one that was made again. Each
value that may be null is null once.
"""

import random
from typing import Any
from uuid import UUID

Row = dict[str, Any]
MODELS = ("heron-2", "wren-1", "kite-9b")
KINDS = ("alone", "beside", "arena", "three", "again", "second turn")
NULLABLE = ("reason", "comment", "tags", "sibling_model_ids")
NOW = 1_767_600_000


def feedbacks(seed: int = 7, count: int = 18) -> list[Row]:
    """Rows of all kinds in turn."""
    rng = random.Random(seed)
    return [feedback(rng, number, KINDS[number % len(KINDS)]) for number in range(count)]


def feedback(rng: random.Random, number: int, kind: str, **data: Any) -> Row:
    """A row of one kind; `data` changes what was rated."""
    models = rng.sample(MODELS, 3)
    answering = {"beside": models[:2], "arena": models[:2], "three": models, "again": [models[0]] * 2}
    answers = answering.get(kind, models[:1])
    ids = [str(UUID(int=rng.getrandbits(128), version=4)) for _ in range(9)]
    messages: dict[str, Row] = {}
    asked = f"Question {number}: what does a {rng.choice(('finch', 'plover', 'smew'))} sing in the rain?"
    _put(messages, ids[0], None, "user", asked, number)
    answer_ids = []
    for place, model in enumerate(answers, 1):
        text = f"Answer {place} {number}: a short song."
        _put(messages, ids[place], ids[0], "assistant", text, number, model, kind == "arena")
        answer_ids.append(ids[place])
    rated_id = rng.choice(answer_ids)
    if kind == "second turn":
        _put(messages, ids[4], rated_id, "user", f"Question {number}b: and at night?", number)
        _put(messages, ids[5], ids[4], "assistant", f"Answer {number}b: nothing.", number, answers[0])
        rated_id = ids[5]
    rated = messages[rated_id]
    siblings = [messages[each] for each in messages[rated["parentId"]]["childrenIds"] if each != rated_id]
    rating = rng.choice((1, -1))
    chat_id = ids[7]
    about = {
        "rating": rating,
        "reason": "accurate_information" if rating == 1 else "not_factually_correct",
        "comment": f"Words {number}.",
        "tags": ["Birds"],
        "model_id": _model(rated),
        **({"sibling_model_ids": [_model(each) for each in siblings]} if siblings else {}),
    }
    if number < len(NULLABLE) and NULLABLE[number] in about and (NULLABLE[number] != "sibling_model_ids"):
        about[NULLABLE[number]] = None
    tree = {"history": {"currentId": rated_id, "messages": messages}, "models": answers, "title": "A chat"}
    return {
        "id": ids[8],
        "user_id": f"user-{number % 3}-of-this-server",
        "version": 0,
        "type": "rating",
        "data": about | data,
        "meta": {
            "arena": True if kind == "arena" else None if number == 0 else False,
            "model_id": rated["model"],
            "message_id": rated_id,
            "message_index": 2,
            "chat_id": chat_id,
            "base_models": {},
        },
        "snapshot": {"chat": {"id": chat_id, "user_id": "someone", "title": "A chat", "chat": tree}},
        "created_at": NOW + 60 * number,
        "updated_at": NOW + 60 * number + 5,
    }


def _model(message: Row) -> str:
    return message.get("selectedModelId") or message["model"]


def _put(
    messages: dict[str, Row],
    message_id: str,
    parent_id: str | None,
    role: str,
    content: str,
    number: int,
    model: str = "",
    of_arena: bool = False,
) -> None:
    """Add a message to a chat."""
    message: Row = {"id": message_id, "parentId": parent_id, "childrenIds": [], "role": role, "content": content}
    message["timestamp"] = NOW + 60 * number
    if role == "assistant":
        message |= {"model": "arena-model", "selectedModelId": model, "arena": True} if of_arena else {"model": model}
        message |= {"done": True, "modelIdx": 0}
    messages[message_id] = message
    if parent_id is not None:
        messages[parent_id]["childrenIds"].append(message_id)
