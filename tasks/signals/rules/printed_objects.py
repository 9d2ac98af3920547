"""Whether a text is nothing but what a program printed in place of an answer: an object, a raw stream, no value at all.

A server that formats the wrong variable logs `ChatCompletion(id='…', choices=[…])`, `[object Object]`, `None`, or its
model's stream. The whole text must be such output: an answer that explains or shows an object has other words, or a
code fence, around it.
"""

import re

_NAME = r"[A-Za-z_$][\w.$]*"
_NO_VALUE = r"None|nan|NaN|null|undefined|NoneType|<nil>"
"""Words that languages print for no value. `none`, `None.` and `N/A` are words of an answer."""
_OBJECTS = [
    _NO_VALUE,
    r"\[object [A-Z]\w*\]",  # JavaScript
    r"Promise \{[^{}]*\}",
    rf"<{_NAME} object\b(?:[^<>]|<\w+>)*>",  # Python: generators, coroutines, streams
    r"<(?:[^<>\n]|<\w+>){1,200} at 0x[0-9A-Fa-f]+>",
    r"<bound method (?:[^<>]|<[^<>]*>)*>",
    r"<(?:class|module) '[^<>\n]*>",
    r"<\w*Response[ (\[][^<>\n]{0,200}>",
    r"#<[A-Z][\w:]*(?:[: ][^<>\n]{0,200})?>",  # Ruby
    r"(?:[a-z_]\w*\.)+[A-Z][\w$]*@[0-9a-f]{1,16}",  # Java
    r"System(?:\.\w+)+(?:`\d+\[[^\]\n]{0,200}\]|\[\])",  # .NET
]
_ARE_OBJECTS = re.compile(rf"(?:(?:{'|'.join(_OBJECTS)})[\s,;]*)+")
_ENUM = re.compile(r"<[^<>\n]{1,200}>")
"""`<FinishReason.STOP: 'STOP'>` and other printed values inside an object."""
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\"", re.S)
_INNERMOST = re.compile(r"\([^()\[\]{}]*+\)|\[[^()\[\]{}]*+\]|\{[^()\[\]{}]*+\}")
_DEPTH_MAX = 100
_OPENING = re.compile(rf"(?:response:\s*)?{_NAME}(?:\(|=)")
_ITEM = rf"(?:{_NAME}\0|{_NAME}=[\w.:+-]*+\0*+)"
_ARE_ITEMS = re.compile(rf"(?:response:\s*)?(?:{_ITEM}[\s,;]*+)*+(?:{_NAME}\(.*)?", re.S)
"""Calls and fields, in which \\0 stands for what was quoted or in brackets; the last call may be cut off."""
_CLIENTS_CLASS = re.compile(
    r"(?:\w+\.)*(?:ChatCompletion\w*|ModelResponse\w*|GenerateContentResponse|StreamingChoices|ChoiceDelta\w*"
    r"|(?:Text|Thinking|ToolUse)Block|ContentBlock\w*|RawMessage\w*|AIMessage\w*|RequestOutput|CompletionOutput"
    r"|Chat(?:Generation\w*|Response|Result)|(?:Text)?CompletionResponse|LLMResult)\("
)
"""Classes of clients whose names mean nothing else."""
_CLIENTS_FIELD = (
    "choices|finish_reason|finishReason|stop_reason|delta|candidates|usage|usage_metadata|usageMetadata|logprobs"
    "|response_metadata|additional_kwargs|system_fingerprint|tool_calls"
)
_FIELD = re.compile(rf"\b(?:{_CLIENTS_FIELD})=")
_KEY = re.compile(
    rf"[\"'](?:{_CLIENTS_FIELD})[\"']\s*:|[\"']object[\"']\s*:\s*[\"'](?:chat\.completion|text_completion)"
)
_FIELDS_MIN = 2
"""Least fields of a reply: an object of another kind may have `choices` or `usage` alone."""
_STREAM_DATA = re.compile(r"^data: ?[{\[]", re.M)
_STREAM_LINE = re.compile(r"data: ?(?:[{\[].*[}\]]|\S*)|(?:event|id|retry)?:.*")


def is_printed_object(text: str) -> bool:
    """Whether the whole text is one or more printed objects, a stream of events, or what is printed for no value."""
    output = text.strip()
    if not output or _ARE_OBJECTS.fullmatch(output):
        return bool(output)
    if _STREAM_DATA.search(output):
        return all(_STREAM_LINE.fullmatch(line.strip()) for line in output.splitlines() if line.strip())
    inside = output[1:-1].strip() if output[0] + output[-1] in ("[]", "()") else output
    if inside.startswith("{") and inside.endswith("}"):
        return len({key[0] for key in _KEY.finditer(inside)}) >= _FIELDS_MIN
    if not _OPENING.match(inside):
        return False
    named = _CLIENTS_CLASS.match(inside.removeprefix("response:").lstrip()) is not None
    return (named or len(set(_FIELD.findall(inside))) >= _FIELDS_MIN) and _are_items(inside)


def _are_items(output: str) -> bool:
    """Whether a text is nothing but `Name(…)` or `field=…`, once or several times."""
    bare = _ENUM.sub("\0", _QUOTED.sub("\0", output))
    for _ in range(_DEPTH_MAX):
        outer = _INNERMOST.sub("\0", bare)
        if outer == bare:
            break
        bare = outer
    return _ARE_ITEMS.fullmatch(bare) is not None
