"""Sheets of failures: each shows a whole case, and takes in references that people write there or hand in."""

import csv

import pytest

from tests.failed_store import HIDDEN, PROMPTS, failed_store


@pytest.fixture
def failed(tmp_path):
    return failed_store(tmp_path)


def sheet_of(curate, failed, folder):
    """The lines of the sheet, and its folder."""
    code, _, err = curate("review", "out", "failures", "--store", failed.store.root, "--out", folder)
    assert code == 0, err
    return list(csv.DictReader((folder / "sheet.csv").read_text(encoding="utf-8").splitlines(keepends=True)))


def write(file, lines):
    """Write lines as a CSV file."""
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    return file


def test_a_line_shows_picture_prompt_type_and_answers_of_a_case(failed, curate, tmp_path):
    lines = sheet_of(curate, failed, tmp_path / "sheet")
    of_case = {line["item"]: line for line in lines if line["queue"] == "failures"}
    first = of_case[failed.documents[0]]
    assert first["prompt"] == PROMPTS[0] and (tmp_path / "sheet/images" / first["images"]).is_file()
    assert {"I see 0 cups.", "I see 0 cups.!"} <= {first[f"answer_{n}"] for n in (1, 2, 3)}
    assert of_case[failed.documents[1]]["type"] == "spatial_imagination"
    assert of_case[failed.documents[1]]["typed_by"] == "rule"
    answers = [line for line in lines if line["queue"] == "failure_answers"]
    assert len(answers) == 3 * 4 and {line["choices"] for line in answers} == {"right | wrong | unclear"}


def test_a_hidden_prompt_is_on_no_sheet(failed, curate, tmp_path):
    lines = sheet_of(curate, failed, tmp_path / "sheet")
    (line,) = [line for line in lines if line["item"] == failed.documents[HIDDEN]]
    assert (line["prompt"], line["images"], line["answer_1"]) == ("", "", "")
    assert PROMPTS[HIDDEN] not in (tmp_path / "sheet/sheet.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["Two.", "=SUM(A1)", '\'tis 2,\nor "three"', "-3", "’’"])
def test_a_reference_comes_back_as_it_was_written(failed, curate, tmp_path, text):
    lines = sheet_of(curate, failed, tmp_path / "sheet")
    for line in lines:
        line["reference"] = text if line["item"] == failed.documents[0] else line["reference"]
    code, out, err = curate("review", "in", "failures", write(tmp_path / "f.csv", lines), "--store", failed.store.root)
    assert code == 0 and out.startswith("1 reference"), err
    assert failed.store.read("case_references")["text"].to_list() == [text]
    again = sheet_of(curate, failed, tmp_path / "again")
    code, out, _ = curate("review", "in", "failures", write(tmp_path / "g.csv", again), "--store", failed.store.root)
    assert code == 0 and failed.store.height("case_references") == 1  # nobody changed it


def test_verdicts_are_taken_in_with_the_references_of_the_same_sheet(failed, curate, tmp_path):
    lines = sheet_of(curate, failed, tmp_path / "sheet")
    for line in lines:
        line["reviewer"] = "ann"
        if line["queue"] == "failures" and line["prompt"]:
            line |= {"verdict": "hallucination", "reference": f"It is {line['prompt']}"}
        elif line["queue"] == "failure_answers":
            line["verdict"] = "wrong"
    code, out, err = curate("review", "in", "failures", write(tmp_path / "f.csv", lines), "--store", failed.store.root)
    assert code == 0 and "3 hallucination" in out and "12 wrong" in out and "3 references" in out, err
    code, out, _ = curate("bench", "failures", "--store", failed.store.root)
    assert "by_people" in out and " O " in out


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([("0" * 32, "Two.")], "a reference for an unknown case"),
        ([(0, "Two."), (0, "Three.")], "has another reference of this case; keep one"),
        ([(0, "Two."), ("x", "Three.")], "a reference for an unknown case, item 'x'"),
    ],
)
def test_a_reference_that_cannot_be_used_is_one_line_and_none_is_stored(failed, refused, tmp_path, lines, told):
    rows = [
        {"item": failed.documents[item] if isinstance(item, int) else item, "reference": text} for item, text in lines
    ]
    assert told in refused("review", "in", "failures", write(tmp_path / "f.csv", rows), "--store", failed.store.root)
    assert failed.store.height("case_references") == 0
