"""HTML of the page, whole or the parts that an action changes, by Jinja2; no names before the vote."""

import re
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2

from schemas.asked_model import ArenaModel
from schemas.items.conversation import RecordType
from schemas.run import TokenRate
from tasks.arena.conversations import ArenaConversation, Mode, Side, StreamedAnswer, TermsAccepted
from tasks.arena.entrance import Refused, Visit
from tasks.arena.markdown import html_of
from tasks.arena.names import names_of, without_names
from tasks.arena.rounds import REASON_CHARACTERS_MAX, Arena
from tasks.arena.settings import ArenaSettings
from tasks.arena.words import LANGUAGES, number, page_language, page_words, task_text
from tasks.look import LINKED, LOOK
from tasks.runtime.untrusted import one_line

_HERE = Path(__file__).parent
KATEX = "katex-0.19.1.min.js"
ARENA_FILES = LINKED | {name: _HERE / "static" / name for name in ("arena.css", "arena.js", KATEX, "katex-LICENSE")}
"""The only files that are served as they are."""
SIDE_LETTERS = ("A", "B")
_ACCEPTED = re.compile(r"([0-9a-f]{16})\.([a-z]{2})\.([0-9]{1,11})")
"""The cookie of a browser that accepted the terms: version, language, seconds since 1970."""
YEAR_SECONDS = 31_536_000
"""How long a browser keeps a cookie."""
_CLOCKS_DIFFER_SECONDS = 300
"""By so much the clocks of two machines of an arena may differ."""
ADDRESSES = {Mode.BATTLE: "/", Mode.SIDE_BY_SIDE: "/side-by-side", Mode.DIRECT: "/direct"}


@dataclass(frozen=True)
class Tab:
    """A page of the navigation."""

    name: str
    address: str

    @property
    def title(self) -> str:
        """Text of its link."""
        words = page_words()
        return str(words["modes"].get(self.name) or words[self.name])


class ArenaPages:
    """The pages of an arena."""

    def __init__(self, arena: Arena, settings: ArenaSettings, kinds: Sequence[str], more_tabs: Sequence[Tab]) -> None:
        """`kinds`: of example images; `more`: pages beside those of the three modes."""
        self._arena, self._settings, self._kinds = arena, settings, kinds
        self._tabs = [*(Tab(mode, address) for mode, address in ADDRESSES.items()), *more_tabs, Tab("mine", "/mine")]
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader([_HERE / "pages", LOOK.parent]), autoescape=True,
            undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        self._environment.filters |= {
            "line": one_line,
            "task": task_text,
            "capitalize_first": lambda text: text[:1].upper() + text[1:],
        }
        self._environment.globals |= {
            "letters": SIDE_LETTERS,
            "katex": KATEX,
            "fitting": lambda kind: arena.reasons.fitting(kind),
        }

    def terms_version(self, language: str) -> str:
        """The version of the terms as a language shows them."""
        return self._arena.texts.terms_version(language)

    def accepted_now(self, version: str | None) -> str:
        """The cookie of a browser that accepts the terms now, in the language of the request.

        `version`: those that it showed, None for those of now. Raises Refused where they are others by now.
        """
        language = page_language()["lang"]
        version_now = self.terms_version(language)
        if version not in (None, version_now):
            raise Refused("terms_changed")
        return f"{version_now}.{language}.{int(time.time())}"

    def accepted(self, cookie: str) -> TermsAccepted | None:
        """The acceptance in the cookie of a browser; None without one, or when the terms are others by now.

        A time that no browser would still have, or that is to come, was not written by an arena.
        """
        match = _ACCEPTED.fullmatch(cookie)
        if not match or match[2] not in LANGUAGES or match[1] != self.terms_version(match[2]):
            return None
        if not -_CLOCKS_DIFFER_SECONDS <= time.time() - int(match[3]) <= YEAR_SECONDS + _CLOCKS_DIFFER_SECONDS:
            return None
        return TermsAccepted(sys.intern(match[1]), sys.intern(match[2]), int(match[3]))

    def shared(self, address: str, conversation: ArenaConversation) -> str:
        """The read-only page of a conversation that its visitor shared."""
        turns = _turns(conversation, f"/s/{address}/pictures", self._arena.figures.price)
        return self.page("shared.html", "", talk=conversation, turns=turns, reason_characters_max=0)

    def page(self, template: str, tab: str, **values: Any) -> str:
        """A whole page."""
        return self._html(template, tabs=self._tabs, tab=tab, title=self._settings.title, **page_language(), **values)

    def _html(self, template: str, **values: Any) -> str:
        return self._environment.get_template(template).render(words=page_words(), **values)

    def talk(self, mode: Mode, conversation: ArenaConversation | None, visit: Visit) -> str:
        """The page of a mode for a visitor, with a conversation or as it is at first."""
        language, images_most = page_language()["lang"], self._arena.images_most(mode)
        names = [model.name for model in self._arena.pool.models if not model.anonymous_only]
        models = {model.name: model for model in self._arena.pool.models}
        return self.page(
            "talk.html", mode, mode=mode, kinds=self._kinds, names=names, models=models,
            accepted=visit.accepted, terms_version=self.terms_version(language),
            terms_name=self._arena.texts.terms_name(), terms=_rendered(self._arena.texts.terms(language)),
            starters=self._arena.texts.starters().shown(images_most > 0), settings=self._settings,
            shown=conversation and self.shown(conversation), images_most=images_most,
            talks=self._talks(self._arena.visitors.browser(visit.owner), conversation) if visit.owner else "",
            number=conversation.id if conversation else "",
        )  # fmt: skip

    def shown(self, conversation: ArenaConversation) -> dict[str, Any]:
        """Parts of the page that show a conversation: its messages, the bar below them, and one line of news."""
        return {
            "number": conversation.id,
            "address": f"/c/{conversation.id}",
            "answers": conversation.state,
            "messages": self._part("messages.html", conversation),
            "bar": self._part("bar.html", conversation),
            "talks": self._talks(conversation.browser, conversation),
            "notice": notice(conversation, self._arena.before(conversation)),
            "answering": conversation.answering,
            "open": not (conversation.closed or conversation.forgotten),
        }

    def _talks(self, browser: str, conversation: ArenaConversation | None) -> str:
        """The list of a browser's own conversations at the side, in which the open one is marked; empty without any."""
        talks = self._arena.past.titles(browser)
        return self._html("talks.html", talks=talks, number=conversation.id if conversation else "") if talks else ""

    def _part(self, template: str, conversation: ArenaConversation) -> str:
        cast = conversation.voted.get(("vote", *conversation.state))
        turns = _turns(conversation, f"/c/{conversation.id}/pictures", self._arena.figures.price)
        return self._html(
            template, talk=conversation, turns=turns, cast=cast,
            link=f"/s/{self._arena.visitors.link(conversation.link)}" if conversation.link else "",
            reason_characters_max=REASON_CHARACTERS_MAX, ratings=conversation.mode is Mode.DIRECT,
            new=ADDRESSES[conversation.mode],
            kinds=page_words()["feedback" if conversation.mode is Mode.DIRECT else "votes"],
        )  # fmt: skip


def notice(conversation: ArenaConversation, before: int | None = None) -> str:
    """One line of news of a conversation."""
    texts = page_words()
    if conversation.forgotten:
        return str(texts["forgotten" if conversation.is_logged else "nothing_kept"])
    if before is not None:
        return str(texts["queued"]).format(before=before) if before else str(texts["queued_next"])
    cast = conversation.voted.get(("vote", *conversation.state))
    lines = [texts["voted"][cast]] if cast else []
    if cast and conversation.may_reveal():
        lines.append(texts["goes_on"])
    if conversation.mode is Mode.BATTLE and conversation.revealed:
        a, b = (side.model.name for side in conversation.sides)
        lines.append(texts["names"].format(a=a, b=b))
    if any((f"flag {place}", *conversation.state) in conversation.voted for place in range(len(conversation.sides))):
        lines.append(texts["flagged"])
    if conversation.link:
        lines.append(texts["shared"])
    if not lines and conversation.may_vote() and not conversation.answering:
        lines.append(texts["answer_ended" if conversation.mode is Mode.DIRECT else "answers_ended"])
    return " ".join(lines)


@dataclass(frozen=True)
class ShownAnswer:
    """An answer as the page shows it."""

    place: int
    heading: str
    html: str
    thinking: str
    """HTML of what the model thought, or nothing."""
    thought: str
    """How long, in words."""
    failed: bool
    stopped: bool
    coming: bool
    seconds: float
    """From the question to its end; 0 while it comes, and where it is not known."""
    turn: int = 0
    """Number of the message that it is to, from 1."""
    regenerated: int = 0
    """How many answers to the same message came before it."""
    reaction: RecordType | None = None
    """The visitor's reaction to it."""
    may_react: bool = False
    """Whether a reaction to it is taken."""
    asks_why: bool = False
    """Whether there is a reaction to it without a reason or a comment."""
    facts: Sequence[tuple[str, str]] = ()
    """Facts of the models file about its model, and how long it took: heading and text."""


def _turns(
    conversation: ArenaConversation, images_at: str, price_of: Callable[[str], TokenRate | None]
) -> list[dict[str, Any]]:  # fmt: skip
    """Messages with their answers; `images_at`: the address below which their images have their numbers.

    A battle whose names are shown says at its last answers what is known of the models.
    """
    pictures, turns = 0, []
    for index, prompt in enumerate(conversation.prompts):
        addresses = [f"{images_at}/{pictures + place}" for place in range(len(prompt.pictures))]
        pictures += len(prompt.pictures)
        # one answer a side that has one to this message, with what its visitor said of it
        answers = [
            with_reaction(conversation, shown_answer(conversation, place, side.answers[index]), index + 1)
            for place, side in enumerate(conversation.sides)
            if index < len(side.answers)
        ]
        if index == len(conversation.prompts) - 1 and conversation.mode is Mode.BATTLE and conversation.named:
            prices = [price_of(side.model.name) for side in conversation.sides]
            answers = [
                replace(
                    answer, facts=facts(conversation.sides[answer.place].model, answer.seconds, prices[answer.place])
                )
                for answer in answers
            ]
        cast = [vote.kind for vote in conversation.votes.values() if vote.turn == index + 1]
        turn = {"html": html_of(prompt.text), "pictures": addresses, "answers": answers}
        turns.append(turn | {"cast": cast[-1] if cast else None})
    return turns


def with_reaction(conversation: ArenaConversation, answer: ShownAnswer, turn: int) -> ShownAnswer:
    """The answer to a message, from 1, with what the visitor said of it, in a talk with two models."""
    is_open = not (conversation.closed or conversation.forgotten)
    is_whole = conversation.answer_to(turn, answer.place) is not None
    reaction = conversation.reactions.get((turn, answer.place))
    return replace(
        answer, turn=turn, reaction=reaction.kind if reaction else None,
        may_react=is_open and is_whole and len(conversation.sides) > 1,
        asks_why=is_open and reaction is not None and not (reaction.reasons or reaction.comment),
    )  # fmt: skip


def shown_answer(conversation: ArenaConversation, place: int, answer: StreamedAnswer) -> ShownAnswer:
    """One answer, without the names of the models where they are not to be seen yet."""
    names = names_of([] if conversation.named else [other.model for other in conversation.sides])
    rendered = _rendered if answer.done else html_of
    seconds = (answer.first or answer.finished or time.time()) - answer.started if answer.started else 0
    thought = page_words()["thought" if answer.first or answer.done else "thinking"].format(seconds=round(seconds))
    return ShownAnswer(
        place, heading(conversation, conversation.sides[place], place),
        rendered(without_names(answer.text, names, answer.done)),
        rendered(without_names(answer.thinking, names, answer.done)) if answer.thinking else "",
        thought, answer.failed, answer.stopped and not answer.failed, not answer.done,
        answer.finished - answer.started if answer.done and answer.started else 0.0, regenerated=answer.regenerated,
    )  # fmt: skip


_rendered = lru_cache(128)(html_of)
"""HTML of terms, and of answers that have ended, which are shown again with every turn."""


def facts(model: ArenaModel, seconds: float, price: TokenRate | None) -> list[tuple[str, str]]:
    """Facts about a model as (heading, text), by the models file; those that it does not have are left out.

    `seconds`: from the question to the end of its answer; 0 where it is not known.
    """
    words, weights = page_words()["facts"], "open" if model.open else "closed"
    cost = price and words["dollars"].format(
        input=number(price.input_usd_per_million), output=number(price.output_usd_per_million)
    )
    values = {
        "maker": model.provider,
        "licence": model.licence,
        "weights": words[weights] if model.open or model.licence else None,
        "size": model.size,
        "price": cost,
        "time": words["seconds"].format(seconds=number(round(seconds, 1))) if seconds else None,
    }
    return [(words[name], value) for name, value in values.items() if value]


def heading(conversation: ArenaConversation, side: Side, place: int) -> str:
    """Heading of a side's answers."""
    if conversation.mode is Mode.DIRECT:
        return side.model.name
    text = page_words()["of_model" if conversation.named else "side"]
    return str(text).format(letter=SIDE_LETTERS[place], name=side.model.name)


def answer_changes(conversation: ArenaConversation, sent: dict[str, str], before: int | None) -> dict[str, Any]:
    """News for a page that was `sent` so much of the last answers and of the thinking; `sent` is brought on."""
    sides = []
    for place, side in enumerate(conversation.sides):
        answer = shown_answer(conversation, place, side.answers[-1])
        texts = {"answer": answer.html, "thinking": answer.thinking}
        grown = {name: _grown(html, sent, f"{name} {place}") for name, html in texts.items()}
        sides.append({"place": place, "thought": answer.thought, **grown})
    told_of_queue = "" if before is None else notice(conversation, before)
    return {"sides": sides, "notice": told_of_queue, "votable": conversation.may_vote()}


def _grown(html: str, sent: dict[str, str], key: str) -> dict[str, Any]:
    """The `html` that takes the place of what stands after the first `keep` UTF-16 units, as browsers count."""
    before = sent.get(key, "")
    # where they differ first, found by halves: one comparison a character is slow
    kept = bisect_left(range(min(len(before), len(html))), True, key=lambda end: before[: end + 1] != html[: end + 1])
    sent[key] = html
    return {"keep": len(html[:kept].encode("utf-16-le")) // 2, "html": html[kept:]}
