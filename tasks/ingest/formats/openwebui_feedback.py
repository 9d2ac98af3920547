"""Adapter of Open WebUI's feedback export: people's ratings of answers, each with a snapshot of its chat.

In: a feedback row. Out: a vote record where the rated answer has another model's answer beside it, else a record of a
reaction to one answer. Shapes are those of the writer: `feedbackHandler` in src/lib/components/chat/Messages/
ResponseMessage.svelte at d79ba4a and `FeedbackModel` in backend/open_webui/models/feedbacks.py at 033ac2e, both of
github.com/open-webui/open-webui. That a rating of -1 lost against its siblings is how their own board counts it.

A chat is a tree of messages. A talk is one way through it: from the first message to the rated answer, and on while
nothing branches and the same model answers. So all ratings along a talk are of one conversation.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from schemas.items.reject import LineRejected, RejectReason
from tasks.ingest.formats.adapter import ColumnKind, FormatAdapter, battle, chat, pictures
from tasks.ingest.formats.openwebui_blocks import answer_content, answering_model
from tasks.ingest.formats.parts import ASSISTANT, PICTURE, TEXT, THINKING_PART, USER, beside_content, parts_of
from tasks.ingest.formats.pictures import SourceRow, as_list
from tasks.ingest.formats.trees import present_nodes
from tasks.ingest.log_line import Place, Record
from tasks.storage.content_id import text_id

_RATINGS = {1: True, -1: False}
"""Value of a rating, also as 1.0 in a table with nulls -> whether the answer is liked."""
_KINDS_READ = (TEXT, THINKING_PART, PICTURE)
_NO_WORD = re.compile(r"[^a-z0-9]+")
_REASON_CHARACTERS_MAX = 40


class _Talk(NamedTuple):
    """One way through a chat."""

    key: str
    """Id of the place where it branched off last: the same for all ratings along it."""
    model: str
    messages: list[SourceRow]
    turn: int
    """Number of the user's message that the rated answer, or the one beside it, is to; from 1."""


class _Tree:
    """Messages of a chat by their ids. Raises KeyError and the like for a snapshot of another shape."""

    def __init__(self, row: SourceRow) -> None:
        snapshot = row["snapshot"]
        if snapshot is None:
            raise LineRejected(RejectReason.BAD_STATE, "no snapshot of the chat")
        self._chat = snapshot["chat"]
        self.messages = present_nodes(self._chat["chat"]["history"]["messages"])
        self.chat_id = str(row["meta"].get("chat_id") or self._chat.get("id") or row["id"])

    def siblings(self, message_id: str) -> list[str]:
        """The messages that follow the same message as this one, which is among them, in their order."""
        parent_id = self.messages[message_id].get("parentId")
        return [message_id] if parent_id is None else self._children(parent_id)

    def _children(self, message_id: str) -> list[str]:
        return [child for child in self.messages[message_id].get("childrenIds") or [] if child in self.messages]

    def talk(self, answer_id: str) -> _Talk:
        """The talk through an answer. Raises LineRejected where an earlier answer is another model's."""
        way = self._way_to(answer_id)
        model = answering_model(self.messages[answer_id])
        for message_id in way:
            message = self.messages[message_id]
            if message["role"] == ASSISTANT and answering_model(message) != model:
                raise LineRejected(RejectReason.BAD_MESSAGES, "answers of several models in one talk")
        branches = [message_id for message_id in way if len(self.siblings(message_id)) > 1]
        key = text_id(f"{self.chat_id}:{branches[-1] if branches else way[0]}")
        turn = sum(self.messages[message_id]["role"] == USER for message_id in way)  # of the way to the answer alone
        way += self._continued(answer_id, model)
        return _Talk(key, model, [_message(self.messages[message_id]) for message_id in way], turn)

    def _way_to(self, answer_id: str) -> list[str]:
        """Ids of the messages from the first one to this."""
        way: dict[str, None] = {}
        message_id: str | None = answer_id
        while message_id is not None:
            if message_id in way:
                raise LineRejected(RejectReason.BAD_MESSAGES, "a message is its own parent")
            way[message_id] = None
            message_id = self.messages[message_id].get("parentId")
        return [*reversed(way)]

    def _continued(self, answer_id: str, model: str) -> Iterator[str]:
        """Ids of the messages after an answer, a question and its answer at a time."""
        answer_ids = {answer_id}
        while True:
            questions = self._children(answer_id)
            answers = self._children(questions[0]) if len(questions) == 1 else []
            if len(answers) != 1 or answers[0] in answer_ids or answering_model(self.messages[answers[0]]) != model:
                return
            yield from (questions[0], answers[0])
            answer_id = answers[0]
            answer_ids.add(answer_id)


def _message(message: SourceRow) -> SourceRow:
    """A message of a chat with its parts. Raises LineRejected for a part that cannot be read."""
    content = message["content"]
    if message["role"] == ASSISTANT and isinstance(content, str):
        content = answer_content(content)
        if isinstance(content, list) and any(part["type"] == "tool_call" for part in content):
            raise LineRejected(RejectReason.PART_NOT_READ, "a tool or a program that ran within the answer")
    images: list[SourceRow] = []
    for file in message.get("files") or []:
        if file.get("type") != "image":
            raise LineRejected(RejectReason.PART_NOT_READ, "a file of a message that is no image")
        images.append({"type": "image_url", "image_url": {"url": file["url"]}})
    beside = beside_content(message)
    beside.pop("files", None)
    if images:
        beside["images"] = [*as_list(beside.get("images")), *images]
    read_message = beside | {"role": message["role"], "content": content}
    if any(part.kind not in _KINDS_READ for part in parts_of(read_message)):
        raise LineRejected(RejectReason.PART_NOT_READ, "a part of a message that is neither text nor image")
    return read_message


def _rated(row: SourceRow, place: Place) -> list[SourceRow]:
    """One row, as `chat` or, with a `winner`, as `battle` reads it, and with `opinions`, one for each talk.

    The feedback with the talk through the rated answer, and as a battle where another model answered beside it.

    Raises LineRejected for a feedback that is no rating of an answer in its snapshot.
    """
    if row["type"] != "rating":
        raise LineRejected(RejectReason.UNKNOWN_TYPE, "a feedback that is no rating")
    feedback = row["data"]
    rating = None if feedback.get("rating") is None else float(feedback["rating"])
    if rating is not None and rating not in _RATINGS:
        raise LineRejected(RejectReason.BAD_REACTION, "a rating that is neither 1 nor -1")
    liked = None if rating is None else _RATINGS[int(rating)]
    tree = _Tree(row)
    answer_id = row["meta"]["message_id"]
    if answer_id not in tree.messages:
        raise LineRejected(RejectReason.BAD_REACTION, "the snapshot lacks the rated answer")
    talk = tree.talk(answer_id)
    if feedback.get("model_id") not in (None, talk.model):
        raise LineRejected(RejectReason.MODEL_MISMATCH, "model_id is not the model of the rated answer")
    tags = feedback.get("tags") or row["meta"].get("tags")
    opinion = {
        "turn": talk.turn,
        "liked": liked,
        "reasons": _reasons(feedback.get("reason"), liked),
        "comment": feedback.get("comment"),
        "categories": tags,
    }
    stamped = {**row, "tstamp": row.get("updated_at") or row.get("created_at")}
    other_id = None if liked is None else _beside(tree, answer_id, talk.model, feedback.get("sibling_model_ids") or [])
    if other_id is None:
        as_chat = {"model": talk.model, "conversation": talk.messages, "conversation_id": talk.key}
        return [{**stamped, **as_chat, "opinions": [opinion]}]
    other_talk = tree.talk(other_id)
    other_opinion = {"turn": other_talk.turn, "categories": tags}
    # The answer that the page shows first is the left side.
    is_left = tree.siblings(answer_id).index(answer_id) < tree.siblings(answer_id).index(other_id)
    left_talk, right_talk = (talk, other_talk) if is_left else (other_talk, talk)
    battle_columns = {
        "question_id": left_talk.key,
        "model_a": left_talk.model,
        "model_b": right_talk.model,
        "conversation_a": left_talk.messages,
        "conversation_b": right_talk.messages,
        "winner": "model_a" if liked == is_left else "model_b",
        "anony": row["meta"].get("arena") is True,
        "key_b": right_talk.key,
    }
    opinions = [opinion, other_opinion] if is_left else [other_opinion, opinion]
    return [{**stamped, **battle_columns, "opinions": opinions}]


def _beside(tree: _Tree, answer_id: str, model: str, sibling_models: Sequence[str]) -> str | None:
    """The first answer of another model that the rated one was compared with; None where there was none."""
    other_models = [name for name in sibling_models if name != model]
    for sibling_id in tree.siblings(answer_id):
        message = tree.messages[sibling_id]
        if sibling_id != answer_id and answering_model(message) in other_models and message["content"]:
            return sibling_id
    if other_models:
        raise LineRejected(RejectReason.BAD_REACTION, "the snapshot lacks the answers that it was compared with")
    return None


def _reasons(reason: Any, liked: bool | None) -> list[str]:
    """The reason as a word with the sign of the rating, if there is one; a text without Latin letters is other."""
    if not reason:
        return []
    word = _NO_WORD.sub("_", str(reason).lower()).strip("_")[: _REASON_CHARACTERS_MAX - 1]
    word = word if word[:1].isalpha() else "other"
    sign = "" if liked is None else "+" if liked else "-"
    return [f"{word}{sign}"]


def _record(rated: SourceRow, place: Place) -> Record:
    if "winner" in rated:
        record = battle(rated, place)
        record["states"][1]["conv_id"] = rated["key_b"]
        return {**record, "reason": None, "opinions": rated["opinions"]}
    return {**chat(rated, place), "opinions": rated["opinions"]}


def _images(rated: SourceRow) -> Sequence[SourceRow]:
    if "winner" in rated:
        return pictures(rated, "conversation_a", "conversation_b")
    return pictures(rated, "conversation")


OPENWEBUI_FEEDBACK = FormatAdapter(
    "openwebui-feedback",
    frozenset({"id", "user_id", "type", "data", "meta", "snapshot"}),
    _record,
    _images,
    ("type", "data", "meta", "snapshot"),
    unpacked=_rated,
    # It has other ways through the chat, too; the parts of those that are read are counted.
    other_columns=frozenset({"snapshot"}),
    kinds=dict.fromkeys(("data", "meta", "snapshot"), frozenset({ColumnKind.OBJECT})),
    about="feedback exported from Open WebUI: rated answers, and battles where another model answered beside",
)
