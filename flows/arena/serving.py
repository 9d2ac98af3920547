"""The application of `curate arena`: models, admission, logs, page and board put together, and served."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from random import Random

import polars as pl
from fastapi import FastAPI

from flows.arena.tasks import open_tasks
from flows.products import drawn_models
from schemas.asked_model import ArenaModel
from schemas.errors import BadInput, why_unreadable
from schemas.policy import Action, VoteRules
from schemas.rating import Fragility, Rating, RatingMethod
from tasks.arena.app import make_app
from tasks.arena.board import Board, LiveBoard, Rate, ReleaseBoard
from tasks.arena.entrance import Admission, Visitors, key_of
from tasks.arena.guards.captcha import chosen_captcha
from tasks.arena.guards.login import chosen_login
from tasks.arena.logs import LogFolder
from tasks.arena.models_file import asked_once, check_arena_keys, read_arena_models
from tasks.arena.pool import Sampling, read_plan
from tasks.arena.reasons import read_reasons
from tasks.arena.rounds import Arena
from tasks.arena.settings import ArenaSettings
from tasks.arena.starters import read_starters
from tasks.arena.uploads import Examples, Uploads
from tasks.ingest.image_files import find_presets, preset_files
from tasks.ingest.known_images import file_digests, load_known_hashes
from tasks.policy.policy_file import load_policy
from tasks.providers import Providers
from tasks.providers.capabilities import StreamingModel
from tasks.providers.chat import streaming_model
from tasks.providers.embedded.pii.patterns import matches
from tasks.providers.embedded.pii.readings import readings

DEMO_FOLDER = "arena-demo"
LIVE = "live"


@dataclass(frozen=True)
class Chosen:
    """Options of an arena: what is served, and how."""

    settings: ArenaSettings
    logs: Path
    board: str | None
    terms: str
    tasks: Path | None
    host: str
    """Address that it listens on."""
    is_demo: bool = False
    """Whether its models are drawn ones, with nothing else to vote on than pictures that ship."""


def served(
    demo: bool, models: Path | None, settings: ArenaSettings
) -> tuple[list[ArenaModel], Callable[[ArenaModel], StreamingModel], str | None]:
    """The models, how to reach them, and the folder of the demo's example images."""
    if not demo:
        arena_models = read_arena_models(models or Path())
        check_arena_keys(arena_models)
        return arena_models, streaming_model, None
    folder = Path(settings.logs or DEMO_FOLDER) / "examples"  # in `presets`, no vote on them would count
    try:
        drawn = drawn_models(folder, settings.seed or 0)
    except OSError as error:
        raise BadInput(f"--logs {str(folder.parent)!r} cannot be written ({error.strerror}); give another") from None
    rows = [ArenaModel(name=name, base_url="http://127.0.0.1", vision=True) for name in drawn]
    return rows, lambda model: drawn[model.name], str(folder)


def check(served: Sequence[ArenaModel], connect: Callable[[ArenaModel], StreamingModel]) -> None:
    """Ask each model for one word. Raises BadInput when one does not answer."""
    results = asyncio.run(asked_once(served, connect))
    for result in results:
        print(result.line)
    if bad := [result.name for result in results if not result.answered]:
        raise BadInput(f"{len(bad)} of {len(results)} models do not answer: {', '.join(bad)}")


def admission(settings: ArenaSettings) -> Admission:
    """The admission's checks: the run's providers, with the thresholds and the categories of its policy."""
    providers, policy = Providers(settings.providers), settings.policy
    rules = load_policy(policy).rules
    nsfw = [rule.at_least for rule in rules if rule.signal == "nsfw.nsfw_probability" and rule.at_least is not None]
    if not nsfw:
        raise BadInput(
            f"--policy {policy!r} has no rule `at_least` for nsfw.nsfw_probability, so no NSFW image would be refused; "
            "give a policy with one, such as public_release"
        )
    known_hashes = load_known_hashes(settings.known_hashes)

    texts = "moderation.flagged_categories"
    proprietary = [rule.models for rule in rules if rule.signal == texts and rule.action is not Action.TAG]

    def refused(signal: str) -> frozenset[str] | None:
        """The categories that rules name which do more than tag; None, which means all, without a rule or a list."""
        on_signal = [rule for rule in rules if rule.signal == signal]
        lists = [rule.contains_any or [] for rule in on_signal if rule.action is not Action.TAG]
        return frozenset(chain.from_iterable(lists)) if on_signal and all(lists) else None

    return Admission(
        nsfw=providers["nsfw"],
        nsfw_probability_max=min(nsfw),
        moderator=providers["moderation"],
        image_moderator=providers["image_moderation"] if "image_moderation" in providers.names else None,
        refused=refused(texts),
        spares_open=bool(proprietary) and set(proprietary) == {"proprietary"},
        refused_of_images=refused("image_moderation.flagged_categories"),
        known=known_hashes or None,
        personal=personal_kinds if settings.warn else lambda text: (),
        holds_file=lambda content: bool(known_hashes) and known_hashes.holds_file(file_digests(content)),
    )


def personal_kinds(text: str) -> list[str]:
    """Kinds of personal data whose form a text has. Names have none, and are not asked about."""
    return [span.type for span in matches(readings([text]))[0]]


def app(
    chosen: Chosen, served: Sequence[ArenaModel], connect: Callable[[ArenaModel], StreamingModel],
    admission: Admission, presets: str | None,
) -> tuple[Arena, FastAPI]:  # fmt: skip
    """The arena and its application."""
    admission.personal("")  # reads the patterns before the first visitor comes
    arena = _arena(chosen, served, connect, admission)
    starters = arena.texts.starters()
    kinds = _kinds(presets, chosen.logs) if chosen.settings.images_max else {}
    as_presets = chosen.settings.presets is not None  # not the demo's own examples
    if not chosen.is_demo:
        starters.keep_pictures(chosen.logs)
    application = make_app(
        arena,
        Uploads(admission),
        chosen.settings,
        chosen.host,
        terms=chosen.terms,
        examples=Examples(admission, kinds, Random(), as_presets) if kinds else None,  # noqa: S311 - draws examples
        starters=Examples(admission, starters.listed(), Random(), not chosen.is_demo),  # noqa: S311 - one of a kind
        board=_board(chosen, arena),
        tasks=open_tasks(chosen.tasks) if chosen.tasks else None,
        captcha=chosen_captcha(chosen.settings, key_of(chosen.logs)),
        login=chosen_login(chosen.settings, key_of(chosen.logs)),
    )
    return arena, application


def _arena(
    chosen: Chosen, served: Sequence[ArenaModel], connect: Callable[[ArenaModel], StreamingModel], admission: Admission
) -> Arena:
    settings = chosen.settings
    if settings.login_header and not settings.proxies:
        raise BadInput(
            f"--set login_header={settings.login_header} needs --set proxies=N: without a proxy in front anybody may "
            "send that header"
        )
    plan = read_plan(Path(settings.plan), served) if settings.plan else {}
    folder = LogFolder(chosen.logs)
    folder.prepare(datetime.now(UTC).date())
    visitors = Visitors(
        key_of(chosen.logs), messages_a_minute=settings.messages_per_minute, shared=settings.visitors_per_address,
        proxies=settings.proxies, proxied_by=settings.proxied_by, login_header=settings.login_header,
        raw=settings.log_addresses,
    )  # fmt: skip
    rng = Random(settings.seed)  # noqa: S311 - draws pairs
    arena = Arena(
        served, connect, admission, folder, visitors, version=version("arena-curation"), rng=rng,
        images_max=settings.images_max, characters_max=settings.characters_max,
        answers_at_once=settings.answers_at_once,
        reasons=read_reasons(Path(settings.reasons) if settings.reasons else None),
        starters=read_starters(Path(settings.starters) if settings.starters else None),
    )  # fmt: skip
    arena.pool.sampling = Sampling(settings.narrow, settings.boost, settings.equal, plan)
    arena.read_logs()
    return arena


def _kinds(presets: str | None, logs: Path) -> dict[str, list[tuple[str, Path]]]:
    """Example images by the data set that they are from."""
    folder, kinds = Path(presets) if presets else find_presets(logs), dict[str, list[tuple[str, Path]]]()
    for preset in preset_files(folder) if folder else []:
        kinds.setdefault(preset.dataset, []).append((preset.path, preset.file))
    return kinds


def _board(chosen: Chosen, arena: Arena) -> Board | None:
    if chosen.board is None:
        return None
    if chosen.board == LIVE:
        return LiveBoard(arena.cast, live_rates(load_policy(chosen.settings.policy).votes))
    return ReleaseBoard(Path(chosen.board))


def live_rates(rules: VoteRules) -> Rate:
    """How the votes of a slice so far are rated, by the rules of the policy that the curation has, too."""
    from schemas.rating import STYLE_CONTROL
    from tasks.leaderboard.fragility import fragility, styled_fragility
    from tasks.leaderboard.rating_tables import RatingTables

    def rated(table: pl.DataFrame, name: str) -> tuple[list[Rating], list[Fragility], int]:
        tables, styled = RatingTables(table, RatingMethod(), rules=rules), name == STYLE_CONTROL
        rows = tables.rows(STYLE_CONTROL if styled else "ratings")
        few = (
            styled_fragility(tables.measured, tables.method, sides_drawn=tables.sides_drawn)
            if styled
            else fragility(tables.rated, name, tables.method)
        )
        return [row for row in rows if isinstance(row, Rating)], few, tables.votes_in_full

    return rated


def terms(file: Path | None) -> str:
    """The terms that visitors accept; empty for those of the page's languages. Raises BadInput for a bad file."""
    if file is None:
        return ""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"--terms {str(file)!r} cannot be read ({why_unreadable(error)}); give a text file") from None
