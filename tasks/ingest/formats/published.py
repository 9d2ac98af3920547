"""Adapters of published datasets and of items that people wrote for a benchmark.

The datasets: VisionArena, WildVision, lmsys-chat-1m and the arena's human preference releases.

In a chat dataset a row is one conversation, in a battle dataset one vote on two. Rows with `messages` of
{role, content} or `conversations` of {from, value} have their pictures in the messages, or in `images` beside them;
requests and answers of APIs become such rows (`_requests`). Optional are `id`, `model`, `user`, `choices` with the
answer, and a time in `created`, `created_at` or `timestamp`. Images at other addresses are not fetched: their rows keep
the text and a missing image. An item, of `curate bench collect`, becomes a conversation without an answer; one with a
problem, or whose captions are unlike its images in number, is rejected.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson

from schemas.benches.written import AUTHOR
from schemas.items.reject import LineRejected, RejectReason
from tasks.ingest.formats.adapter import ColumnKind, FormatAdapter, battle, chat, is_stated, pictures
from tasks.ingest.formats.beside_votes import with_facts_of_vote
from tasks.ingest.formats.parts import ASSISTANT, TEXT, beside_content, content_in, messages_of, parts_of, role_of
from tasks.ingest.formats.pictures import SourceRow
from tasks.ingest.log_line import Place, Record
from tasks.runtime.json_rows import loads
from tasks.storage.content_id import text_id

_CHAT = {"model", "conversation"}
_BATTLE = {"model_a", "model_b", "winner", "conversation_a", "conversation_b"}
_PICTURED = ("images", "image")
"""Columns that hold pictures beside the messages."""


_LISTS = frozenset({ColumnKind.LIST})


def _chats(name: str, id_column: str, *columns: str, about: str, lacks: tuple[str, ...] = ("votes",)) -> FormatAdapter:
    def record(row: SourceRow, place: Place) -> Record:
        return chat(row, place, id_column=id_column)

    def images(row: SourceRow) -> Sequence[SourceRow]:
        return pictures(row, "conversation")

    return FormatAdapter(
        name,
        frozenset({id_column, *columns, *_CHAT}),
        record,
        images,
        ("conversation", *_PICTURED),
        kinds={"conversation": _LISTS},
        about=about,
        lacks=lacks,
    )


def _pictures_of_battle(row: SourceRow) -> Sequence[SourceRow]:
    return pictures(row, "conversation_a", "conversation_b")


def _battles(name: str, *columns: str, about: str, lacks: tuple[str, ...] = ()) -> FormatAdapter:
    def record(row: SourceRow, place: Place) -> Record:
        vote = battle(row, place, id_column="question_id" if "question_id" in row else "id")
        return with_facts_of_vote(vote, row)

    return FormatAdapter(
        name,
        frozenset({*columns, *_BATTLE}),
        record,
        _pictures_of_battle,
        ("conversation_a", "conversation_b", *_PICTURED),
        other_columns=frozenset({"full_conversation"}),
        kinds={"conversation_a": _LISTS, "conversation_b": _LISTS},
        about=about,
        lacks=lacks,
    )


PUBLISHED_FORMATS = (
    _chats("vision-arena-chat", "conversation_id", "images", about="VisionArena-Chat, and our own chat releases"),
    _battles("vision-arena-battle", "question_id", "images", about="VisionArena-Battle, and our own battle releases"),
    _chats("wildvision-chat", "question_id", "image", about="WildVision's chats", lacks=("votes", "users", "times")),
    _battles("wildvision-battle", "question_id", "image", about="WildVision's battles"),
    _battles("human-preference", about="arena-human-preference-100k and -140k, chatbot_arena_conversations"),
    _chats(
        "lmsys-chat",
        "conversation_id",
        about="lmsys-chat-1m, WildChat (650k)",
        lacks=("votes", "images", "users", "times"),
    ),
)


def _requests(row: SourceRow, place: Place) -> list[SourceRow]:
    """Rows of requests, each answer of which is whole."""
    return [_without_beginning(request) for request in _request_rows(row, place)]


def _request_rows(row: SourceRow, place: Place) -> list[SourceRow]:
    """Rows with `messages`, and the answer in `response` or `choices`, of what APIs of models give and take.

    * a list of stored completions, or their messages as a list, as OpenAI's API gives them;
    * {request, response}, as proxies log them;
    * a line of a batch: {custom_id, params} of Anthropic or {custom_id, body} of OpenAI, and beside it the `result` or
      `response` of the same custom_id. A result alone has no question.

    Of several choices, each is the answer of a conversation of its own.
    """
    messages = row.get("messages")
    if isinstance(messages, Mapping):
        return _of_each_choice({**row, "messages": messages["data"]})
    if messages is not None:
        return _of_each_choice(row)
    if row.get("data") == []:
        raise LineRejected(RejectReason.NO_MESSAGES, "a list of no requests")
    if isinstance(row.get("data"), list):
        return [request for completion in row["data"] for request in _request_rows(completion, place)]
    request = row.get("request") or row.get("params") or row.get("body")
    if not isinstance(request, Mapping):
        if all(row.get(name) is None for name in ("choices", "result", "response")):
            return [row]
        evidence = "an answer without its question; put the request, or its messages, beside it"
        raise LineRejected(RejectReason.BAD_MESSAGES, evidence)
    request_id = text_id(f"{place.source}:{row['custom_id']}") if is_stated(row.get("custom_id")) else row.get("id")
    outcome = row.get("response") or row.get("result") or {}
    # OpenAI's batches have the answer below `body`, Anthropic's below `message`; a call that failed has none.
    answer = outcome.get("body") or outcome.get("message") or outcome if isinstance(outcome, Mapping) else outcome
    facts = {name: row[name] for name in ("user", *_TIMES) if row.get(name) is not None}
    return _of_each_choice({**request, **facts, "id": request_id, "messages": request["messages"], "response": answer})


def _of_each_choice(row: SourceRow) -> list[SourceRow]:
    """The row once for each of its choices: the first with the id of the row, others with their number behind it."""
    response = _parsed_response(row.get("response"))
    if response not in (None, []) and not isinstance(response, str | Mapping):
        raise LineRejected(RejectReason.BAD_MESSAGES, f"the response is a {type(response).__name__}")
    row = {"messages": row["messages"], **row, "response": response}  # in the order in which they are counted
    # the choices stand in the row, or else in its response
    holder = response if isinstance(response, Mapping) and not row.get("choices") else row
    choices = holder.get("choices") or []
    if choices and not isinstance(choices, list):
        raise LineRejected(RejectReason.BAD_MESSAGES, f"the choices are a {type(choices).__name__}")
    if len(choices) < 2:
        return [row]
    rows: list[SourceRow] = []
    for number, choice in enumerate(choices):
        one_choice = {"choices": [choice]}
        answer = one_choice if holder is row else {"response": {**holder, **one_choice}}
        has_own_id = number and is_stated(row.get("id"))
        rows.append({**row, **answer} | ({"id": f"{row['id']}-{number}"} if has_own_id else {}))
    return rows


def _parsed_response(response: Any) -> Any:
    """The response of a row as a text, as an object with choices, or as a message.

    What a server gave as choices may be JSON in a text, as tables of proxies have it. A list of parts, and an object
    that has a content and no role, are a message without its role.
    """
    if isinstance(response, str) and response.lstrip().startswith("{"):
        with suppress(orjson.JSONDecodeError):
            parsed = loads(response)
            return parsed if isinstance(parsed, Mapping) and parsed.get("choices") else response
    if isinstance(response, list) and response:
        return {"role": ASSISTANT, "content": response}
    is_message = isinstance(response, Mapping) and not response.get("choices") and response.get("role") is None
    if is_message and content_in(response) is not None:
        return {**response, "role": ASSISTANT, "content": content_in(response)}
    return response


def _of_messages(column: str) -> FormatAdapter:
    """Rows with one column of messages, as clients log them and trainers read them."""
    name = {"messages": "openai-messages", "conversations": "sharegpt"}[column]
    about = {
        "messages": "requests to OpenAI or Anthropic with their answers, stored completions, batches; data of trainers",
        "conversations": "messages of {from, value}: data of trainers (LLaMA-Factory, LLaVA)",
    }[column]

    def as_chat(row: SourceRow) -> SourceRow:
        return {**row, **_facts_of_answer(row), "conversation": _with_answer(row, column)}

    is_requests = column == "messages"

    def record(row: SourceRow, place: Place) -> Record:
        return chat(as_chat(row), place, id_column="id")

    def images(row: SourceRow) -> Sequence[SourceRow]:
        return pictures(as_chat(row), "conversation")

    return FormatAdapter(
        name,
        frozenset({column}),
        record,
        images,
        (column, *_ANSWERED, *_PICTURED, *(_OF_REQUESTS if is_requests else ())),
        kinds={column: _LISTS | {ColumnKind.OBJECT} if is_requests else _LISTS},
        unpacked=_requests if is_requests else None,
        or_columns=_REQUESTS if is_requests else (),
        about=about,
        lacks=("votes",),
    )


_ANSWERED = ("choices", "response")
_OF_REQUESTS = ("data", "request", "params", "body", "result")
_REQUESTS = tuple(
    map(
        frozenset,
        (
            ("request", "response"), ("custom_id", "params"), ("custom_id", "result"), ("custom_id", "body"),
            ("custom_id", "response"), ("id", "choices"), ("data", "has_more"),
        ),
    )
)  # fmt: skip
"""Columns of requests and answers that have no `messages`. Shapes: OpenAI's reference of chat completions (lists, their
messages, batches), as generated in openai-client-base 0.12.0, docs/ChatCompletionMessageList.md; Anthropic's reference,
platform.claude.com/docs/en/api/retrieving-message-batch-results ({custom_id, result {type, message}})."""


_TIMES = ("tstamp", "timestamp", "created", "created_at")


def _facts_of_answer(row: SourceRow) -> SourceRow:
    """The model of a row, and where it states no time, that of its answer. Some requests have both in the answer alone.

    Azure's requests name their model in the address.
    """
    response = row.get("response")
    facts = response if isinstance(response, Mapping) else {}
    times = {"created": facts.get("created")} if not any(is_stated(row.get(name)) for name in _TIMES) else {}
    models = [model for model in (row.get("model"), facts.get("model")) if is_stated(model)]
    return {"model": models[0] if models else "unknown", **times}


def _with_answer(row: SourceRow, column: str) -> list[Any]:
    """The messages, and what a server answered to them, where a log of requests has it beside.

    That is the first choice (OpenAI), the response itself, which is a message (Anthropic), or its text.
    """
    request_messages = list(messages_of(row[column]))
    answer, is_text = _answer_of(row, column)
    if answer is None:
        return request_messages
    if request_messages and role_of(request_messages[-1]) == ASSISTANT:
        continued = _continued(request_messages[-1], answer)
        # Nobody says whether a text goes on from the last message, or is another answer in place of it.
        if is_text and continued["content"] != answer["content"]:
            raise LineRejected(RejectReason.BAD_MESSAGES, "an answer in the messages and another one in `response`")
        return [*request_messages[:-1], continued]
    return [*request_messages, answer]


def _answer_of(row: SourceRow, column: str) -> tuple[SourceRow | None, bool]:
    """(the answer that stands beside the messages of a row, whether it is a text alone)."""
    response = row.get("response")
    if isinstance(response, str) and is_stated(response) and column == "messages":
        response = {"role": ASSISTANT, "content": response}
    elif not isinstance(response, Mapping):
        response = {}
    choices = row.get("choices") or response.get("choices")
    answer = None
    if isinstance(choices, list) and choices:
        answer = choices[0].get("message")
        # Completions of texts have the words in place of a message.
        words = choices[0].get("text")
        if answer is None and words is not None:
            if not isinstance(words, str):
                raise LineRejected(RejectReason.BAD_MESSAGES, "the text of a completion is none")
            answer = {"role": ASSISTANT, "content": words}
    is_text = answer is None and isinstance(row.get("response"), str)
    if answer is None and response.get("role") is not None and column == "messages":
        answer = beside_content(response) | {name: response[name] for name in ("role", "content") if name in response}
    return answer, is_text


def _without_beginning(row: SourceRow) -> SourceRow:
    """The row without its last message where that is the beginning of the answer, which has all of it: one part."""
    request_messages = list(messages_of(row["messages"]))
    if not request_messages or role_of(request_messages[-1]) != ASSISTANT:
        return row
    answer, _ = _answer_of(row, "messages")
    first_words = _only_text(request_messages[-1])
    words = None if answer is None else _only_text(answer)
    is_repeated = words is not None and first_words is not None and words.startswith(first_words)
    return {**row, "messages": request_messages[:-1]} if is_repeated else row


def _continued(begun: SourceRow, answer: SourceRow) -> SourceRow:
    """The answer to a request whose last message is the beginning of it, which most servers do not repeat.

    Some logs have the answer itself as the last message. That message alone where both are not texts alone.
    """
    first_words, words = _only_text(begun), _only_text(answer)
    if first_words is None or words is None:
        return begun
    return {"role": ASSISTANT, "content": words if words.startswith(first_words) else first_words + words}


def _only_text(message: SourceRow) -> str | None:
    """The text of a message; None where it has parts of other kinds."""
    parts = parts_of(message)
    if any(part.kind != TEXT for part in parts):
        return None
    return "\n".join(part.text or "" for part in parts)


OPENAI_MESSAGES, SHAREGPT = _of_messages("messages"), _of_messages("conversations")


PROBLEMS = (
    "its family is not in the families file",
    "no instruction",
    "no image",
    "captions unlike images in number",
    "an id that an earlier item has",
    "an image path that leads out of the folder",
    "an image file of more than 64 MiB",
)
"""Problems that `curate bench collect` finds in rows that cannot be used."""


def _item(row: SourceRow, place: Place) -> Record:
    if row["problem"]:
        is_known_problem = row["problem"] in PROBLEMS
        raise LineRejected(RejectReason.BAD_ITEM, row["problem"] if is_known_problem else "another problem of its file")
    if not isinstance(row["instruction"], str):
        raise LineRejected(RejectReason.BAD_ITEM, "an instruction that is no text")
    item_pictures = pictures(row)
    if row["captions"] and len(row["captions"]) != len(item_pictures):
        raise LineRejected(RejectReason.BAD_ITEM, PROBLEMS[3])
    messages = [{"role": "user", "content": row["instruction"]}]
    return chat(
        {"model": AUTHOR, "item_id": row["item_id"], "conversation": messages},
        place,
        item_pictures,
        id_column="item_id",
    )


BENCH_ITEMS = FormatAdapter(
    "bench-items",
    frozenset({"item_id", "instruction", "images", "captions", "problem"}),
    _item,
    pictures,
    "images",
    about="items that people wrote, as `curate bench collect` makes them",
    lacks=("votes", "users", "times"),
)
