"""Settings of an arena, and the file of tasks for its annotators."""

from pydantic import Field

from schemas.items.review import Draws
from schemas.row import Row


class ArenaSettings(Row):
    """How `curate arena` serves (docs/logs.md)."""

    logs: str | None = None
    """Folder for logs and images; with --demo by default arena-demo."""
    presets: str | None = None
    """Folder of example images, with presets.json; by default LOGS/presets."""
    policy: str = "public_release"
    """Policy whose thresholds images and texts of visitors must pass: the name of a shipped one, or a YAML file."""
    providers: dict[str, str] = {}
    """Provider of a capability that checks images and texts, such as moderation=openai."""
    known_hashes: list[str] = []
    """File with hashes of known images, which are refused and never opened."""
    seed: int | None = None
    """Seed of the drawn pairs; by default none."""
    title: str = "Vision arena"
    """Heading of the page."""
    reasons: str | None = None
    """YAML file of short reasons for votes and reactions, with their texts by language; by default those shipped."""
    starters: str | None = None
    """YAML file of starter prompts by category and language, with pictures beside it; by default those shipped."""
    images_max: int = Field(default=4, ge=0, le=20)
    """Images in one message."""
    characters_max: int = Field(default=12_000, ge=1, le=500_000)
    """Characters of one message; the page counts before the limit."""
    warn: bool = True
    """Ask before a message is sent that seems to have personal data, such as a phone number."""
    narrow: bool = False
    """Draw pairs more often whose next vote narrows the board's intervals most."""
    plan: str | None = None
    """File with the votes that the board needs, as `curate rate --table plan --json` prints them; half of the battles
    are drawn in proportion to them."""
    boost: float = Field(default=1.0, ge=1, le=100, allow_inf_nan=False)
    """How many times as often a model is drawn that has fewer than 100 votes."""
    equal: bool = False
    """Draw models with fewer votes than the mean more often, at most four times, and those with more less often."""
    log_addresses: bool = False
    """Log network addresses as they are, instead of keyed hashes."""
    proxies: int = Field(default=0, ge=0)
    """Your own reverse proxies in front, whose X-Forwarded-For counts."""
    proxied_by: list[str] = ["127.0.0.0/8", "::1/128"]
    """Addresses or networks of the last of these proxies; headers of all others are a visitor's word."""
    login_header: str | None = Field(default=None, pattern=r"^[A-Za-z0-9-]+$")
    """Header in which a proxy names who has logged in, such as X-Auth-Request-User of oauth2-proxy; without it nobody
    gets in."""
    login_issuer: str | None = Field(default=None, pattern=r"^https?://[A-Za-z0-9._:/~-]+$")
    """Issuer of an OpenID provider, where visitors log in first; its secret is in ARENA_LOGIN_SECRET."""
    login_client_id: str | None = Field(default=None, pattern=r"^[\x21-\x7e]+$")
    """Client id that the provider gave; it sends visitors back to /login/done."""
    hosts: list[str] = []
    """Names under which visitors reach it, such as arena.example.org; requests with another name are refused."""
    messages_per_minute: int = Field(default=20, ge=1)
    """Messages of one visitor in a minute."""
    visitors_per_address: int = Field(default=5, ge=1)
    """Visitors that share one address: so many times the messages of one visitor are taken from it in a minute."""
    captcha_script: str | None = Field(default=None, pattern=r"^https?://[A-Za-z0-9._:/?=&-]+$")
    """Address of the provider's script, of Turnstile, hCaptcha or a server of one's own."""
    captcha_site_key: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._-]+$")
    """Site key that the provider gave; its secret is in ARENA_CAPTCHA_SECRET."""
    captcha_verify: str | None = Field(default=None, pattern=r"^https?://[A-Za-z0-9._:/-]+$")
    """Address that is asked whether an answer holds; it takes `secret` and `response`, as `siteverify` does."""
    admin_host: str = "127.0.0.1"
    """Address on which the admin page listens, when ARENA_ADMIN_TOKEN is set."""
    admin_port: int | None = Field(default=None, ge=1, le=65_535)
    """Port of the admin page; by default 8386, or a free one."""
    operators: dict[str, str] = {}
    """Name of an operator of the admin page, and of the environment variable with that operator's own token; the audit
    log then tells them apart."""
    answers_at_once: int = Field(default=40, ge=1)
    """Messages answered at once; others wait in a queue."""


class ArenaTasks(Draws):
    """A tasks file: what annotators of an arena are asked, and who they are."""

    lists: list[str] = Field(min_length=1)
    """Kinds of `curate review`, such as battles, items, generated or preferences, or single queues of them."""
    overlap: int = Field(default=2, ge=1)
    """How many annotators get each item."""
    annotators: dict[str, str] = Field(min_length=1)
    """Name in the table of verdicts, and name of the environment variable with that annotator's key."""
