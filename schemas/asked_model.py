"""Models of a models file: those asked for answers or verdicts, and those that an arena serves.

One file may serve both: each reader takes its own keys of an entry, and passes over those of the other.
"""

import hashlib
from datetime import date
from ipaddress import ip_address
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from schemas.row import Row
from schemas.run import TokenRate

_VENDORS_HOSTS = (".openai.com", ".openai.azure.com", ".googleapis.com", ".anthropic.com")
ANSWER_TOKENS_MAX = 4096
"""WildVision-Bench's limit for answers and for verdicts."""


def is_own_server(base_url: str) -> bool:
    """Whether the address, if there is one, is not that of a vendor."""
    host = urlsplit(base_url).hostname
    return host is not None and not f".{host.rstrip('.')}".endswith(_VENDORS_HOSTS)


def is_here(base_url: str) -> bool:
    """Whether an address is this machine's own, which no other one reaches."""
    host = (urlsplit(base_url).hostname or "").rstrip(".")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


class AskedModel(Row):
    """One entry of a models file. Everything but `name` and `own` is part of the model's version."""

    name: str = Field(min_length=1, max_length=200)
    """Name on boards; each name once in a file."""
    vendor: Literal["openai", "gemini", "anthropic", "embedded"] = "openai"
    """openai: OpenAI, or any server with its chat completions (vLLM, SGLang, Ollama); gemini: Google; anthropic;
    embedded: scene-viewer, random or blind, for trying out a benchmark made on demand."""
    model: str = Field(default_factory=lambda entry: entry.get("name", ""), min_length=1)
    """The vendor's or the server's own name of the model, by default `name`; prefer a dated snapshot to an alias."""
    base_url: str | None = Field(
        default=None, pattern=r"^https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?(/[^@\s]*)?$"
    )
    """Address of another server, such as http://gpu1:8000/v1; by default the vendor's. The host is plain ASCII."""
    key: str | None = Field(default=None, pattern=r"^[A-Z][A-Z0-9_]*$")
    """Name of the environment variable with the key, never the key itself; by default OPENAI_API_KEY,
    GEMINI_API_KEY or ANTHROPIC_API_KEY, or without a key where `base_url` is given."""
    temperature: float | None = Field(default=0.0, ge=0, le=2, allow_inf_nan=False)
    """Sampling temperature; null leaves it to the server, which some models require."""
    answer_tokens_max: int = Field(default=ANSWER_TOKENS_MAX, ge=1)
    """Limit of an answer in tokens, thinking included."""
    system: str = ""
    """System prompt; empty for none."""
    own: bool = False
    """Whether the server is one's own, so that hidden prompts may be sent to it."""

    @model_validator(mode="after")
    def _own_has_an_address(self) -> Self:
        if self.own and not self.self_hosted:
            raise ValueError("own: true needs the base_url of that server, which is not a vendor's")
        return self

    @model_validator(mode="after")
    def _temperature_of_the_vendor(self) -> Self:
        if self.vendor == "anthropic" and (self.temperature or 0) > 1:
            raise ValueError(
                f"temperature {self.temperature:g}: Anthropic's go from 0 to 1; give one of those, or null"
            )
        return self

    @property
    def version(self) -> str:
        """Vendor, model and the first 8 hex digits of the hash of everything that is part of the version."""
        version_json = self.model_dump_json(exclude={"name", "own"}, exclude_none=True)
        return f"{self.vendor}-{self.model}+{hashlib.sha256(version_json.encode()).hexdigest()[:8]}"

    @property
    def service(self) -> str:
        """Name in the price file, and in the record of use."""
        return f"{'google' if self.vendor == 'gemini' else self.vendor}-{self.model}"

    @property
    def self_hosted(self) -> bool:
        """Whether the server is not the vendor's."""
        return is_own_server(self.base_url or "")

    @property
    def key_variable(self) -> str | None:
        """Environment variable that must hold a key; None for a server that needs none."""
        if self.vendor == "embedded":
            return None
        return self.key or (f"{self.vendor.upper()}_API_KEY" if self.base_url is None else None)

    @property
    def key_told(self) -> str:
        """The variable in words. A name from the file is not repeated: it may be a key that was pasted there."""
        return "the variable that its `key` names" if self.key else str(self.key_variable)


class ArenaModel(Row):
    """One entry of an arena's models file."""

    name: str = Field(min_length=1, max_length=200)
    """Name in logs and on boards; each name once in a file."""
    base_url: str = Field(pattern=r"^https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?(/[^@\s]*)?$")
    """Address of a server with OpenAI's chat completions, such as http://gpu1:8000/v1."""
    vendor: Literal["openai"] = "openai"
    """The protocol of the server: chat completions."""
    model: str = ""
    """The server's own name of the model; by default `name`."""
    key: str | None = Field(default=None, pattern=r"^[A-Z][A-Z0-9_]*$")
    """Name of the environment variable with the key, never the key itself; none for a server that needs none."""
    vision: bool = False
    """Whether the model reads images."""
    open: bool = False
    """Whether its weights are open; rules of a policy may tell such models from others (`models`, `open_models`)."""
    provider: str | None = None
    """Who made the model; like `licence` and `since` for the certificate of a release (`models` of a policy)."""
    licence: str | None = None
    """Licence of its weights, or proprietary."""
    since: date | None = None
    """Day when the model was published."""
    size: str | None = Field(default=None, min_length=1, max_length=40)
    """Size as visitors of an arena read it when names are shown, such as 7 B, or 400 B with 17 B active."""
    weight: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """How often the model is drawn for battles, relative to others; 0 for never."""
    anonymous_only: bool = False
    """Whether the model stands in battles only, so that nobody can choose it by name."""
    system: str = ""
    """System prompt; empty for none."""
    temperature: float | None = Field(default=0.7, ge=0, le=2, allow_inf_nan=False)
    """Sampling temperature; null leaves it to the server."""
    top_p: float | None = Field(default=1.0, gt=0, le=1, allow_inf_nan=False)
    """Nucleus of sampling; null leaves it to the server."""
    answer_tokens_max: int = Field(default=2000, ge=1)
    """Limit of an answer in tokens, thinking included."""
    limit_key: Literal["max_tokens", "max_completion_tokens"] | None = None
    """Name under which the server takes that limit; by default max_completion_tokens at OpenAI's own address."""
    extra_body: dict[str, Any] = {}
    """Further keys of each request, such as `reasoning_effort: low`."""
    headers: dict[str, str] = {}
    """Further headers of each request: name of the header -> name of the environment variable with its value."""
    price: TokenRate | None = None
    """What the model costs; by default what the price file says of `openai-MODEL`."""

    @property
    def asked_as(self) -> str:
        """The server's own name of the model."""
        return self.model or self.name
