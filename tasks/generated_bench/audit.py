"""Asks items again without the image, with the description in its place, and with every key at one letter."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from schemas.asked_model import AskedModel
from schemas.benches.generated import GeneratedDescription, GeneratedItem
from schemas.benches.generated_results import AuditAnswer, AuditMode, AuditRow
from schemas.run import Estimate, Prices
from tasks.generated_bench.accuracy import Marked, counted_version, letter_of, wrote
from tasks.generated_bench.bench_state import read_bench
from tasks.generated_bench.items import CHOICE_LETTERS, arranged, kept_items, prompt_of
from tasks.providers.ask_items import Work, ask_each, store_results
from tasks.providers.capabilities import ChatMessage, ChatModel, Failed
from tasks.providers.chat import chat_model
from tasks.providers.cost import Count, chat_cost
from tasks.storage.queries.signals import StoredImages
from tasks.storage.tables import Store

AUDIT_ANSWER_TOKENS = 20
"""Expected length of an answer: a letter, and a few words around it."""
# Texts of the modes are no part of a model's version, under which answers are stored: another wording is another mode.
NO_IMAGE = "There is no image. Choose the option that is most likely right.\n\n"
DESCRIPTION_PROMPT = "This is what an image shows:\n\n{}\n\n"

_KEY_PLACES = {AuditMode.ALL_A: 0, AuditMode.ALL_D: -1}
"""Mode that shows the image and moves the right option -> its place among the options."""


@dataclass(frozen=True)
class AskedAgain:
    """One item as an audit asks it."""

    item: GeneratedItem
    mode: AuditMode
    prompt: str
    key: str


def asked_as(item: GeneratedItem, mode: AuditMode, description: str) -> AskedAgain:
    """The item's text in one mode. All keys at D are at the last letter of an item with fewer options.

    A mode that moves the key has its place in `_KEY_PLACES`; another one has its text here.
    """
    if mode is AuditMode.BLIND:
        return AskedAgain(item, mode, NO_IMAGE + item.prompt, item.key)
    if mode is AuditMode.DESCRIBED:
        return AskedAgain(item, mode, DESCRIPTION_PROMPT.format(description) + item.prompt, item.key)
    key = CHOICE_LETTERS[_KEY_PLACES[mode] % len(item.options)]
    place = CHOICE_LETTERS.index(item.key)
    right_first = [item.options[place], *item.options[:place], *item.options[place + 1 :]]
    options = arranged(right_first, key, item.description_id)
    return AskedAgain(item, mode, prompt_of(item.question, options), key)


def audited(store: Store, bench: str) -> tuple[list[GeneratedItem], dict[str, GeneratedDescription]]:
    """(kept items, description id -> description). Raises BadInput as `kept_items` does."""
    progress = read_bench(store, bench).progress
    return kept_items(store, bench).items, {
        item_progress.description.description_id: item_progress.description for item_progress in progress
    }


def unasked(
    store: Store, items: Sequence[GeneratedItem], descriptions: Mapping[str, GeneratedDescription], model: AskedModel,
    modes: Collection[AuditMode],
) -> list[AskedAgain]:  # fmt: skip
    """Items that a model has not answered yet in these modes."""
    answered = set(store.read("audit_answers", ["item_id", "model", "mode", "version"]).iter_rows())
    return [
        asked_as(item, mode, descriptions[item.description_id].description)
        for item, mode in product(items, sorted(modes))
        if (item.item_id, model.name, mode, model.version) not in answered
    ]


def shown_images(images: StoredImages, again: AskedAgain) -> tuple[tuple[str, bytes], ...]:
    """The image that is shown, as (png or jpeg, encoded); none where the audit takes it away."""
    if again.mode not in _KEY_PLACES:
        return ()
    stored = images[again.item.image_id]
    return ((stored.format, stored.bytes),)


def estimate_audit(
    store: Store, bench: str, models: Sequence[AskedModel], modes: Collection[AuditMode], prices: Prices, count: Count
) -> list[Estimate]:
    """One row for each model that is not embedded and lacks answers. Raises BadInput without kept items."""
    of_bench = audited(store, bench)
    images, estimates = StoredImages(store, "images", "redacted_images"), list[Estimate]()
    for model in models:
        unanswered = unasked(store, *of_bench, model, modes) if model.vendor != "embedded" else []
        if unanswered:
            texts = [(f"{model.system}\n{again.prompt}", shown_images(images, again)) for again in unanswered]
            # audits have no batch
            estimates += chat_cost(model, f"audit of {model.name}", texts, AUDIT_ANSWER_TOKENS, prices, count)[:1]
    return estimates


def ask_in_modes(
    store: Store, bench: str, models: Sequence[AskedModel], modes: Collection[AuditMode], work: Work
) -> None:
    """Ask every model what it has not answered yet in these modes. A failed call stores nothing.

    Raises BadInput without kept items.
    """
    of_bench, images = audited(store, bench), StoredImages(store, "images", "redacted_images")
    connections = [chat_model(asked_model) for asked_model in models]  # all, before the first call
    for asked_model, model in zip(models, connections, strict=True):
        unanswered = unasked(store, *of_bench, asked_model, modes)
        ask = partial(_ask, model, asked_model, images)
        answers = ask_each(f"audit of {asked_model.name}", ask, unanswered, model.calls_at_once)
        store_results(store, "audit_answers", answers, asked_model.name, work, lambda answer: answer.mode)


def _ask(model: ChatModel, asked_model: AskedModel, images: StoredImages, again: AskedAgain) -> AuditAnswer | Failed:
    item = again.item
    message = ChatMessage("user", again.prompt, shown_images(images, again))
    reply = model.chat([message], f"{asked_model.name} {item.item_id} {again.mode}")
    if isinstance(reply, Failed):
        return reply
    letter = letter_of(reply.text, len(item.options))
    about = {"item_id": item.item_id, "model": asked_model.name, "mode": again.mode, "key": again.key}
    return AuditAnswer(**about, letter=letter, text=reply.text, version=model.version)


def audit_rows(
    items: Sequence[GeneratedItem], answers: Iterable[AuditAnswer], marked: Mapping[str, Marked],
    leaked: Collection[str], versions: Collection[str] = (), author: str = "",
) -> list[AuditRow]:  # fmt: skip
    """Every figure by level. `marked`: the models' ordinary answers; `leaked`: items that every blind model gets right.

    Leaked items are counted of those that were asked blind, and not at all where none was.
    `author`: version of the model that wrote the items.

    Raises BadInput when a model has answers of several versions and `versions` does not name one of them. Moved keys
    are compared with ordinary answers of the same version alone.
    """
    right, counted = _right(answers, {item.item_id for item in items}, versions)
    blind = {item_id for (_, mode), marks in right.items() if mode is AuditMode.BLIND for item_id in marks}
    usual = {model: marks for model, marks in marked.items() if marks.version == counted.get(model)}
    rows = []
    for level in ("", *dict.fromkeys(item.level for item in items)):
        ids = {item.item_id for item in items if level in ("", item.level)}
        # (model, mode) -> item of the level -> whether it was answered right
        of_mode = {key: {i: r for i, r in right_by_item.items() if i in ids} for key, right_by_item in right.items()}
        for (model, mode), right_by_item in sorted(of_mode.items()):
            rows += _of_model(model, mode, level or "all", right_by_item, usual.get(model))
        rows += _spread(level or "all", of_mode)
        if asked := ids & blind:
            note = "every model gets them blind"
            rows.append(_figure("leaked_items", "", level or "all", len(asked & {*leaked}), len(asked), note))
    authors = {model for model, version in counted.items() if wrote(version, author)}
    return [row.model_copy(update={"flags": ["wrote_items"]}) if row.model in authors else row for row in rows]


def _right(
    answers: Iterable[AuditAnswer], ids: Collection[str], versions: Collection[str]
) -> tuple[dict[tuple[str, AuditMode], dict[str, bool]], dict[str, str]]:
    """((model, mode) -> item -> whether it was answered right, model -> the version that counts)."""
    by_model: dict[str, list[AuditAnswer]] = {}
    for answer in answers:
        if answer.item_id in ids:
            by_model.setdefault(answer.model, []).append(answer)
    counted = {model: counted_version(model, (a.version for a in group), versions) for model, group in by_model.items()}
    right: dict[tuple[str, AuditMode], dict[str, bool]] = {}
    for answer in (
        answer for group in by_model.values() for answer in group if answer.version == counted[answer.model]
    ):
        right.setdefault((answer.model, answer.mode), {})[answer.item_id] = answer.letter == answer.key
    return right, counted


def _of_model(
    model: str, mode: AuditMode, level: str, right_by_item: Mapping[str, bool], usual: Marked | None
) -> list[AuditRow]:
    """Accuracy in the mode; for moved keys also how far it is from the usual one, as a difference and as a ratio."""
    share = sum(right_by_item.values()) / len(right_by_item) if right_by_item else None
    rows = [_figure(f"{mode}_accuracy", model, level, share, len(right_by_item), "share of right answers")]
    if mode not in (AuditMode.ALL_A, AuditMode.ALL_D):
        return rows
    both = [i for i in right_by_item if usual and i in usual.right]
    if not both or usual is None:
        return rows
    moved, before = (sum(answers[i] for i in both) / len(both) for answers in (right_by_item, usual.right))
    rows.append(_figure(f"{mode}_deviation_difference", model, level, moved - before, len(both), "moved - usual"))
    ratio = (moved - before) / before if before else None
    rows.append(_figure(f"{mode}_deviation_ratio", model, level, ratio, len(both), "(moved - usual) / usual"))
    return rows


def _spread(level: str, of_mode: Mapping[tuple[str, AuditMode], Mapping[str, bool]]) -> list[AuditRow]:
    """Largest less smallest accuracy over models given the description: small when the author favours none."""
    by_model = {model: answers for (model, mode), answers in of_mode.items() if mode is AuditMode.DESCRIBED}
    common = set.intersection(*map(set, by_model.values())) if by_model else set()
    if len(by_model) < 2 or not common:
        return []
    shares = [sum(answers[i] for i in common) / len(common) for answers in by_model.values()]
    return [
        _figure("described_spread", "", level, max(shares) - min(shares), len(common), f"over {len(by_model)} models")
    ]


def _figure(measure: str, model: str, level: str, value: float | None, items: int, note: str) -> AuditRow:
    return AuditRow(measure=measure, model=model, level=level, value=value, items=items, note=note, flags=[])
