"""`curate estimate` counts items without a signal and sends nothing; `--budget` is checked before any work."""

import json
import shutil
import sys
from datetime import timedelta

import pytest

from schemas.run import Use
from schemas.settings import Settings
from schemas.tags import Categories
from tasks.providers import Providers
from tasks.providers.capabilities import Failed
from tasks.runtime.budget import ledger, start_ledger
from tasks.signals.registry import signal_of
from tasks.storage.records import latest_run_record
from tasks.storage.tables import Store
from tests.asked_bench import benched, models_file
from tests.builders import NOON, conversation, decision, drawn_image, image, store_with
from tests.counting_server import CountingServer
from tests.http_server import Reply
from tests.visit_bench import visit_bench

pytest.importorskip("openai", reason="production extra")
ASK = ("--provider", "categories=openai")


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")  # nobody listens there
    shown = drawn_image(1)
    chats = [conversation(f"c{n}", f"Question {n}?", "Answer.", image_ids=[shown.image_id]) for n in range(3)]
    same = conversation("c9", "Question 0?", "Another answer.", image_ids=[shown.image_id])
    chats.append(same)
    return store_with(tmp_path, conversations=chats, images=[image(shown)], decisions=map(decision, chats))


def _rows(curate, store, *more):
    code, out, err = curate("estimate", "--store", store.root, *ASK, "--json", *more)
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


def test_prompts_pieces_of_text_images_and_calls_a_tag_are_counted_once_and_a_batch_costs_half(curate, store):
    single, batch = _rows(curate, store)
    assert (single["mode"], single["items"], single["calls"]) == ("one by one", 3, 3)
    assert batch["usd"] == pytest.approx(single["usd"] / 2)
    assert 0 < single["usd"] < single["usd_most"]
    chosen = ("--provider", "moderation=openai", "--provider", "image_moderation=openai")
    code, out, err = curate("estimate", "--store", store.root, "--json", *chosen)
    assert code == 0, err
    images, texts = (json.loads(line) for line in out.splitlines())
    assert (texts["signals"], texts["items"], texts["calls"], texts["units"]) == ("moderation", 5, 1, 5)
    assert (images["signals"], images["items"], images["calls"], images["units"]) == ("image_moderation", 1, 1, 1)
    rows = _rows(curate, store, "--provider", "categories=openai_each_tag", "--provider", "criteria=openai")
    calls = {row["signals"]: row["calls"] for row in rows if row["mode"] == "one by one"}
    assert calls == {"categories": 3 * 8, "criteria": 3}
    code, out, _ = curate("estimate", "--store", store.root)
    assert code == 0
    assert "would cost nothing" in out


def test_before_anything_was_decided_some_documents_are_screened(curate, prefect_server, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    monkeypatch.setattr("flows.running.costs.TRIED", 40)
    for module in ("flows.running.costs", "tasks.signals.steps"):
        monkeypatch.setattr(f"{module}.DECIDED_MIN", 20)
    words = ["giraffe", "receipt", "triangle", "kettle", "harbour", "violin"]
    asked = [f"{words[n % 6]} {n}" + (" write to ann@example.com" if n % 3 == 0 else "") for n in range(90)]
    chats = [conversation(f"c{n}", text, f"Answer {n}.") for n, text in enumerate(asked)]
    store = store_with(tmp_path, conversations=chats)
    single, _ = _rows(curate, store)
    assert single["items"] == pytest.approx(60, abs=9)  # of 40 documents, a share is known to 7 points
    assert store.parts("decisions") == store.parts("signals/text_pii") == []


def test_what_is_measured_already_costs_nothing(curate, store):
    signal = signal_of("categories", Providers({"categories": "openai"}))
    ids = store.read("conversations")["document_id"].unique()
    key = {"version": signal.version, "provider": "openai", "measured_at": NOON}
    labels = dict.fromkeys(Categories.model_fields, False)
    from tests.builders import append_rows

    append_rows(store, {"categories": [{"content_id": each, **key, **labels} for each in ids[:2]]})
    assert {row["items"] for row in _rows(curate, store)} == {1}


def test_a_budget_without_a_price_or_a_batch_without_a_provider_is_one_clear_line(refused, store, tmp_path):
    prices = tmp_path / "mine.yaml"
    prices.write_text("tokens: {}\n")
    err = refused("measure", "--store", store.root, *ASK, "--budget", "1", "--prices", prices)
    assert "no price for 'openai-" in err
    assert "--batch" in refused("measure", "--store", store.root, "--batch")


def test_a_stage_deployed_alone_stops_in_the_middle_at_its_budget_and_the_next_run_goes_on(
    prefect_server, http_server, tmp_path, monkeypatch
):
    from flows.stages import describe

    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{http_server.url}/v1")
    http_server.answer(Reply(answered(json.dumps(dict.fromkeys(Categories.model_fields, False)))))
    chats = [conversation(f"c{n}", f"Question {n}?", "Answer.") for n in range(30)]
    store = store_with(tmp_path, conversations=chats, decisions=[decision(chat) for chat in chats])

    def night(budget):
        asks = {"categories": "openai"}
        report = describe(Settings(store=store.root, providers=asks, budget_usd=budget, workers=2))[-1]
        record = json.loads(store.read_bytes(latest_run_record(store)))
        return report.failures.get("categories: budget_reached", 0), record["stages"][-1]["use"]

    left, use = night(0.03)
    assert 0 < left < 30
    (used,) = use.values()
    assert (used["calls"], used["usd"] <= 0.03) == (30 - left, True)
    left_then, use = night(None)
    assert (left_then, [used["calls"] for used in use.values()]) == (0, [left])
    assert store.read("signals/categories").height == len(http_server.requests) == 30


def answered(content):
    message = {"role": "assistant", "content": content}
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    said = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": usage}
    return said | {"choices": [{"index": 0, "finish_reason": "stop", "message": message}]}


def test_answers_that_would_be_released_are_counted_when_asked_for(curate, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    store = benched(tmp_path / "s", 2, {"m": "One answer.", "n": "Another answer."})  # both to both prompts
    chosen = ("estimate", "--store", store.root, "--provider", "moderation=openai", "--json")
    counts = [json.loads(curate(*chosen, *more)[1])["items"] for more in ((), ("--with-answers",))]
    assert counts[1] - counts[0] == 2


def test_topic_names_are_counted_for_as_many_topics_as_there_can_be(curate, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    chats = [conversation(f"c{n}", f"Question {n}?", "Answer.") for n in range(23)]
    store = store_with(tmp_path, conversations=chats, decisions=map(decision, chats))
    code, out, err = curate("estimate", "--store", store.root, "--provider", "topic_names=openai", "--json")
    assert code == 0, err
    (row,) = map(json.loads, out.splitlines())
    assert (row["calls"], row["mode"]) == (23 // 5, "one by one")  # the smallest topic has five documents
    assert row["input_tokens"] > row["calls"] * 1100


def test_objects_that_vision_would_name_are_counted_with_the_writing(curate, tmp_path, monkeypatch):
    pytest.importorskip("google.cloud.vision", reason="production extra")
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    monkeypatch.setenv("CURATE_VISION_ENDPOINT", "127.0.0.1:9")
    store, writer = visit_bench(tmp_path / "s", {}), models_file(tmp_path, "http://127.0.0.1:9/v1", "w")
    asked = ("estimate", "--store", store.root, "--bench", "b", "--writer", writer, "--json")
    code, out, err = curate(*asked, "--provider", "objects=google_vision")
    assert code == 0, err
    row = json.loads(out.splitlines()[-1])
    assert (row["service"], row["signals"], row["items"], row["units"]) == ("google_vision", "objects", 2, 2)
    assert "objects" not in curate(*asked)[1]


ASKED = ("categories", "criteria", "taxonomy", "moderation")


def _estimated(curate, *where):
    """What `curate estimate` says of the questions, and of moderation."""
    chosen = [word for name in ASKED for word in ("--provider", f"{name}=openai")]
    code, out, err = curate("estimate", *where, "--json", *chosen)
    assert code == 0, err
    rows = [row for row in map(json.loads, out.splitlines()) if row["mode"] == "one by one"]
    names = ("calls", "input_tokens", "output_tokens")
    said = {name: sum(row[name] for row in rows if row["signals"] != "moderation") for name in names}
    (moderated,) = (row for row in rows if row["signals"] == "moderation")
    return said | {"moderation_calls": moderated["calls"], "moderation_units": moderated["units"]}


def _counted(store, monkeypatch):
    """What a server counts when a decided store is measured."""
    from flows.stages import measure

    server = CountingServer()
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
    try:
        measure(Settings(store=store.root, providers=dict.fromkeys(ASKED, "openai")))
        counted = server.counted()
    finally:
        server.close()
    return {name: pytest.approx(count, rel=0.1 if "calls" in name else 0.15) for name, count in counted.items()}


def test_an_estimate_is_what_the_server_then_counts(prefect_server, curate, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    shown = [drawn_image(n, size) for n, size in enumerate([(64, 64), (900, 700), (2400, 600)])]
    words = "What does this one say, and why does it matter to people who read it slowly? "
    chats = [
        conversation(f"c{n}", f"{n} {words * (n + 1)}", f"{n} answers. " * 9 * n, image_ids=[s.image_id])
        for n, s in ((n, shown[n % 3]) for n in range(40))
    ]
    store = store_with(tmp_path, conversations=chats, images=map(image, shown), decisions=map(decision, chats))
    said = _estimated(curate, "--store", store.root)
    assert _counted(store, monkeypatch) == said


def test_an_estimate_of_logs_is_what_the_server_counts_of_what_the_policy_kept(curated, curate, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    said = _estimated(curate, "--logs", curated.settings.logs, "--store", tmp_path / "new")
    store = Store(str(shutil.copytree(curated.settings.store, tmp_path / "store")))
    assert 0 < store.read("decisions")["kept_by_screening"].mean() < 0.95
    assert _counted(store, monkeypatch) == said


ACME = """
from schemas.signals import Moderation
from schemas.tags import Criteria
from tasks.providers.cost import ExpectedUse


class Paid:
    version, service = "1", "acme"


class Nsfw(Paid):
    def nsfw_probabilities(self, images): ...


class Words(Paid):
    def expected_use(self, items, count):
        return ExpectedUse(calls=1, units=sum(len(item.text.split()) for item in items))

    def moderate(self, texts):
        return [Moderation(flagged_probability=0, flagged_categories=[], category_scores=[])] * len(texts)


class Tags(Paid):
    looks_at_images, service = False, "acme-7b"

    def expected_use(self, items, count):
        sizes = [size for item in items for size in item.images]
        return ExpectedUse(len(items), 0, sum(count(item.text) for item in items), sizes, 10 * len(items), 99)

    def tag(self, documents): ...


class Names(Paid):
    def name_topics(self, topics): ...


class Wrong(Nsfw):
    def expected_use(self, items, count): return 7
"""
PRICED = """
units: {acme: {usd_per_thousand: 500}}
tokens:
  acme-7b:
    input_usd_per_million: 1000000
    output_usd_per_million: 1000000
    image: {tile_pixels: 8, tiles_max: 9, tokens_a_tile: 2}
"""


@pytest.fixture
def acme(tmp_path, monkeypatch):
    """Chooses paid providers of another package, as arguments, by capability."""
    (tmp_path / "acme.py").write_text(ACME)
    monkeypatch.syspath_prepend(tmp_path)
    yield lambda **chosen: [part for c, name in chosen.items() for part in ("--provider", f"{c}=acme:{name}")]
    sys.modules.pop("acme", None)


def test_a_paid_provider_of_another_package_says_what_it_sends_and_costs_that(curate, store, acme, tmp_path):
    chosen = acme(nsfw="Nsfw", moderation="Words", criteria="Tags", topic_names="Names")
    asked = ["estimate", "--store", store.root, *chosen]
    code, out, _ = curate(*asked)
    assert (code, out.splitlines()) == (
        0,
        [
            "acme  one by one  nsfw: 1 items, 1 calls, 1 units, no price known under `units`: give --prices FILE",
            "acme  one by one  moderation: 5 items, 1 calls, 9 units, no price known under `units`: give --prices FILE",
            "acme-7b  one by one  criteria: 3 items, 3 calls, 12 + 30 tokens, no price known under `tokens`: give "
            "--prices FILE",
            "acme  one by one  topic_names (at most): 0 items, 0 calls, 0 + 0 tokens, no price known: give "
            "--prices FILE",
        ],
    )
    (tmp_path / "mine.yaml").write_text(PRICED)
    rows = [json.loads(line) for line in curate(*asked, "--prices", tmp_path / "mine.yaml", "--json")[1].splitlines()]
    tokens = 12 + 3 * 9 * 2  # of the texts, and of an image of 9 tiles in each document
    assert [(row["usd"], row["usd_most"]) for row in rows] == [
        (0.5, 0.5),
        (4.5, 4.5),
        (tokens + 30, tokens + 99),
        (0, 0),
    ]


def test_a_provider_that_cannot_say_what_it_sends_is_one_clear_line(refused, store, acme):
    err = refused("estimate", "--store", store.root, *acme(nsfw="Wrong"))
    assert "provider of service 'acme': expected_use must return an ExpectedUse, and it gave 7" in err


def test_a_budget_holds_a_provider_of_another_package_that_says_what_it_sends(acme, tmp_path):
    (tmp_path / "mine.yaml").write_text(PRICED)
    words = Providers({"moderation": "acme:Words"})["moderation"]
    start_ledger(1, str(tmp_path / "mine.yaml"))
    assert words.moderate(["two words"] * 2) == [Failed("budget_reached")] * 2
    assert [each.flagged_probability for each in words.moderate(["two words"])] == [0]
    assert ledger().use()["acme"] == Use(calls=1, units=2, usd_unconfirmed=1)
    start_ledger()


def test_one_days_failures_are_estimated_and_measured_again_and_no_other_days(
    prefect_server, http_server, curate, tmp_path, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{http_server.url}/v1")
    http_server.answer(Reply(answered(json.dumps(dict.fromkeys(Categories.model_fields, False)))))
    days = [NOON.date() - timedelta(days=n) for n in range(3)]
    shown = [drawn_image(n) for n in range(3)]
    chats = [
        conversation(f"c{n}", f"Question {n}?", "Answer.", image_ids=[s.image_id]).model_copy(update={"day": day})
        for n, (s, day) in enumerate(zip(shown, days, strict=True))
    ]
    store = store_with(tmp_path, conversations=chats, images=map(image, shown), decisions=map(decision, chats))
    window = ("--since", days[1], "--until", days[1])
    assert {row["items"] for row in _rows(curate, store, *window)} == {1}
    code, _, err = curate("measure", "--store", store.root, *ASK, *window)
    assert code == 0, err
    assert store.read("signals/categories")["content_id"].to_list() == [chats[1].document_id]
    assert store.read("signals/nsfw")["content_id"].to_list() == [shown[1].image_id]
    assert len(http_server.requests) == 1
    code, _, err = curate("measure", "--store", store.root, *ASK, "--since", "2001-01-01", "--until", "2001-01-02")
    assert code == 2 and "has no conversation from --since 2001-01-01 to --until 2001-01-02; it holds 20" in err


def test_of_new_conversations_the_share_that_was_kept_so_far_is_counted(curate, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    chats = [conversation(f"c{n}", f"Question {n}?", "Answer.") for n in range(220)]
    decided = [decision(chat, *["pii_text"][: n % 4 == 0]) for n, chat in enumerate(chats[:120])]
    store = store_with(tmp_path, conversations=chats, decisions=decided)
    assert {row["items"] for row in _rows(curate, store)} == {90 + 75}
