"""Hostile text is escaped for spreadsheets, Markdown and terminals; YAML without an end is an error."""

import csv
import html
import io
import json
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tasks.release.dataset_card import front_matter, split_card
from tasks.runtime.untrusted import (
    SafeLoader,
    UniqueKeys,
    csv_cell,
    csv_delimiter,
    json_text,
    markdown_text,
    one_line,
    parse_yaml,
    yaml_text,
)

MARKS = "=+-@＝\t\r\n|`*_<>[]()&#!~\\'\"\0\x1b\x85\u061c\u200f\u2028\u2029\u202e\u2066 aé漢"
HOSTILE = st.text(st.sampled_from(MARKS), max_size=12) | st.text()
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


NORWAY = [
    "no", "Norway", "NO", "y", "n", "on", "off", "~", "null", "Null", "true", "1e3", "1E+3", "+12e03", ".5e3", "1.",
    "0o14", "0x1F", "0b1", "1_000", "12:30", "2024-01-01", "2024-01-01T00:00Z", ".inf", "-.INF", ".NaN", "=", "<<",
    "", " a", "a ", "a: b", "a #b", "- a", "---", "a\n---\nb", "...", "\ufeff", "\x85", "!!int 3", "&a", "*a", "%a",
]  # fmt: skip
"""Texts that YAML may read as something else."""
YAML_1_2 = re.compile(
    r"(?:null|Null|NULL|~|)|(?:true|True|TRUE|false|False|FALSE)|[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"
    r"|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
"""Plain scalars that the core schema (YAML 1.2.2, section 10.3.2) reads as null, bool, int or float."""
TEXT_OF_YAML = (
    st.sampled_from(NORWAY) | st.from_regex(YAML_1_2, fullmatch=True) | HOSTILE | st.lists(st.text()).map("\n".join)
)


@given(TEXT_OF_YAML, TEXT_OF_YAML)
def test_every_text_of_a_card_is_the_same_text_for_its_readers(first, second):
    about = {"license": first, "tags": [second], "configs": [{"config_name": first, "default": True}]}
    front = front_matter(about)
    assert split_card(front + "# Title\n---\n") == (about, "# Title\n---\n")
    events = yaml.parse(front.removesuffix("---\n"))
    scalars = [event for event in events if isinstance(event, yaml.ScalarEvent)]
    plain = {event.value for event in scalars if event.style is None} - {"true"}
    assert not [value for value in plain if YAML_1_2.fullmatch(value)]


def test_words_of_a_card_are_not_quoted_without_need():
    assert yaml_text(["cc-by-4.0", "10K<n<100K", "chat/data/train-*.parquet", "no"]) == (
        "- cc-by-4.0\n- 10K<n<100K\n- chat/data/train-*.parquet\n- 'no'\n"
    )


@given(HOSTILE | st.text(st.characters()), st.sampled_from([None, 2]))
def test_json_on_a_terminal_steers_nothing_and_says_the_same(text, indent):
    shown = json_text({text: [text]}, indent)
    assert not CONTROL.search(shown.replace("\n", ""))
    assert json.loads(shown.encode()) == {text: [text]}


def test_json_shows_every_script_as_it_is_written_and_cut_text_says_so():
    assert json_text(["漢字 é עברית 🦒", "\ud800", "\u202e"]) == '["漢字 é עברית 🦒", "\\ud800", "\\u202e"]'
    assert one_line("a" * 300) == "a" * 199 + "…"


@given(HOSTILE, st.integers(1, 30))
def test_one_line_is_never_longer_than_allowed(text, characters_max):
    assert len(one_line(text, characters_max)) <= characters_max


@given(st.text(alphabet="abc xyz é漢", max_size=50))
def test_harmless_text_is_left_as_it_is(text):
    assert one_line(text) == text.strip()
    assert csv_cell(text) == text.strip()


@pytest.mark.parametrize("formula", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "＝1+1"])
def test_a_formula_becomes_a_text_that_can_still_be_read(formula):
    assert csv_cell(formula) == f"'{formula.strip()}"


@given(st.lists(HOSTILE, min_size=1, max_size=4))
def test_cells_stay_in_their_row(texts):
    sink = io.StringIO(newline="")
    csv.writer(sink).writerow([csv_cell(text) for text in texts])
    assert len(list(csv.reader(io.StringIO(sink.getvalue(), newline="")))) == 1


@given(HOSTILE)
def test_no_cell_starts_like_a_formula_and_markdown_holds_no_mark_but_is_read_as_written(text):
    shown = markdown_text(text)
    assert not re.search(r"[\\`*{}\[\]+!|>~<]|\w\.[^\W\d_]", shown)
    assert not re.search(r"&(?!#\d+;)", shown)
    assert csv_cell(text)[:1] not in {*"=+-@＝＋－＠\t\r"}
    assert html.unescape(markdown_text(text)) == one_line(text)
    line = one_line(text)
    assert not CONTROL.search(line)
    assert len(line.splitlines()) <= 1


@given(HOSTILE.filter(lambda text: bool(one_line(text))))
def test_a_markdown_parser_reads_a_cell_as_the_text_that_was_written(text):
    table = MarkdownIt("commonmark").enable("table").parse(f"| a |\n|---|\n| {markdown_text(text)} |\n")
    cells = [token for token in table if token.type == "inline"]
    assert len(cells) == 2
    assert {child.type for child in cells[1].children} <= {"text", "text_special"}
    assert "".join(child.content for child in cells[1].children) == one_line(text).strip()


@pytest.mark.parametrize("name", ["fjord-chat-vision", "national_id, 0.5 or more (cosine)", "An answer, or none."])
def test_plain_names_and_sentences_stay_readable_in_markdown(name):
    assert markdown_text(name) == name


@pytest.mark.parametrize("loader", [SafeLoader, UniqueKeys])
@pytest.mark.parametrize("level", ["[", "- ", "{a: ", "? ", "- ? [{a: ", "&a [", "!!seq ["])
def test_yaml_that_is_nested_without_end_is_an_error_and_ends_no_process(level, loader):
    for text in (level * 100_000, f"a: {level.lstrip('- ?')}" + level * 100_000):
        with pytest.raises(yaml.YAMLError):
            parse_yaml(text, loader)
    with pytest.raises(yaml.YAMLError, match="no end"):
        parse_yaml("a: &a [1, {b: *a}]", loader)


@pytest.mark.parametrize(
    ("header", "delimiter"),
    [
        ("item,verdict", ","), ("item;verdict", ";"), ("item\tverdict", "\t"), ("item", ","), ("", ","),
        ("item;note, if any;verdict", ";"), ("\ufeffitem;verdict", ";"),
    ],
)  # fmt: skip
def test_the_delimiter_of_a_file_is_the_commonest_of_its_header(tmp_path, header, delimiter):
    file = tmp_path / "people.csv"
    file.write_text(f"{header}\na;b;c,d,e,f\n", encoding="utf-8")
    assert csv_delimiter(file) == delimiter
