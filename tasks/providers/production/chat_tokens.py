"""Words that a chat template turns into turns of a conversation, made harmless in other people's text.

OpenAI and Google keep text and control apart. Servers of one's own may build one string of all turns and read control
tokens wherever they stand in it, so that a text could close its own turn and speak as the system.
"""

import re

_NAMES = (
    "s|bos|eos|pad|unk|think|tool_call|tool_response|image|img|im_start|im_end|im_patch|video|audio|image_soft_token"
)
_CONTROL = re.compile(
    rf"<(?=[|｜])|<(?=/?(?:{_NAMES})>)|<(?=(?:start|end)_of_\w+>)|<(?=/?[a-z]*_?vision_?[a-z]*>)|<(?=<?/?<?SYS>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|IMG|IMG_END|IMG_BREAK)\])|(?<=[|｜])(?=>)",
    re.I,
)
"""Openings, and closings with a bar, of Llama's, ChatML's, Gemma's, Mistral's, DeepSeek's and LLaVA's tokens."""


def defused(text: str) -> str:
    """The text with a space inside every control token, which is then only text."""
    return _CONTROL.sub(lambda found: f"{found[0]} ", text)
