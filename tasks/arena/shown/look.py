"""How a conversation looks on the page: messages of a chat window, hidden names, what may be clicked."""

from typing import Any

from schemas.conversation import RecordType
from tasks.arena.conversations import Conversation, Mode, Side
from tasks.arena.shown.markdown import harmless
from tasks.arena.shown.names import names_of, without_names

NO_ANSWER = "*No answer came from this model. Regenerate, or start a new round.*"
WAITING = "…"
LETTERS = ("A", "B")
SAID = {
    RecordType.LEFT_VOTE: "A is better",
    RecordType.RIGHT_VOTE: "B is better",
    RecordType.TIE_VOTE: "tie",
    RecordType.BOTH_BAD_VOTE: "both are bad",
    RecordType.UPVOTE: "good answer",
    RecordType.DOWNVOTE: "bad answer",
    RecordType.FLAG: "flagged",
}


def chat_messages(conversation: Conversation, side: Side) -> list[dict[str, Any]]:
    """What a side's window shows, in Gradio's form: Markdown without HTML of the prompts or the answers."""
    names = names_of([] if conversation.named else [each.model for each in conversation.sides])
    shown: list[dict[str, Any]] = []
    for number, prompt in enumerate(conversation.prompts):
        images = "".join(f'<img src="pictures/{each.token}.png" alt="image">' for each in prompt.pictures)
        shown += [{"role": "user", "content": images}] if images else []
        shown += [{"role": "user", "content": harmless(prompt.text)}] if prompt.text else []
        if number < len(side.answers):
            answer = side.answers[number]
            text = NO_ANSWER if answer.failed else harmless(without_names(answer.text, names, answer.done)) or WAITING
            shown.append({"role": "assistant", "content": text})
    return shown


def label(conversation: Conversation | None, mode: Mode, place: int, chosen: str = "") -> str:
    """The heading of a side's window."""
    if conversation is not None and conversation.named:
        name = conversation.sides[place].model.name
    else:
        name = "" if mode is Mode.BATTLE else chosen
    letter = "Model" if mode is Mode.DIRECT else f"Model {LETTERS[place]}"
    return f"{letter}: {name}" if name else letter


def status(conversation: Conversation | None) -> str:
    """One line below the windows."""
    if conversation is None:
        return ""
    if conversation.forgotten and not any(side.logged for side in conversation.sides):
        return "Nothing of this conversation was kept. It has ended."
    if conversation.forgotten:
        return "The operators were asked to remove this conversation. It has ended."
    cast = conversation.voted.get(("vote", *conversation.state))
    said = [f"You voted: {SAID[cast]}."] if cast else []
    if conversation.mode is Mode.BATTLE and conversation.revealed:
        names = " · ".join(
            f"{letter} is {side.model.name}" for letter, side in zip(LETTERS, conversation.sides, strict=True)
        )
        said.append(f"{names}. Start a new round for other models.")
    if conversation.voted.get(("share", *conversation.state)):
        said.append("The operators may show this conversation to others.")
    return " ".join(said)
