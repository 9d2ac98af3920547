"""A store of kept battles with images, and one of each kind that nobody may be shown."""

from pathlib import Path

from schemas.benches.bench import HiddenItem
from tasks.storage.queries.released import mark_decided
from tasks.storage.tables import Store
from tests.builders import battle, decision, drawn_image, image, measure_clean, sides, store_with

WINNERS = ("model_a", "model_b", "tie", "tie_bothbad", "model_a", "model_a")
MODELS = (("ant", "bee"), ("bee", "ant"), ("ant", "cat"), ("bee", "cat"), ("ant", "bee"), ("cat", "bee"))
SECRETS = ("reserved", "dropped", "named")
"""Battles on a prompt of the hidden split, dropped by the policy, and with visible models."""


def voted(folder: Path) -> Store:
    """A store with the battles `b0`, …; what the models said is `=left N` and `Right N`."""
    drawn = [drawn_image(seed) for seed in range(2)]
    shown = [each.image_id for each in drawn]
    pairs = []
    for n, models in enumerate(MODELS):
        pair = sides(f"b{n}", f"Prompt {n}?", f"=left {n}", image_ids=shown)
        texts = (f"=left {n}", f"Right {n}")
        pairs.append([_as(side, model, text) for side, model, text in zip(pair, models, texts, strict=True)])
    for name in SECRETS:
        pairs.append(sides(name, f"The {name} prompt?", "Secret answer.", image_ids=shown[:1]))
    battles = [
        battle(*pair, (*WINNERS, *["tie"] * len(SECRETS))[n], anonymous=pair[0].conversation_id != "named")
        for n, pair in enumerate(pairs)
    ]
    chats = [side for pair in pairs for side in pair]
    reasons = {"dropped": ("nsfw_image",)}
    hidden = next(chat for chat in chats if chat.conversation_id == "reserved")
    store = store_with(
        folder,
        conversations=chats,
        battles=battles,
        images=[image(each) for each in drawn],
        decisions=[decision(each, *reasons.get(each.conversation_id.removesuffix("-right"), ())) for each in chats]
        + [decision(each, *reasons.get(each.battle_id, ())) for each in battles],
        hidden=[
            HiddenItem(document_id=hidden.document_id, topic=0, first_month="2024-09", last_month="2099-01", drawn=True)
        ],
    )
    measure_clean(store, chats)
    mark_decided(store)
    return store


def _as(side, model, text):
    turns = [side.turns[0], side.turns[1].model_copy(update={"content": text, "text_id": f"{text:_>32}"})]
    return side.model_copy(update={"model": model, "turns": turns})
