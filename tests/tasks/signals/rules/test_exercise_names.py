"""Names that an exercise or a list of options makes up are told from names of people."""

import pytest

from schemas.signals import PiiSpan
from tasks.signals.rules.exercise_names import exercise_names


def told(text: str, *names: str, **others: str) -> dict[str, str]:
    """Name -> its type, for names (and `others`, by type) that the finder reports in the text."""
    kinds = [*(("person", name) for name in names), *others.items()]
    spans = [
        PiiSpan(type=kind, start=text.index(held), end=text.index(held) + len(held), confidence=1)
        for kind, held in kinds
    ]
    return {text[span.start : span.end]: span.type for span in exercise_names(text, spans)}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Tom has 5 apples and eats two. How many apples are left?", "Tom"),
        ("Eva hat 5 Sticker. Wie viele bleiben?", "Eva"),
        ("Which picture does Ella see in the mirror?", "Ella"),
        ("Luis makes $2^3$ patterns.", "Luis"),
        ("So Maria has \\boxed{19} apples.", "Maria"),
    ],
)
def test_a_name_in_an_exercise_is_of_nobody(text, name):
    assert told(text, name) == {name: "exercise_name"}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("My neighbour Tom has 5 apples. How many are left?", "Tom"),
        ("I am Eva. How old do I look?", "Eva"),
        ("How much does Eva Berg owe?", "Eva Berg"),
        ("Eva lives in Leeds.", "Eva"),
        ("how many apples has eva", "eva"),
        ("My Eva is ill. How long should she rest?", "Eva"),
        ("How many pills can i give Eva?", "Eva"),
        ("Combien gagne notre voisine Eva ?", "Eva"),
        ("Our new doctor is Eva. How old is she?", "Eva"),
    ],
)
def test_a_name_that_may_be_somebodys_stays_a_person(text, name):
    assert told(text, name) == {name: "person"}


def test_other_personal_data_in_the_text_makes_it_no_exercise():
    text = "Tom, tom@example.org, has 5 apples. How many are left?"
    assert told(text, "Tom", email="tom@example.org") == {"Tom": "person", "tom@example.org": "email"}


@pytest.mark.parametrize(
    "text",
    [
        "Who ran?\n(A) Alicia\n(B) Bea Berg\n(C) Dani",
        "Who ran? A) Alicia B) Bea Berg C) Dani",
        "A. Alicia\nB. Bea Berg",
    ],
)
def test_a_name_that_is_an_option_is_of_nobody(text):
    assert told(text, "Alicia", "Bea Berg") == {"Alicia": "exercise_name", "Bea Berg": "exercise_name"}


@pytest.mark.parametrize("start", ["My patients:", "Our team:", "Mail tom@example.org:"])
def test_a_list_beside_other_personal_data_or_by_somebody_who_knows_them_is_no_list_of_options(start):
    text = f"{start}\nA. Alicia Ruiz\nB. Bea Berg"
    others = {"email": "tom@example.org"} if "@" in start else {}
    found = told(text, "Alicia Ruiz", "Bea Berg", **others)
    assert {found["Alicia Ruiz"], found["Bea Berg"]} == {"person"}


def test_a_list_of_people_is_no_list_of_options():
    text = "Staff:\na. Jane Smith: $55,000\nb. Bo Berg: $60,000"
    assert told(text, "Jane Smith", "Bo Berg") == {"Jane Smith": "person", "Bo Berg": "person"}
    assert told("B. Bo Berg wrote it", "Bo Berg") == {"Bo Berg": "person"}
