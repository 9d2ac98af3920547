"""Admission of what visitors send, and visitors themselves, who are known by the keyed hash of their address.

Every message passes before anything is kept or sent: images alone, then the text of the whole conversation.
Images: size, lists of known images, decoding, a new file of the pixels alone, lists again, NSFW. The checks are the
pipeline's providers with the policy's thresholds. If a provider fails, the message is refused; no strike is recorded.
"""

import hashlib
import hmac
import io
import os
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from schemas.asked_model import ArenaModel
from schemas.errors import BadInput, why_unreadable
from tasks.arena.conversations import Picture, TermsAccepted
from tasks.arena.guards.requests import PerMinute
from tasks.arena.words import number, page_words
from tasks.images.decode import DecodedImage, ImageRejected, open_image
from tasks.images.served import as_served, served_name
from tasks.providers.capabilities import Failed, ImageModerator, Moderator, NsfwClassifier
from tasks.storage.keyed_ids import given_key, keyed_address

if TYPE_CHECKING:
    from tasks.ingest.known_images import KnownHashes

UPLOAD_BYTES_MAX = 20 * 1024 * 1024
_PNG_LEVEL = 3
Value = TypeVar("Value")


class Refused(Exception):
    """A message that is not taken; `key` names the text that tells the visitor why."""

    def __init__(self, key: str, **values: object) -> None:
        super().__init__(key)
        self.key, self.values = key, values

    def __str__(self) -> str:
        texts = {
            name: number(value) if isinstance(value, int | float) else value for name, value in self.values.items()
        }
        return str(page_words()[self.key]).format(**texts)


class ConversationEnded(Refused):
    """A message with an image that is on a list of known images, which has ended its conversation."""


class KnownImage(Exception):
    """An upload that is on a list of known images."""

    def __init__(self, name: str, content: bytes) -> None:
        super().__init__(name)
        self.name = name
        self.content = content


@dataclass(frozen=True)
class Admission:
    """The checks of what visitors send. If a provider fails, the message is refused; no strike is recorded."""

    nsfw: NsfwClassifier
    nsfw_probability_max: float
    """Images with this probability or more are refused."""
    moderator: Moderator
    image_moderator: ImageModerator | None = None
    refused: Collection[str] | None = None
    """Categories of texts that are refused, as the policy names them; None means all."""
    spares_open: bool = False
    """Whether such texts are only logged where every model has open weights, as rules about proprietary ones say."""
    refused_of_images: Collection[str] | None = None
    """The same of images."""
    known: "KnownHashes | None" = None
    """The operator's lists of known images."""
    personal: Callable[[str], Collection[str]] = lambda text: ()
    """Kinds of personal data that a text seems to have: its visitor is asked before it is sent."""
    holds_file: Callable[[bytes], bool] = lambda content: False
    """Whether the bytes of a file are on a list."""

    def picture(self, content: bytes, preset: str | None = None) -> Picture:
        """The image of an untrusted file. Raises Refused, or KnownImage before anything is decoded."""
        if len(content) > UPLOAD_BYTES_MAX:
            raise Refused("too_large")
        if self.holds_file(content):
            raise KnownImage(hashlib.md5(content, usedforsecurity=False).hexdigest(), content)
        try:
            decoded = open_image(content)
            kept = as_served(decoded.pil)
        except ImageRejected as rejected:
            raise Refused("too_large" if "too_large" in str(rejected.reason) else "unreadable") from None
        except ValueError:  # so narrow that nothing would be left of its shorter side
            raise Refused("unreadable") from None
        name = served_name(kept)
        if self.known is not None and (self.known.holds_name(name) or self.known.holds_image(decoded)):
            raise KnownImage(name, content)
        sink = io.BytesIO()
        kept.save(sink, "PNG", compress_level=_PNG_LEVEL)
        return Picture(name, sink.getvalue(), preset, self._checked(decoded))

    def _checked(self, decoded: DecodedImage) -> dict[str, object]:
        """Measurements of an image that passes. Raises Refused."""
        (probability,) = _values(lambda: self.nsfw.nsfw_probabilities([decoded]), 1)
        if not 0 <= probability <= 1:  # such as NaN, which is neither below nor above a threshold
            raise Refused("unavailable")
        if probability >= self.nsfw_probability_max:
            raise Refused("nsfw")
        measured: dict[str, object] = {"nsfw_probability": round(float(probability), 4)}
        if (moderator := self.image_moderator) is not None:
            (moderation,) = _values(lambda: moderator.moderate_images([decoded]), 1)
            measured["flagged_categories"] = _passed(moderation.flagged_categories, self.refused_of_images)
        return measured

    def require_sure(self, text: str, sure: bool) -> tuple[str, ...]:
        """Kinds of personal data that a message seems to have. Patterns may be wrong, so a visitor may send it.

        Raises Refused for a message with some that its visitor has not said to be `sure` of.
        """
        kinds = tuple(sorted(set(self.personal(text))))
        if kinds and not sure:
            names = page_words()["personal"]
            raise Refused("doubted", kinds=", ".join(dict.fromkeys(names.get(kind, names["other"]) for kind in kinds)))
        return kinds

    def check_texts(self, texts: Sequence[str], to_open: bool = False) -> list[str] | None:
        """Categories that the moderation flags in texts that pass; None without texts, as nothing was measured.

        `to_open`: every model that they are for has open weights. Raises Refused when one of the texts has a category
        that the policy names, or could not be checked.
        """
        if not texts:
            return None
        moderations = _values(lambda: self.moderator.moderate(texts), len(texts))
        flagged = sorted({category for moderation in moderations for category in moderation.flagged_categories})
        return flagged if to_open and self.spares_open else _passed(flagged, self.refused)


def _passed(categories: Collection[str], refused: Collection[str] | None) -> list[str]:
    """The categories found, sorted, when none is refused. Raises Refused."""
    if categories if refused is None else set(categories) & set(refused):
        raise Refused("moderated")
    return sorted(set(categories))


def _values(ask: Callable[[], Sequence[Value | Failed]], count: int) -> list[Value]:
    try:
        measurements = list(ask())
    except Exception:  # providers raise what they like; without an answer the admission stays closed
        raise Refused("unavailable") from None
    values = [measurement for measurement in measurements if not isinstance(measurement, Failed)]
    if len(values) != count or len(measurements) != count:
        raise Refused("unavailable")
    return values


def with_sampling(model: ArenaModel, sampling: Mapping[str, float]) -> ArenaModel:
    """The model with a visitor's settings. Raises Refused for one that is out of range."""
    most = {"temperature": (0, 2), "top_p": (0.01, 1), "answer_tokens_max": (1, model.answer_tokens_max)}
    for name, value in sampling.items():
        if name not in most or not most[name][0] <= value <= most[name][1]:
            least, largest = most.get(name, (0, 0))
            raise Refused(
                "bad_sampling", name=page_words()[name] if name in most else name[:40], least=least, most=largest
            )
    settings = {name: int(value) if name == "answer_tokens_max" else value for name, value in sampling.items()}
    return model.model_copy(update=settings)


def with_sampling_of(before: ArenaModel, model: ArenaModel) -> ArenaModel:
    """The model with the settings that a talk has had so far, as the lines of its log have them."""
    settings = before.model_dump(include={"temperature", "top_p", "answer_tokens_max"})
    return model.model_copy(update=settings)


_KEY_FILE = "user_key"
_KEY_BYTES = 64
_FORWARDED = "x-forwarded-for"
LOOPBACK = ("127.0.0.0/8", "::1/128")


@dataclass(frozen=True)
class Visit:
    """Who asks."""

    owner: str
    """Fingerprint of the browser's cookie."""
    address: str
    accepted: bool = True
    """Whether the terms were accepted."""
    proven: bool = True
    """Whether a captcha was solved, where one is asked for."""
    terms: TermsAccepted | None = None
    """The text that was accepted, and when."""


class Visitors:
    """Names visitors by their addresses and limits their messages."""

    def __init__(
        self, key: bytes, *, messages_a_minute: int, shared: int = 5, proxies: int = 0,
        proxied_by: Sequence[str] = LOOPBACK, login_header: str | None = None, raw: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """`shared`: visitors that one address may hold. `proxied_by`: networks of the `proxies` in front.

        `login_header`: header in which they name who has logged in. Raises BadInput for what is no network.
        """
        self._key, self._most, self._shared, self._proxies = key, messages_a_minute, shared, proxies
        self._networks = [_network(network) for network in proxied_by]
        self._login_header, self._raw = login_header, raw
        self._sent = PerMinute(clock)

    def logged(self, address: str) -> str:
        """Value of `ip` in the log: a keyed hash, or the address where the operator wants it."""
        return address if self._raw else keyed_address(self._key, address)

    def address(self, client: str, headers: Mapping[str, str]) -> str:
        """The visitor's address. With `proxies` of the operator in front, the one that the first of them saw.

        Each proxy adds one address at the end of the header; whatever stands before these was sent by the visitor.
        """
        if not self._is_proxy(client):
            return client
        seen = [hop.strip() for hop in headers.get(_FORWARDED, "").split(",") if hop.strip()]
        return seen[-self._proxies] if len(seen) >= self._proxies else client

    def _is_proxy(self, client: str) -> bool:
        """Whether a connection comes from the operator's proxy; headers of any other one are a visitor's word."""
        with suppress(ValueError):
            return self._proxies > 0 and any(ip_address(client) in network for network in self._networks)
        return False

    def owner(self, client: str, headers: Mapping[str, str], token: str) -> str:
        """Fingerprint of who asks: of the login that the proxy names, otherwise of the browser's cookie.

        Raises Refused where a login is asked for and none came through the proxy.
        """
        if not self._login_header:
            return cookie_hash(token)
        login = headers.get(self._login_header, "").strip() if self._is_proxy(client) else ""
        if not login:
            raise Refused("login_first")
        return cookie_hash(f"login {login}")

    def browser(self, owner: str) -> str:
        """Value of `browser` in the log: a keyed hash of the fingerprint of a cookie."""
        return hmac.digest(self._key, b"browser " + owner.encode(), "sha256").hex()[:24]

    def link(self, made_of: str) -> str:
        """The last part of the address of a read-only page; nobody without the key can guess it."""
        return hmac.digest(self._key, b"link " + made_of.encode(), "sha256").hex()[:40]

    def wait_seconds(self, address: str, owner: str = "", what: str = "") -> float:
        """0 when a message may be sent now, which then counts; otherwise how long to wait. `what`: something else.

        A visitor is a browser or a login, `owner`; without one, the address. Several visitors share an address, as
        behind one router, so an address may send as much as `shared` visitors.
        """
        limits = {f"{what} visitor {owner or address}": self._most}
        if owner:
            limits[f"{what} address {network_of(address)}"] = self._most * self._shared
        return self._sent.wait_seconds(limits)


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text.strip())
    except ValueError:
        raise BadInput(
            f"proxied_by {text!r} is no network; give the address of a proxy, such as 10.0.0.5, or a network such as "
            "10.0.0.0/8"
        ) from None


def network_of(address: str) -> str:
    """The address of a household: an IPv4 address, or the /64 of an IPv6 address."""
    with suppress(ValueError):
        parsed_address = ip_address(address.partition("%")[0])
        return str(parsed_address if parsed_address.version == 4 else ip_network((parsed_address, 64), strict=False))
    return address


def key_of(folder: Path) -> bytes:
    """The key of user ids: of the environment, otherwise a random one that is kept beside the logs."""
    if key := given_key():
        return key
    path = folder / _KEY_FILE
    try:
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "w", encoding="ascii") as stream:
                stream.write(secrets.token_hex(32))
        key = path.read_bytes()
    except OSError as error:
        raise BadInput(f"the key of user ids {str(path)!r} cannot be kept ({why_unreadable(error)})") from None
    if len(key) < _KEY_BYTES:
        raise BadInput(f"the key of user ids {str(path)!r} is cut off; restore it, or delete it for a new one")
    return key


def cookie_hash(token: str) -> str:
    """The part that a conversation keeps of its browser's cookie; empty without one."""
    return token and hashlib.sha256(token.encode()).hexdigest()
