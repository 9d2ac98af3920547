"""What operators change while an arena runs: models, prices, reasons, terms, starter prompts, languages."""

import asyncio
import json
import resource
from datetime import UTC, datetime
from random import Random
from threading import Thread

import httpx
import pytest
import yaml

from schemas.asked_model import ArenaModel
from schemas.errors import BadInput
from schemas.items.conversation import RecordType
from schemas.upkeep import TermsVersion
from tasks.arena.admin.pages import admin_app, operator_tokens
from tasks.arena.admin.steering import Steering
from tasks.arena.conversations import Mode
from tasks.arena.entrance import Refused
from tasks.arena.settings import ArenaSettings
from tests.arena_pages import Page, application
from tests.built_arena import VISIT, Scripted

TOKENS = {"the token of anna": "anna", "the token of ben": "ben", "a token of nobody": ""}
ENTRY = "name: new-model\nbase_url: http://127.0.0.1\nprice: {input_usd_per_million: 1, output_usd_per_million: 2}"
SUMMARIES = {"serve": "Serve another", "reasons": "Reasons", "starters": "Starter prompts", "terms": "Terms"}
TERMS = {"version": "2026-12", "text_en": "Be kind.", "text_de": "Sei nett."}


def operator(built, token: str = "the token of anna") -> httpx.AsyncClient:
    """The admin page as an operator's program sees it."""
    transport = httpx.ASGITransport(admin_app(built.arena, TOKENS, ArenaSettings()))
    headers = {"authorization": f"Bearer {token}"}
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8386", headers=headers)


def sent(built, what: str, form: dict, token: str = "the token of anna") -> httpx.Response:
    """The answer to one form."""

    async def asked():
        async with operator(built, token) as client:
            return await client.post(f"/{what}", data=form)

    return asyncio.run(asked())


def abouts(built) -> list[str]:
    """What the audit log says was changed."""
    return [entry.about for entry in built.arena.steering.audited()]


def test_a_model_is_served_from_the_next_message_on_in_every_process(build):
    models = {"good-model": Scripted(), "second-model": Scripted()}
    built, other = build(models), build(models)
    models["new-model"] = Scripted(("New.",))  # a server that both processes reach
    assert "Done." in sent(built, "serve", {"value": ENTRY}).text

    async def direct():
        conversation = await other.say(mode=Mode.DIRECT, chosen=("new-model",))
        await other.finished(conversation)
        return conversation.sides[0].answers[-1].text

    assert asyncio.run(direct()) == "New."
    pairs = [other.arena.pool.draw(False, [], Random(seed)).pair for seed in range(60)]
    assert {model.name for pair in pairs for model in pair} == {*models}
    assert built.arena.figures.price("new-model").output_usd_per_million == 2
    assert "Done." in sent(built, "drop", {"model": "new-model"}).text
    with pytest.raises(Refused, match="choose models"):
        asyncio.run(direct())
    assert abouts(built) == [
        "model new-model at http://127.0.0.1",
        "model new-model as the models file has it, or not",
    ]


def test_a_model_of_the_file_gets_its_own_keys_back_after_others(build):
    built = build()
    sent(built, "serve", {"value": "name: good-model\nbase_url: http://127.0.0.1\nsize: 7 B"})
    (changed,) = [model for model in built.arena.pool.models if model.name == "good-model"]
    assert changed.size == "7 B" and len(built.arena.pool.models) == 2
    sent(built, "drop", {"model": "good-model"})
    assert [model.size for model in built.arena.pool.models] == [None, None]


@pytest.mark.parametrize(
    ("what", "form", "error"),
    [
        ("serve", {"value": "name: ["}, "the model is not YAML"),
        ("serve", {"value": "- a"}, "give keys and values"),
        ("serve", {"value": "name: x"}, "base_url: is missing"),
        ("serve", {"value": "name: x\nbase_url: http://h\nkye: A"}, "unknown key"),
        ("serve", {"value": "name: x\nbase_url: http://h\nkey: NO_SUCH_KEY_IS_SET"}, "is not set"),
        ("serve", {"value": "name: good-model\nbase_url: http://h\nweight: 0"}, "a battle needs two"),
        ("drop", {"model": "good-model"}, "is of the models file; pause it"),
        ("drop", {"model": "gone"}, "no model"),
        ("price", {"model": "good-model", "input": "1"}, "half of a price is missing"),
        ("price", {"model": "good-model", "input": "1", "output": "many"}, "is no number from 0"),
        ("reasons", {"value": "better: {Kind: {en: Kinder}}"}, "is no key of a reason"),
        ("reasons", {"value": "bettr: {}"}, "bettr: is no key"),
        ("starters", {"value": "categories: ["}, "starters is not YAML"),
        (
            "starters",
            {"value": "categories: [{title: {en: A}, prompts: {en: [{text: B, picture: no.png}]}}]"},
            "no picture",
        ),
        ("languages", {}, "no language is left"),
        ("languages", {"language": ["de", "xx"]}, "there are no words in"),
        ("terms", {"text_en": "Be kind."}, "the terms have no version"),
        ("terms", {"version": "<b>", "text_en": "Be kind."}, "the terms: name"),
        ("terms", {"version": "2", "text_de": "Sei nett."}, "no English text"),
        ("nothing", {}, "this form is not known"),
    ],
)
def test_a_change_that_cannot_be_made_is_one_line(build, what, form, error):
    built = build()
    told = sent(built, what, form)
    assert told.status_code == 422 and error in told.text.replace("&#39;", "'")
    assert not (built.folder / "admin.json").exists() and abouts(built) == []


@pytest.mark.parametrize(
    ("what", "field", "others"),
    [
        ("serve", "value", {}),
        ("reasons", "value", {}),
        ("starters", "value", {}),
        ("terms", "text_en", {"version": ""}),
        ("terms", "version", {"text_en": ""}),
    ],
)
def test_a_form_that_was_refused_is_open_with_what_was_typed(build, what, field, others):
    answer = sent(build(), what, {field: "typed: <b>[", **others})
    form = answer.text.partition(f'action="/{what}"')[2].partition("</form>")[0]
    assert answer.status_code == 422
    assert "typed: &lt;b&gt;[" in form
    assert f'<details class="edit" open><summary>{SUMMARIES[what]}' in answer.text


def test_a_change_that_cannot_be_written_is_neither_in_force_nor_in_the_audit_log(build):
    built = build()
    long = "better: {}\n" + "# a comment\n" * 20_000
    least, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, most))
    try:
        told = sent(built, "reasons", {"value": long})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (least, most))
    assert told.status_code == 422 and "cannot be written" in told.text
    assert abouts(built) == [] and built.arena.steering.now().reasons is None
    assert [file.name for file in built.folder.glob("admin*")] == []


def test_a_change_that_the_audit_log_cannot_take_is_not_in_force(build):
    built = build()
    (built.folder / "audit").write_text("in the way")
    told = sent(built, "languages", {"language": "de"})
    assert told.status_code == 422 and built.arena.steering.now().languages == []
    assert [file.name for file in built.folder.glob("admin*")] == []


def test_the_audit_log_tells_operators_apart(build):
    built = build()
    for token in TOKENS:
        sent(built, "languages", {"language": ["en", "de"]}, token)
    entries = built.arena.steering.audited()
    assert len({entry.who for entry in entries}) == 3 and entries[0].who == built.arena.steering.who("anna")
    page = sent(built, "nothing", {}).text
    assert "languages: de, en</bdi> · <bdi>anna" in page and "<bdi>ben" in page
    assert "anna" not in "".join(file.read_text() for file in (built.folder / "audit").iterdir())


def test_every_operator_has_a_token_of_their_own(monkeypatch):
    settings = ArenaSettings(operators={"anna": "ANNA_TOKEN", "ben": "BEN_TOKEN"})
    monkeypatch.delenv("ARENA_ADMIN_TOKEN", raising=False)
    monkeypatch.setenv("ANNA_TOKEN", "0123456789abcdef")
    with pytest.raises(BadInput, match="operator 'ben': the variable that holds the token is not set"):
        operator_tokens(settings)
    monkeypatch.setenv("BEN_TOKEN", "0123456789abcdef")
    with pytest.raises(BadInput, match="operator 'ben' has a token that somebody else has"):
        operator_tokens(settings)
    monkeypatch.setenv("BEN_TOKEN", "fedcba9876543210")
    assert operator_tokens(settings) == {"0123456789abcdef": "anna", "fedcba9876543210": "ben"}


def test_a_price_counts_at_once(build):
    built = build()
    assert built.arena.figures.price("good-model") is None
    sent(built, "price", {"model": "good-model", "input": "0.5", "output": "2"})
    assert built.arena.figures.price("good-model").model_dump() == {
        "input_usd_per_million": 0.5,
        "output_usd_per_million": 2.0,
    }
    sent(built, "price", {"model": "good-model", "input": "", "output": ""})
    assert built.arena.figures.price("good-model") is None
    assert abouts(built) == [
        "price of good-model: $0.5 in, $2 out a million tokens",
        "price of good-model: that of the models file",
    ]


def test_reasons_are_offered_at_once(build):
    built = build()
    sent(built, "reasons", {"value": "better: {kind_words: {en: Kinder}}"})

    async def battle():
        conversation = await built.say()
        await built.finished(conversation)
        await built.arena.vote(conversation, RecordType.LEFT_VOTE, VISIT)
        with pytest.raises(Refused, match="does not fit"):
            await built.arena.give_reason(conversation, ["clear"], "", [], VISIT)
        await built.arena.give_reason(conversation, ["kind_words"], "", [], VISIT)

    asyncio.run(battle())
    assert [record.get("reason") for record, _ in built.seen()][-1] == "Kinder"
    sent(built, "reasons", {"value": ""})
    assert "clear" in built.arena.reasons.fitting(RecordType.LEFT_VOTE)


def test_what_the_page_shows_to_edit_is_taken_as_it_is(build):
    built = build()

    async def shown():
        async with operator(built) as client:
            return (await client.get("/figures.json")).json()["texts"]

    texts = asyncio.run(shown())
    for what in ("reasons", "starters"):
        assert "Done." in sent(built, what, {"value": texts[what]}).text
    assert yaml.safe_load(texts["reasons"])["better"]["clear"]["en"] == "Clearer"


def test_the_open_page_changes_its_starter_prompts(build, admission):
    built = build()
    app = application(built, admission)
    starters = "categories: [{title: {en: Ask}, prompts: {en: [What is <new>?], de: [Was ist neu?]}}]"

    async def page(language):
        return (await Page(app, language).client.get("/")).text

    sent(built, "starters", {"value": starters})
    assert "What is &lt;new&gt;?" in asyncio.run(page("fr")) and "Was ist neu?" in asyncio.run(page("de"))
    sent(built, "languages", {"language": ["de", "fr"]})
    assert '<html lang="de"' in asyncio.run(page("ja")), "English is not offered any more"
    assert '<html lang="fr"' in asyncio.run(page("en;q=0.4, fr;q=0.2"))
    sent(built, "languages", {"language": ["en", "fr"]})
    assert '<html lang="en"' in asyncio.run(page("ja"))


def test_whoever_accepted_an_older_version_is_asked_again(build, admission):
    built = build()
    app = application(built, admission)
    said = {"mode": "battle", "text": "Hello"}

    async def visits():
        visitor = Page(app, "de")
        await visitor.begin()
        assert "number" in (await visitor.client.post("/say", json=said)).json()
        async with operator(built) as client:
            await client.post("/terms", data=TERMS)
        assert (await visitor.client.post("/say", json=said)).json()["key"] == "terms_first"
        page = (await visitor.client.get("/")).text
        assert "Sei nett." in page and "Fassung 2026-12" in page and 'data-accepted=""' in page
        await visitor.client.post("/terms")
        number = (await visitor.client.post("/say", json=said)).json()["number"]
        await visitor.client.get(f"/c/{number}/events")
        other = Page(app, "ja")
        assert "Be kind." in (await other.client.get("/")).text

    asyncio.run(visits())
    versions = [record["arena"]["terms"]["version"] for record, _ in built.seen()]
    assert versions[-1] == built.arena.texts.terms_version("de") != versions[0]
    (published,) = json.loads((built.folder / "admin.json").read_text())["terms"]
    assert published["name"] == "2026-12" and abouts(built) == ["terms of version 2026-12: de, en"]


@pytest.mark.parametrize(
    ("again", "error"),
    [
        (TERMS | {"version": "2027"}, "change them, or leave them"),
        (TERMS | {"text_en": "Be."}, "already; give another"),
    ],
)
def test_a_version_of_terms_is_published_once(build, again, error):
    built = build()
    sent(built, "terms", TERMS)
    told = sent(built, "terms", again)
    assert told.status_code == 422 and error in told.text and len(built.arena.steering.now().terms) == 1


def beside(built, change, what: str, form: dict) -> httpx.Response:
    """The answer to one form that comes while another process of the arena makes a change."""
    other, answers = Steering(built.folder), list[httpx.Response]()
    with other.alone():
        asking = Thread(target=lambda: answers.append(sent(built, what, form)))
        asking.start()
        asking.join(0.5)
        assert asking.is_alive(), "it waits for the change"
        change(other)
    asking.join()
    return answers[0]


def test_of_two_operators_at_once_one_publishes_a_version_of_terms(build):
    built = build()
    terms = TermsVersion(name="2026-12", at=datetime.now(UTC), texts={"en": "Be brave."})
    told = beside(built, lambda other: other.publish_terms(terms), "terms", TERMS)
    assert told.status_code == 422 and "already; give another" in told.text
    assert [terms.texts for terms in built.arena.steering.now().terms] == [{"en": "Be brave."}]


def test_of_two_operators_at_once_one_removes_the_last_model_but_one(build):
    models = {"good-model": Scripted(), "second-model": Scripted(), "new-model": Scripted(), "newer-model": Scripted()}
    built = build(models)
    for name in ("new-model", "newer-model"):
        sent(built, "serve", {"value": ENTRY.replace("new-model", name)})
    for name in ("good-model", "second-model"):
        sent(built, "weight", {"model": name, "value": "0"})
    told = beside(built, lambda other: other.weigh("newer-model", 0), "drop", {"model": "new-model"})
    assert told.status_code == 422 and "a battle needs two" in told.text


FORMS = {
    "reasons": ({"value": "better: {first: {en: First}}"}, {"value": "better: {second: {en: Second}}"}),
    "starters": (
        {"value": "categories: [{title: {en: A}, prompts: {en: [First]}}]"},
        {"value": "categories: [{title: {en: A}, prompts: {en: [Second]}}]"},
    ),
    "terms": (TERMS, TERMS | {"version": "2027-01", "text_en": "Be second."}),
    "languages": ({"language": ["en", "de"]}, {"language": ["en", "fr"]}),
}


@pytest.mark.parametrize("what", FORMS)
def test_an_operator_overwrites_what_another_changed_meanwhile_only_when_told_of_it(build, what):
    built, (first, second) = build(), FORMS[what]

    async def opened() -> dict[str, str]:
        async with operator(built) as client:
            page = (await client.get("/")).text
        return {"seen": page.partition(f'action="/{what}"')[2].partition('name="seen" value="')[2].partition('"')[0]}

    pages = [asyncio.run(opened()) for _ in range(2)]
    assert "Done." in sent(built, what, first | pages[0]).text
    state = built.arena.steering.now()
    told = sent(built, what, second | pages[1], "the token of ben")
    assert told.status_code == 422 and f"{what} were changed since this page was opened" in told.text
    assert built.arena.steering.now() == state
    assert "Done." in sent(built, what, second | asyncio.run(opened()), "the token of ben").text
    assert len(abouts(built)) == 2


def test_changes_that_do_not_fit_another_start_stop_it_in_one_line(build, tmp_path):
    built = build()
    picture = "categories: [{title: {en: A}, prompts: {en: [{text: B, picture: coffee.png}]}}]"
    sent(built, "starters", {"value": picture})
    state = json.loads((built.folder / "admin.json").read_text())
    state["starters"] = picture.replace("coffee.png", "gone.png")
    (built.folder / "admin.json").write_text(json.dumps(state))
    with pytest.raises(BadInput, match=r"no picture 'gone.png'"):
        build()


def test_a_model_of_the_admin_page_outlives_a_restart(build):
    built = build()
    sent(built, "serve", {"value": ENTRY})
    model = ArenaModel(**yaml.safe_load(ENTRY))
    assert Steering(built.folder).now().models == [model]
