"""Names of topics: short, unique, of words that several people used, in any script; tags where words say nothing."""

import numpy as np
import polars as pl
import pytest

from tasks.providers.capabilities import Failed, TopicEvidence
from tasks.providers.embedded.texts import Keywords
from tasks.storage.tables import Store
from tasks.topics.descriptions import topic_evidence, topic_names
from tasks.topics.words import words

TOKEN = "eyJhbGciOiJIUzI" * 135
SCHEMA = {"text": pl.String, "person": pl.String, "language": pl.String, "tags": pl.List(pl.String)}


def _evidence(texts, people=None, language="en", tags=()):
    people = people or [f"user {n}" for n in range(len(texts))]
    rows = [(text, who, language, list(tags)) for text, who in zip(texts, people, strict=True)]
    documents = pl.DataFrame(rows, SCHEMA, orient="row")
    return topic_evidence(documents, np.zeros(len(texts), np.int32), np.ones((len(texts), 2), np.float32))[0]


def _names(folder, evidence, namer=None):
    labels = np.arange(len(evidence), dtype=np.int32)
    ids = pl.Series([f"d{n}" for n in labels])
    return topic_names(Store.open(str(folder)), evidence, ids, labels, namer or Keywords())


@pytest.mark.parametrize("secret", [TOKEN, "xqzptlk", "user_4711", "a7f9c2"])
def test_what_one_person_typed_in_every_prompt_names_no_topic(secret):
    texts = [f"Which lighthouse is this? {secret}"] * 8 + ["The lighthouse of which harbour? Any harbour."] * 2
    found = _evidence(texts, people=["one"] * 8 + ["two", "three"])
    assert found.keywords == ("lighthouse", "harbour")


@pytest.mark.parametrize("text", ["What does the figure show?", "Please describe this image.", "1 2 3", "?"])
def test_words_of_every_prompt_say_nothing_and_tags_name_the_topic(tmp_path, text):
    found = _evidence([text] * 4, tags=["Animals", "captioning"])
    assert found.keywords == ()
    assert _names(tmp_path, [found])[0] == "Animals, captioning"


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("请详细描述这张照片中的建筑风格和历史背景", "zh", {"建筑", "风格", "历史"}),
        ("この画像に写っている三角形の面積を計算してください。", "ja", {"三角", "面積", "計算"}),
        ("ช่วยอธิบายรายละเอียดของอาหารในภาพ", "th", {"อาหาร"}),
        ("이 건물의 건축 양식은 무엇입니까?", "ko", {"건축"}),
        ("यह हिंदी किताब कौन सी है?", "hi", {"हिंदी", "किताब"}),
        ("¿Cuál es el perímetro de la figura y por qué?", "es", {"perímetro"}),
    ],
)
def test_every_script_is_cut_into_words_without_function_words(text, language, expected):
    found = words(text, language)
    assert expected <= set(found)
    assert max(map(len, found)) <= 10
    assert not set(found) & {"この", "画像", "ください", "图片", "ภาพ", "cuál", "por", "है", "यह"}


def test_names_are_unique_and_have_at_most_60_characters(tmp_path):
    alike = TopicEvidence(("fish", "river"), ("Which fish?",))
    long = TopicEvidence(tuple(f"{'immeasurably'}{chr(97 + n)}{'rocks'}" for n in range(6)), ())
    names = _names(tmp_path, [alike, TopicEvidence(("fish", "river", "lake"), ("Which fish?",)), alike, long, long])
    assert len(set(names.values())) == 6
    assert max(map(len, names.values())) <= 60
    assert all("fish" in names[n] for n in range(3))


class _Unable:
    """A service that is down."""

    version = "down"

    def name_topics(self, topics):
        return [Failed("timeout") for _ in topics]


def test_a_topic_without_words_is_named_by_its_tags_when_the_service_fails(tmp_path):
    assert _names(tmp_path, [TopicEvidence((), (), ("Plants",))], _Unable()) == {0: "Plants", -1: "outliers"}


def test_words_of_a_name_are_near_the_prompts_and_unlike_each_other():
    mmr = pytest.importorskip("bertopic.representation._mmr").mmr
    from tasks.providers.embedded.text_embedding import sentence_encoder
    from tasks.providers.embedded.texts import DIVERSITY

    candidates = ("dog", "dogs", "breed", "puppy", "leash", "canine", "park")
    prompt = "Which breed is this dog, and is it a puppy?"
    embed = sentence_encoder().embed_texts
    theirs = mmr(embed([prompt]), embed(candidates), list(candidates), DIVERSITY, 4)
    (ours,) = Keywords().name_topics([TopicEvidence(candidates, (prompt,))])
    assert ours.split(", ") == theirs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"Find the area of $\triangle ABC$ if $\overline{CD} = 4\mathrm{cm}$ and \(\mathrm{cd} \le x\).", ["area"]),
        (r"The speed is \[ v = \frac{ds}{dt} \text{ for the cyclist} \] in $\mathbb{R}$", ["speed", "cyclist"]),
        (
            "\\begin{align*}\n\\mathrm{cd} &= \\mathbf{ab}\n\\end{align*}\nProve the \\textbf{inequality}.",
            ["prove", "inequality"],
        ),
        (r"\section{Results} \includegraphics[width=3cm]{plot_of_rain} Rain \cite{smith}", ["results", "rain"]),
        ("A square ABCD costs $5 or $6 in the shop", ["square", "costs", "shop"]),
        ("Fix the parser:\n```python\ndef spam(eggs):\n    return eggs\n```", ["fix", "parser"]),
        ("Sort wolves\nfor wolf in pack:\n    print(wolf.age)\nint main() {\n  return 0;\n}", ["sort", "wolves"]),
        ('<div class="nav"><a href="https://shop.example/x">Opening hours</a></div>&nbsp;', ["opening", "hours"]),
        ("Why does elif need a nullptr here?", []),
        ("For whom, and in which class, is the return ticket?", ["class", "return", "ticket"]),
    ],
)
def test_latex_code_and_html_give_no_words(text, expected):
    assert words(text) == expected
