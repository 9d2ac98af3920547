"""Markdown of strangers as HTML in which nothing of theirs is HTML, nothing is fetched, and formulas stay formulas.

The parser is CommonMark's with HTML and images off, so a tag is text and an image is a link. Formulas become
`<span class="math">` with their source as text, which the page's script hands to KaTeX.
"""

import re
from collections.abc import Sequence
from html import escape

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

_LINKED = re.compile(r"(?i)(?:https?://|mailto:)")
_TAG = re.compile(r"<(?:br\s*/?|/?su[bp])>", re.I)
_PAIRS = (("$$", "$$", True), ("\\[", "\\]", True), ("\\(", "\\)", False))
_DOLLARS = re.compile(r"\$(?![\s$])((?:\\.|[^$\\])*?(?:\\.|[^\s$\\]))\$(?!\d)", re.S)
"""A dollar before no space, then one after no space and before no digit, as in Pandoc: `$5 and $10` are prices."""
_PRICE = re.compile(r"[\d.,]+(?:\s*[-–/]\s*[\d.,]*)?(?:\s*[A-Za-z]{2,}[^\\^_=]*)?(?:\s+[^\\^_=]*)?\Z")


def html_of(text: str) -> str:
    """The text as HTML."""
    return str(_PARSER.render(text))


def _formula(state: StateInline, silent: bool) -> bool:
    r"""`$x$`, `$$x$$`, `\(x\)` or `\[x\]` within a line."""
    src, start = state.src, state.pos
    for opening, closing, display in _PAIRS:
        if src.startswith(opening, start):
            end = src.find(closing, start + 2)
            return end > start + 2 and _take(state, silent, src[start + 2 : end], end + 2, display)
    match = _DOLLARS.match(src, start) if src[start] == "$" else None
    if match is None or _PRICE.match(match[1]):
        return False
    return _take(state, silent, match[1], match.end(), False)


def _take(state: StateInline, silent: bool, source: str, end: int, display: bool) -> bool:
    if not silent:
        token = state.push("math", "", 0)
        token.content, token.meta = source, {"display": display}
    state.pos = end
    return True


def _formula_block(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """A formula on lines of its own, in which nothing is Markdown."""
    start = state.bMarks[first] + state.tShift[first]
    opening = state.src[start : start + 2]
    if opening not in ("$$", "\\[") or state.is_code_block(first):
        return False
    end = state.src.find("$$" if opening == "$$" else "\\]", start + 2, state.eMarks[last - 1])
    after = next((line for line in range(first, last) if state.eMarks[line] >= end + 2), last)
    if end < 0 or state.src[end + 2 : state.eMarks[min(after, last - 1)]].strip():
        return False
    if not silent:
        token = state.push("math", "", 0)
        token.content, token.meta, token.block = state.src[start + 2 : end], {"display": True}, True
        state.line = after + 1
    return True


def _kept_tag(state: StateInline, silent: bool) -> bool:
    """A line break, and raised or lowered characters."""
    match = _TAG.match(state.src, state.pos)
    if match and not silent:
        state.push("kept_tag", "", 0).content = match[0].lower()
    state.pos = match.end() if match else state.pos
    return match is not None


def _math(self: RendererHTML, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
    token = tokens[place]
    display = ' data-display="1"' if token.meta["display"] else ""
    return f'<span class="math"{display}>{escape(token.content, quote=False)}</span>'


def _link(self: RendererHTML, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
    tokens[place].attrs |= {"rel": "noopener noreferrer nofollow ugc", "target": "_blank"}
    return str(self.renderToken(tokens, place, options, env))


def _cell(self: RendererHTML, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType) -> str:
    """A cell whose alignment is a class: the page's policy allows no style."""
    if style := tokens[place].attrs.pop("style", ""):
        tokens[place].attrs["class"] = str(style).removeprefix("text-align:")
    return str(self.renderToken(tokens, place, options, env))


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"])
    parser.disable("image")
    parser.validateLink = lambda url: _LINKED.match(url) is not None  # type: ignore[method-assign]
    parser.inline.ruler.before("escape", "formula", _formula)
    parser.inline.ruler.after("formula", "kept_tag", _kept_tag)
    parser.block.ruler.before("fence", "formula_block", _formula_block, {"alt": ["paragraph"]})
    parser.add_render_rule("math", _math)
    parser.add_render_rule("kept_tag", lambda self, tokens, place, options, env: tokens[place].content)
    parser.add_render_rule("link_open", _link)
    for cell in ("th_open", "td_open"):
        parser.add_render_rule(cell, _cell)
    return parser


_PARSER = _parser()
