"""A store with a small drawn benchmark, and a loopback server of chat completions that models files name."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from schemas.benches.bench import BenchItem, HiddenItem
from schemas.benches.judging import Answer
from schemas.settings import Settings
from tasks.storage.tables import Store
from tests.builders import conversation, decision, drawn_image, image, store_with

HIDDEN_PROMPT = "the hidden question"
PUBLIC = 4


def benched(folder: Path, public: int = PUBLIC, answers: dict[str, str] | None = None) -> Store:
    """A store with `public` drawn prompts `q00`, … of two images each, and one hidden prompt.

    `answers`: model -> its text for every public prompt.
    """
    images = [drawn_image(seed) for seed in range(3)]
    shown = [images[n].image_id for n in (2, 0)]
    drawn = [conversation(f"q{n:02d}", f"Prompt {n}?", "Old answer.", image_ids=shown) for n in range(public)]
    secret = conversation("secret", HIDDEN_PROMPT, "Old answer.", image_ids=[images[1].image_id])
    hidden = HiddenItem(
        document_id=secret.document_id, topic=0, first_month="2024-09", last_month="2024-11", drawn=True
    )
    said = [
        Answer(
            question_id=each.conversation_id,
            model=model,
            state="complete",
            text=text,
            version="file+1",
            tokens=3,
            document_id=each.document_id,
        )
        for model, text in (answers or {}).items()
        for each in drawn
    ]
    return store_with(
        folder,
        conversations=[*drawn, secret],
        decisions=[decision(each) for each in [*drawn, secret]],
        images=[image(each) for each in images],
        bench=[BenchItem(conversation_id=d.conversation_id, document_id=d.document_id, topic=0) for d in drawn],
        hidden=[hidden],
        answers=said,
    )


def models_file(folder: Path, url: str, *names: str, **changes: Any) -> str:
    """A models file with these models, all on the server at `url`."""
    entry = {"vendor": "openai", "model": "m-1", "base_url": f"{url}/v1", **changes}
    path = folder / f"{'-'.join(names)}.yaml"
    path.write_text(json.dumps({"models": [{"name": name, **entry} for name in names]}))
    return str(path)


def evaluating(store: Store, *, budget: float | None = None, **evaluate: Any) -> Settings:
    """Settings of `curate judge`."""
    return Settings(store=store.root, budget_usd=budget, evaluate=evaluate)


def completed(content: str | None, finish_reason: str = "stop", refusal: str | None = None) -> dict[str, Any]:
    """The body of a chat completion."""
    message = {"role": "assistant", "content": content, "refusal": refusal}
    choice = {"index": 0, "finish_reason": finish_reason, "message": message}
    usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


def said_by(answer: Callable[[str], Any]) -> Callable[[dict[str, Any]], Any]:
    """A reply that depends on the last user text of a request; text becomes a completion."""

    def respond(request: dict[str, Any]) -> Any:
        found = answer(last_text(request))
        return completed(found) if isinstance(found, str) else found

    return respond


def last_text(request: dict[str, Any]) -> str:
    """The text of the last message of a request."""
    content = request["messages"][-1]["content"]
    return content if isinstance(content, str) else content[0]["text"]
