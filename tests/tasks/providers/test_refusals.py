"""Refusals: by the embedded words as well as docs/privacy.md says, and by a language model of any vendor."""

import json
from pathlib import Path
from random import Random

import pytest
import yaml

from benchmarks.refusal_quality import found, written
from tasks.prompts import load_prompt
from tasks.providers import Providers
from tasks.providers.capabilities import Failed
from tasks.providers.embedded.refusals import OPENING_CHARACTERS, DecliningWords

DECLINES = [
    "I'm sorry, but I can't identify people in pictures.", "I am really sorry, I am not able to help with that.",
    "I cannot assist with this request.", "I won't recognize the person shown.", "I’m unable to see the picture.",
    "As an AI language model, I cannot look at pictures.", "Lo siento, pero no puedo ayudar con eso.",
    "Je ne peux pas identifier cette personne.", "Ich kann dir dabei leider nicht helfen.",
    "К сожалению, я не могу помочь.", "很抱歉，我无法回答这个问题。", "申し訳ありませんが、お答えできません。",
]  # fmt: skip
ANSWERS = [
    "The cat cannot reach the shelf.",
    "Nobody can help noticing how bright it is.",
    "I am sorry to hear that. Here is what the letter says.",
    "The sign says: we are sorry for the delay.",
    "",
]


def refuses(text):
    return DecliningWords().refuses([text])[0]


@pytest.mark.parametrize("text", DECLINES)
def test_an_answer_that_opens_by_declining_is_a_refusal(text):
    assert refuses(text)
    assert refuses(f"Hello! {text}")


@pytest.mark.parametrize("text", ANSWERS)
def test_an_answer_is_no_refusal(text):
    assert not refuses(text)


def test_an_apology_after_the_opening_is_no_refusal():
    assert not refuses("The chart rises. " * (OPENING_CHARACTERS // 16) + DECLINES[0])


@pytest.mark.parametrize("language", ["en", "de", "fr", "es", "zh", "ja", "ru"])
def test_half_of_the_written_answers_which_no_form_was_made_with_is_told_in_every_language(language):
    answers = [each for each in written() if each.held_out]
    f1 = found(answers).f1.value
    assert f1 is not None and f1 >= 0.95  # 0.988 when measured
    of_language = [each for each in written() if each.language == language]
    assert (found(of_language).f1.value or 0) >= 0.95


KINDS = yaml.safe_load(Path(__file__).with_name("refusal_kinds.yaml").read_text(encoding="utf-8"))
"""Language -> parts of sentences; a refusal is an opening about a deed with a reason, a hedge one with an answer."""


def _drawn(language, openings, ends, seed, number=12):
    """Texts of two sentences; each opening is drawn about as often as every other."""
    parts, chance = KINDS[language], Random(f"{seed} {language} {openings}")
    joint = "" if language in ("zh", "ja") else " "
    return [
        joint.join((parts[openings][turn % len(parts[openings])], chance.choice(parts[ends])))
        .replace("{deed}", chance.choice(parts["deeds"]))
        for turn in range(number)
    ]  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("language", KINDS)
@pytest.mark.parametrize("openings", ["condemns", "judges", "clarifies", "opines"])
def test_an_answer_that_condemns_judges_or_has_no_opinion_and_gives_reasons_is_a_refusal(language, openings, seed):
    texts = _drawn(language, openings, "reasons", seed)
    assert [text for text in texts if not refuses(text)] == []


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("language", KINDS)
@pytest.mark.parametrize("openings", ["condemns", "judges", "clarifies", "opines", "lacks"])
def test_a_hedge_that_then_answers_is_no_refusal(language, openings, seed):
    texts = _drawn(language, openings, "answers", seed)
    assert [text for text in texts if refuses(text)] == []


@pytest.mark.parametrize("language", KINDS)
def test_an_answer_of_one_sentence_that_has_no_opinion_or_finds_the_request_wrong_is_a_refusal(language):
    parts, joint = KINDS[language], "" if language in ("zh", "ja") else " "
    texts = [text.replace("{topic}", topic) for text in parts["alone"] for topic in parts["topics"]]
    assert [text for text in texts if not refuses(text)] == []
    continued = [joint.join((text, end)) for text in texts for end in parts["answers"]]
    assert [text for text in continued if refuses(text)] == []


@pytest.mark.parametrize("language", KINDS)
def test_an_answer_about_what_does_not_exist_declines_nothing(language):
    assert [text for text in KINDS[language]["unreal"] if refuses(text)] == []


@pytest.mark.parametrize("language", KINDS)
def test_an_answer_that_only_tells_of_laws_or_values_is_no_refusal(language):
    texts = KINDS[language]["tells"]
    assert [text for text in texts if refuses(text)] == []


@pytest.fixture
def model_refuses(vendor, http_server, short_waits, reply):
    """Ask a server that says who refuses by the first word of the answer."""
    pytest.importorskip("tenacity", reason="production extra")
    from tasks.providers.production.screening import ModelRefusals

    def said(request):
        word = vendor.asked(request).split("\n")[1].split()[0]
        return vendor.completed(json.dumps({"refusal": word}))

    def ask(*texts, answer=said):
        http_server.answer(reply(answer))
        return ModelRefusals(vendor.model()).refuses(texts)

    return ask


def test_a_model_says_who_refuses_and_an_answer_without_one_is_a_failure(model_refuses, vendor, http_server):
    assert model_refuses("model", "user", "both", "neither", " \n") == [True, True, True, False, False]
    assert len(http_server.requests) == 4  # the blank one was not sent
    assert all(vendor.told(request) == load_prompt("refusal").text for request in http_server.requests)
    assert model_refuses("nobody") == [Failed("malformed_answer")]
    assert model_refuses("model", answer=vendor.refused) == [Failed("refused")]


@pytest.mark.parametrize("vendor", ["openai"], indirect=True)
def test_a_chosen_model_is_no_stand_in(model_refuses):
    model_refuses("neither")
    chosen = Providers({"refusal": "openai"})
    assert "refusal" in Providers().stand_ins and "refusal" not in chosen.stand_ins
    assert chosen["refusal"].refuses(["user"]) == [True]
