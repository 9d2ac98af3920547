"""Pairs, pool, visitors, hidden names, the models file, the boards."""

import json
import re
import shutil
from collections import Counter
from contextvars import copy_context
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from random import Random

import jinja2
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.arena.serving import live_rates
from schemas.asked_model import ArenaModel, AskedModel
from schemas.errors import BadInput, MissingProvider
from schemas.items.conversation import RecordType
from schemas.policy import VoteRules
from tasks.arena import words
from tasks.arena.board import LiveBoard, ReleaseBoard, votes_of
from tasks.arena.entrance import Visitors, key_of
from tasks.arena.logs import Cast, cast_in
from tasks.arena.markdown import html_of
from tasks.arena.models_file import check_arena_keys, read_arena_models
from tasks.arena.names import HIDDEN_NAME, holds_name, names_of, without_names
from tasks.arena.pool import FIRST_SECONDS, Pool, Sampling, draw_pair, for_prompt, read_plan
from tasks.arena.words import page_words
from tasks.review_queue import DrawnQueue, ReviewQueue
from tasks.runtime.untrusted import read_models_list
from tasks.storage.keyed_ids import Pseudonyms

TASKS = Path(__file__).parents[3] / "tasks"
ARENA = TASKS / "arena"
KEY = b"k" * 32
VOTED = ("votes", "feedback")
KNOWN_TAGS = {"p", "br", "sub", "sup", "em", "strong", "s", "code", "pre", "a", "ul", "ol", "li", "blockquote", "hr"}
KNOWN_TAGS |= {"h1", "h2", "h3", "h4", "h5", "h6", "span", "table", "thead", "tbody", "tr", "th", "td"}
KNOWN_ATTRIBUTES = {"href", "title", "rel", "target", "class", "data-display", "start"}


def model(name: str, **given) -> ArenaModel:
    return ArenaModel(name=name, base_url="http://127.0.0.1:1/v1", **given)


def test_pairs_follow_the_weights_sides_are_shuffled_and_narrowing_prefers_pairs_with_few_votes():
    models = [model("a"), model("b", weight=2), model("c"), model("never", weight=0)]
    rng = Random(0)
    drawn = Counter(tuple(each.name for each in draw_pair(for_prompt(models, False), rng).pair) for _ in range(10_000))
    pairs = Counter(frozenset(pair) for pair in drawn.elements())
    assert abs(pairs[frozenset("ab")] / 10_000 - 2 / 5) < 0.02 and abs(pairs[frozenset("ac")] / 10_000 - 1 / 5) < 0.02
    assert abs(drawn["a", "b"] - drawn["b", "a"]) < 300 and "never" not in {n for pair in drawn for n in pair}
    known = Counter({frozenset("ab"): 1_000, frozenset("bc"): 1_000})
    equal = [model(name) for name in "abc"]
    narrow = Counter(
        frozenset(each.name for each in draw_pair(equal, rng, known, Sampling(narrow=True)).pair) for _ in range(1_000)
    )
    assert narrow[frozenset("ac")] > 950
    assert draw_pair(equal[:1], rng) is None


def test_half_of_the_battles_follow_a_plan_and_the_others_the_weights(tmp_path):
    rows = [
        {"goal": "separate", "model": "a", "rival": "b", "votes": 300, "flags": []},
        {"goal": "separate", "model": "b", "rival": "c", "votes": 100, "flags": []},
        {"goal": "separate", "model": "c", "rival": "a", "votes": 9_999_999, "flags": ["too_close"]},
        {"goal": "separate", "model": "a", "rival": "unserved", "votes": 50, "flags": []},
        {"goal": "board", "model": None, "rival": None, "votes": 400, "flags": []},
    ]
    (tmp_path / "plan.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    models, rng = [model(name) for name in "abc"], Random(0)
    plan = read_plan(tmp_path / "plan.jsonl", models)
    assert plan == {frozenset("ab"): 300, frozenset("bc"): 100}
    drawn = Counter(
        frozenset(each.name for each in draw_pair(models, rng, {}, Sampling(plan=plan)).pair) for _ in range(12_000)
    )
    shares = {"ab": 0.5 * 3 / 4 + 0.5 / 3, "bc": 0.5 / 4 + 0.5 / 3, "ac": 0.5 / 3}
    assert all(abs(drawn[frozenset(pair)] / 12_000 - share) < 0.02 for pair, share in shares.items())
    for content in ('{"model": "a"}\n', json.dumps(rows[3])):
        (tmp_path / "plan.jsonl").write_text(content)
        with pytest.raises(BadInput, match=r"is not what|asks for no vote on two of a, b, c"):
            read_plan(tmp_path / "plan.jsonl", models)


@pytest.mark.parametrize(
    ("sampling", "at_once", "after"),
    [
        (Sampling(), 1.0, 1.0),  # shares of the new model as a multiple of an equal share: in 300 battles, after 6,000
        (Sampling(boost=4), 2.1, 1.0),
        (Sampling(equal=True), 2.1, 1.0),
    ],
    ids=["weights", "boost", "equal"],
)
def test_a_new_model_is_drawn_by_the_rule_and_what_the_log_says_adds_up_to_the_battles(sampling, at_once, after):
    names, rng = "abcdef", Random(7)
    models = [model(name) for name in names]
    votes = Counter({frozenset(pair): 40 for pair in ("ab", "bc", "cd", "de", "ea", "ac", "bd", "ce", "da", "eb")})
    drawn, expected, shares = Counter[str](), Counter[str](), []
    for number in range(6_000):
        found = draw_pair(models, rng, votes, sampling)
        pair = [each.name for each in found.pair]
        votes[frozenset(pair)] += 1
        drawn.update(pair)
        expected.update(found.told["shares"])
        shares.append("f" in pair)
        assert sum(found.told["shares"].values()) == pytest.approx(2, abs=1e-5), number
    equal_share = 2 / len(names)
    assert sum(shares[:60]) / 60 / equal_share == pytest.approx(at_once, abs=0.45)
    assert sum(shares[-3000:]) / 3000 / equal_share == pytest.approx(after, abs=0.1)
    for name in names:  # the deviation of a sum of draws is below sqrt(n / 4)
        assert abs(drawn[name] - expected[name]) < 4 * (6_000 / 4) ** 0.5, "what was drawn is what the log says"
    total = Counter[str]()
    for pair, number in votes.items():
        total.update(dict.fromkeys(pair, number))
    spread = max(total.values()) - min(total.values())
    assert (spread < 100) == sampling.equal, f"votes of all models in the end: {total}"


def test_an_image_draws_vision_models_and_a_text_draws_text_models():
    models = [model("sees", vision=True), model("looks", vision=True), model("reads"), model("listens")]
    assert [each.name for each in for_prompt(models, True)] == ["sees", "looks"]
    assert [each.name for each in for_prompt(models, False)] == ["reads", "listens"]
    assert len(for_prompt(models[:3], False)) == 3, "one text model makes no battle, so all are drawn"


def test_a_model_that_is_down_comes_back():
    now = [0.0]
    pool = Pool([model("a"), model("b")], clock=lambda: now[0])
    for _ in range(3):
        pool.failed("a")
    assert [each.name for each in pool.available()] == ["b"]
    now[0] = FIRST_SECONDS + 1
    assert len(pool.available()) == 2
    pool.failed("a")
    now[0] += FIRST_SECONDS + 1
    assert len(pool.available()) == 1, "the second time lasts longer"
    pool.answered("a")
    assert len(pool.available()) == 2


def test_the_log_has_a_keyed_hash_that_ingest_takes_over_and_headers_count_only_from_own_proxies():
    visitors = Visitors(KEY, messages_a_minute=2, clock=lambda: 0.0)
    logged = visitors.logged("203.0.113.7")
    assert "203" not in logged.partition(":")[0] and "203.0.113.7" not in logged
    assert Pseudonyms(KEY).user_id(logged) == Pseudonyms(KEY).user_id("203.0.113.7")
    other = Pseudonyms(b"o" * 32)
    assert other.user_id(logged) not in (None, logged.rpartition(":")[2]), "of another key: hashed like an address"
    forged = Pseudonyms(KEY).user_id(logged.rpartition(":")[0] + ":not-a-user-id")
    assert forged and len(forged) == 24
    spoofed = {"x-forwarded-for": "1.1.1.1, 198.51.100.2"}
    assert visitors.address("127.0.0.1", spoofed) == "127.0.0.1"
    behind = Visitors(KEY, messages_a_minute=2, proxies=1, raw=True)
    assert behind.address("127.0.0.1", spoofed) == "198.51.100.2" and behind.logged("198.51.100.2") == "198.51.100.2"
    assert [visitors.wait_seconds("a") > 0 for _ in range(3)] == [False, False, True]
    assert visitors.wait_seconds("b") == 0


def test_the_key_is_kept_for_the_owner_alone(tmp_path, monkeypatch):
    monkeypatch.delenv("CURATE_USER_KEY", raising=False)
    key = key_of(tmp_path / "logs")
    assert key_of(tmp_path / "logs") == key and (tmp_path / "logs" / "user_key").stat().st_mode & 0o077 == 0
    (tmp_path / "logs" / "user_key").write_bytes(b"")
    with pytest.raises(BadInput, match="is cut off"):
        key_of(tmp_path / "logs")
    monkeypatch.setenv("CURATE_USER_KEY", "e" * 20)
    assert key_of(tmp_path / "logs") == b"e" * 20


NAMED = [
    model("meridian-omni-2"), model("willow"), model("llama-3"), model("llama-3-70b-instruct"), model("o1"),
    model("command-r"), model("lab", model="meta-lab/Oak-3-8B"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("I am Meridian Omni-2!", f"I am {HIDDEN_NAME}!"),
        ("I am MERIDIAN-OMNI-2.", f"I am {HIDDEN_NAME}."),
        ("the meridian of Greenwich", "the meridian of Greenwich"),
        ("I am llama-3-70b-instruct, not Llama 3.", f"I am {HIDDEN_NAME}, not {HIDDEN_NAME}."),
        ("No, o1 and OAK 3 8B and meta-lab/Oak-3-8B", f"No, {HIDDEN_NAME} and {HIDDEN_NAME} and {HIDDEN_NAME}"),
        ("the command rm -rf, a command. R, O(1), to 1", "the command rm -rf, a command. R, O(1), to 1"),
        ("meridian&#45;omni-**2**, \u2011 command\u2011r", f"{HIDDEN_NAME}**, \u2011 {HIDDEN_NAME}"),
        (
            "me\u200bridian\\-omni\u00ad2 \uff43\uff4fmmand-r &amp; 1 &lt; 2",
            f"{HIDDEN_NAME} {HIDDEN_NAME} &amp; 1 &lt; 2",
        ),
        ("我是willow模型 wil<b>low</b> willows", f"我是{HIDDEN_NAME}模型 {HIDDEN_NAME}</b> willows"),
    ],
)
def test_names_are_hidden_however_they_are_written_also_while_they_come(said, shown):
    names = names_of(NAMED)
    assert without_names(said, names, True) == shown
    assert holds_name(said, names) == (HIDDEN_NAME in shown), "the log says so of the same texts"
    for length in range(len(said)):
        coming = without_names(said[:length], names, False)
        assert shown.startswith(coming), coming


CELLS = """<table>
<thead>
<tr>
<th class="right">a</th>
</tr>
</thead>
<tbody>
<tr>
<td class="right">1</td>
</tr>
</tbody>
</table>"""
LINK = 'rel="noopener noreferrer nofollow ugc" target="_blank"'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<b>x</b> 1 < 2 H<sub>2</sub>O", "<p>&lt;b&gt;x&lt;/b&gt; 1 &lt; 2 H<sub>2</sub>O</p>"),
        ("a<br onclick=x><br>", "<p>a&lt;br onclick=x&gt;<br></p>"),
        ("![a](http://h/b.png)", f'<p>!<a href="http://h/b.png" {LINK}>a</a></p>'),
        ("[a](javascript:x) [a](data:text/html,x)", "<p>[a](javascript:x) [a](data:text/html,x)</p>"),
        ("```html\n<div>$x$</div>\n```", '<pre><code class="language-html">&lt;div&gt;$x$&lt;/div&gt;\n</code></pre>'),
        ('```"onload=x\n```', '<pre><code class="language-&quot;onload=x"></code></pre>'),
        ("so $x<y$, \\(a\\)", '<p>so <span class="math">x&lt;y</span>, <span class="math">a</span></p>'),
        ("$5 and $10, $5-$6, 3$ or 4$, $1,000 or so$", "<p>$5 and $10, $5-$6, 3$ or 4$, $1,000 or so$</p>"),
        ("$$\na\n- b\n$$", '<span class="math" data-display="1">\na\n- b\n</span>'),
        ("|a|\n|-:|\n|1|", CELLS),
        ("`$x$` $unclosed", "<p><code>$x$</code> $unclosed</p>"),
    ],
)
def test_markdown_and_formulas_are_rendered_and_html_images_and_prices_are_text(text, shown):
    assert html_of(text).strip() == shown


@given(st.text(alphabet="<>&\"'`$\\[]()!*_~#| \n-=xab/:;&", max_size=200))
def test_no_text_of_strangers_makes_a_tag_that_the_page_does_not_make(text):
    class Tags(HTMLParser):
        def handle_starttag(self, tag, attrs):
            assert tag in KNOWN_TAGS and {name for name, _ in attrs} <= KNOWN_ATTRIBUTES, text
            assert all(name != "href" or re.match("(?i)https?://|mailto:", value) for name, value in attrs), text

    Tags().feed(html_of(text))


def test_every_text_that_annotators_are_asked_is_in_the_file_of_words():
    for file in TASKS.rglob("*.py"):
        if re.search(r"\((Drawn|Review)Queue\):", file.read_text(encoding="utf-8")):
            import_module(".".join(file.relative_to(TASKS.parent).with_suffix("").parts))
    every_queue = {*ReviewQueue.__subclasses__(), *DrawnQueue.__subclasses__()} - {DrawnQueue}
    queues = {queue for queue in every_queue if queue.__module__.startswith("tasks.")}  # not those of other tests
    asked = {queue.title for queue in queues} | {choice.label for queue in queues for choice in queue.choices}
    assert len(queues) > 8
    assert asked <= set(page_words("en")["task_texts"])

    def german() -> list[str]:
        words.speak("de")
        return [*map(words.task_text, ("Left: answer", "Why do models fail it? Now: <b>{safety}", "Said by nobody"))]

    told = ["Links: Antwort", "Warum scheitern Modelle daran? Bisher: <b>{safety}", "Said by nobody"]
    assert copy_context().run(german) == told


def test_every_word_of_the_page_is_in_the_file_of_words():
    pages = [file.read_text() for file in ARENA.glob("pages/*.html")]
    pages = [re.sub(r"(?s){% block (?:kind|data) %}.*?{% endblock %}", "", page) for page in pages]
    texts = "".join(part for page in pages for _, kind, part in jinja2.Environment().lex(page) if kind == "data")
    assert re.findall(r"[A-Za-z]{2,}", re.sub(r"<[^>]*>", " ", texts)) == [], "a text stands in a template"
    named = set(re.findall(r"\bwords\.([a-z_]+)", "".join(pages)))
    named |= set(re.findall(r'(?:Refused|Ended)\("([a-z_]+)', "".join(file.read_text() for file in ARENA.glob("*.py"))))
    assert len(named) > 80 and named <= page_words().keys()


def test_a_language_file_says_every_word_with_its_values_and_one_that_does_not_is_named(tmp_path, monkeypatch):
    assert {"ar", "de", "en", "es", "fr", "ja", "zh"} <= {*words.LANGUAGES}
    words.check_words()
    for language in words.LANGUAGES:
        keys = page_words(language)["keys"]
        assert all(len({keys[kind] for kind in page_words()[kinds]}) == len(page_words()[kinds]) for kinds in VOTED)
    shutil.copytree(ARENA / "words", tmp_path / "words")
    monkeypatch.setattr(words, "_HERE", tmp_path / "words")
    german = (tmp_path / "words" / "de.yaml").read_text()
    for bad, error in (
        (german.replace("shared:", "# shared:"), r"de\.yaml lacks the word 'shared'"),
        (german + "odd: x\n", r"de\.yaml has, and en\.yaml lacks, the word 'odd'"),
        (german.replace("{seconds} Sekunden", "Sekunden"), r"the word 'too_many' must hold \{seconds\}"),
        (german + ": [", "is not YAML"),
    ):
        (tmp_path / "words" / "de.yaml").write_text(bad)
        words._words.cache_clear()
        with pytest.raises(BadInput, match=error):
            words.check_words()
    words._words.cache_clear()


@pytest.mark.parametrize(
    ("accepted", "lang", "many"),
    [
        ("de-CH,de;q=0.9,en;q=0.8", "de", "12.000"), ("en;q=0.4, pt-BR, fr-CA;q=0.5", "fr", "12\u202f000"),
        ("zh-Hant-TW", "zh", "12,000"), ("AR;q=0.1, en;q=0", "ar", "12,000"), ("de;q=0, *", "en", "12,000"),
        ("de;q=many,\0,;;=,\xff" + ",x" * 9_999, "en", "12,000"), ("", "en", "12,000"),
    ],
)  # fmt: skip
def test_the_language_is_what_the_browser_wants_most_of_those_that_there_are(accepted, lang, many):
    def told():
        words.speak(accepted)
        return words.page_language(), words.number(12_000)

    assert copy_context().run(told) == ({"lang": lang, "dir": "rtl" if lang == "ar" else "ltr"}, many)


GOOD = "{name: a, base_url: 'http://h/v1'}, {name: b, base_url: 'http://h/v1'}"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (f"models: [{GOOD}, {{name: a, base_url: 'http://h'}}]", "'a' stands twice"),
        ("models: [{name: a, base_url: 'http://h/v1'}]", "a battle needs two"),
        (f"models: [{GOOD}, {{name: c, base_url: 'http://h', vision: true}}]", "one model has `vision: true`"),
        (f"models: [{GOOD}, {{name: c, base_url: 'http://h', visoin: true}}]", "Did you mean vision?"),
        (f"models: [{GOOD}, {{name: c, base_url: 'ftp://user:pass@h'}}]", "base_url: .*without a user's name"),
        (f"models: [{GOOD}, {{name: c, base_url: 'http://h', key: sk-12}}]", "not the key"),
        (f"models: [{GOOD}, {{name: \"a\\nb\", base_url: 'http://h'}}]", "printable"),
        ("models: []", "give the list"),
        ("models: [", "is not YAML"),
    ],
)
def test_a_models_file_that_cannot_be_served_is_one_clear_line(tmp_path, text, error):
    file = tmp_path / "models.yaml"
    file.write_text(text)
    with pytest.raises(BadInput, match=error) as refused:
        read_arena_models(file)
    assert "\n" not in str(refused.value) and "sk-12" not in str(refused.value) and "pass" not in str(refused.value)


def test_a_missing_key_is_named_by_its_model(tmp_path, monkeypatch):
    monkeypatch.delenv("LAB_KEY", raising=False)
    file = tmp_path / "models.yaml"
    file.write_text(f"models: [{GOOD}, {{name: c, base_url: 'http://h', key: LAB_KEY}}]")
    with pytest.raises(MissingProvider, match="model 'c'") as refused:
        check_arena_keys(read_arena_models(file))
    assert "LAB_KEY" not in str(refused.value)
    with pytest.raises(BadInput, match="cannot be read"):
        read_arena_models(tmp_path / "none.yaml")


def test_one_models_file_serves_an_arena_and_is_asked_for_answers(tmp_path):
    file = tmp_path / "models.yaml"
    file.write_text(f"models: [{{name: c, base_url: 'http://h/v1', own: true, vision: true, weight: 0}}, {GOOD}]")
    served, asked = read_arena_models(file), read_models_list(file, AskedModel, "", {})
    assert (served[0].name, served[0].vision, served[0].weight) == ("c", True, 0)
    assert [(model.vendor, model.model, model.own) for model in asked] == [
        ("openai", "c", True), ("openai", "a", False), ("openai", "b", False)
    ]  # fmt: skip
    file.write_text(f"models: [{GOOD}, {{name: c, base_url: 'http://h/v1', vendor: gemini}}]")
    with pytest.raises(BadInput, match="unknown vendor 'gemini'"):
        read_arena_models(file)


def test_the_live_board_has_the_order_of_the_votes_and_slices_with_votes_only():
    cast = [Cast("a", "b", RecordType.LEFT_VOTE, True)] * 30 + [Cast("b", "a", RecordType.LEFT_VOTE, True)] * 10
    board = LiveBoard(cast, live_rates(VoteRules()))
    assert board.slices() == ["overall", "with_image", "style_control"]
    rows = board.rows("overall")
    assert [(row.model, row.battles) for row in rows] == [("a", 40), ("b", 40)]
    assert round(rows[0].rating - rows[1].rating) in (190, 191, 192), "400 log10(30/10)"
    assert votes_of(rows) == "40 votes on 2 models" and votes_of([]) == "No votes yet."
    assert board.rows("text_only") == [] == board.contests("text_only")
    assert board.contests("overall") == [] and board.days() is None, "fewer than 100 votes, without days"


@pytest.mark.parametrize("unnamed", [0, 100, 150])
def test_a_live_board_takes_votes_of_visitors_after_many_of_nobody_that_is_known(unnamed):
    cast = [Cast("a", "b", RecordType.LEFT_VOTE, True)] * unnamed
    cast += [Cast("b", "a", RecordType.LEFT_VOTE, True, user=f"visitor {number}") for number in range(60)]
    rows = LiveBoard(cast, live_rates(VoteRules())).rows("overall")
    assert [row.battles for row in rows] == [unnamed + 60] * 2


def test_a_live_board_says_its_days_how_few_votes_change_it_and_what_style_does():
    rng, cast = Random(1), []
    for number in range(600):  # b wins when it is longer, and it is longer in 4 of 5 battles
        longer, seconds = rng.random() < 0.8, 1793500000.0 + 86_400 * (number // 60)
        a_wins, a, b = rng.random() > (0.9 if longer else 0.1), (200, 0, 0, 0), (400 if longer else 100, 0, 0, 0)
        names, style = (("a", "b") if number % 2 else ("b", "a")), ((*a, *b) if number % 2 else (*b, *a))
        won = RecordType.LEFT_VOTE if a_wins == number % 2 else RecordType.RIGHT_VOTE
        cast.append(Cast(*names, won, False, str(number), "", seconds, style))
    board = LiveBoard(cast, live_rates(VoteRules()))
    plain, styled = ({row.model: row.rating for row in board.rows(name)} for name in ("overall", "style_control"))
    assert plain["b"] - plain["a"] > 100 and abs(styled["b"] - styled["a"]) < (plain["b"] - plain["a"]) / 3
    assert board.days() == ("2026-11-01", "2026-11-10")
    first = board.contests("overall")[0]
    ahead = 2 * sum((each.winner == "model_a") == (each.model_a == "b") for each in cast) - 600
    assert (first["model"], first["rival"], first["of"], first["removed"]) == ("b", "a", 600, ahead + 1)
    messages = [["user", "# x"], ["assistant", "# A\n- b\n**c**"]]
    states = [{"model_name": "a", "messages": messages}, {"model_name": "b"}]
    record = {"type": "leftvote", "models": ["", ""], "tstamp": 1795650520.5, "states": states}
    assert (cast_in(record).seconds, cast_in(record).style) == (1795650520.5, (13, 1, 1, 1, 0, 0, 0, 0))


def test_a_releases_boards_are_read_and_another_folder_is_an_error(tmp_path):
    with pytest.raises(BadInput, match="--board"):
        ReleaseBoard(tmp_path)
    rows = {"slice": ["overall", "language:en"], "rank": [1, 1], "model": ["a", "a"], "rating": [1000.2, 990.0]}
    rows |= {"ci95_low": [990.0, None], "ci95_high": [1010.0, 1020.0], "battles": [7, 3], "flags": [[], []]}
    (tmp_path / "leaderboard").mkdir()
    pl.DataFrame(rows).write_parquet(tmp_path / "leaderboard" / "overall.parquet")
    board = ReleaseBoard(tmp_path)
    (row,) = board.rows("overall")
    assert board.slices() == ["overall", "language:en"]
    assert (row.rank, row.model, row.rating, row.low, row.high, row.battles) == (1, "a", 1000.2, 990.0, 1010.0, 7)
    assert board.rows("language:en")[0].low is None
    assert (board.contests("overall"), board.days()) == ([], None), "a release of an early layout"
