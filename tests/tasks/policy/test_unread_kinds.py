"""A policy says of each kind of part that is not read whether its conversations are kept, tagged, dropped or held."""

import random

import pytest
import yaml

from tests.builders import conversation

SPELLINGS = {
    "video": ["video", "video_url", "input_video", "video_file"],
    "audio": ["audio", "input_audio", "audio_url", "audio_file"],
    "tool": ["tool", "tool_call", "tool_use", "tool_result", "function_call", "server_tool_use"],
    "image": ["image", "image_file", "input_image", "picture", "image_attachment"],
    "document": ["file", "document", "attachment", "pdf", "damaged_pdf", "encrypted_pdf", "large_pdf"],
    "other": ["hologram", "unknown", "page"],
}
"""Kind as rules know it -> kinds as vendors spell them."""
ACTIONS = ("keep", "tag", "drop", "hold")


def policy_of(actions: dict[str, str]) -> str:
    """A policy that does this with each kind, and drops all others."""
    rules = [{"reason": "part_not_read", "signal": "conversation.unread_kinds", "over": "conversation"}]
    rules[0] |= {"other_than": list(actions)}
    for kind, action in actions.items():
        if action != "keep":
            about = {"signal": "conversation.unread_kinds", "over": "conversation", "contains_any": [kind]}
            rules.append({"reason": f"{kind}_in_it", "action": action, **about})
    own = {"name": "ours", "extends": "public_release", "remove": ["part_not_read"], "rules": rules}
    return yaml.safe_dump(own)


@pytest.mark.parametrize("seed", range(6))
def test_each_kind_is_kept_tagged_dropped_or_held_in_every_spelling(deciding, seed):
    rng = random.Random(seed)
    actions = {kind: rng.choice(ACTIONS) for kind in rng.sample([*SPELLINGS], rng.randint(1, 4)) if kind != "other"}
    deciding.under(policy_of(actions or {"tool": "tag"}))
    actions = actions or {"tool": "tag"}
    spelled = {name: kind for kind, names in SPELLINGS.items() for name in names}
    chats = [conversation(name, f"What is {name}?", "A thing.", unread_parts=[name]) for name in spelled]
    decided = deciding.given(chats).decide()
    for name, kind in spelled.items():
        action = actions.get(kind, "drop")
        row = decided[name]
        assert (row["keep"], row["held"]) == (action in ("keep", "tag"), action == "hold"), (name, action)
        expected = {"keep": [], "tag": [f"{kind}_in_it"]}.get(action, [])
        assert [tag for tag in row["tags"] if tag.endswith("_in_it")] == expected


def test_a_kind_that_is_allowed_saves_no_conversation_with_another_kind(deciding):
    deciding.under(policy_of({"tool": "tag"}))
    reasons = deciding.given([conversation("both", "What?", "This.", unread_parts=["tool_call", "video"])]).reasons()
    assert reasons == {"both": ["part_not_read"]}
