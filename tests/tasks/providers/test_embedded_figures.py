"""Figures of embedded models stand with their material, and decide what a tag may say."""

import re
from random import Random

import pytest
import yaml

from flows.reference.__main__ import ROOT, figures_without_material
from schemas.embedded_figures import EmbeddedFigures, Material, MeasuredFigure
from schemas.errors import BadInput
from schemas.tags import TAGS, Categories
from tasks.providers import embedded_figures
from tasks.providers.embedded import known_tags
from tasks.providers.embedded.known_tags import SWITCHED_ON, KnownTags
from tasks.providers.embedded_figures import FIGURES, FILE, NOT_UNSEEN, TagAnswers, read_figures, stated, tag_answers
from tasks.runtime.shares import clopper_pearson


def _figure(measure, hits, n, material, label="ocr"):
    share = clopper_pearson(hits, n).model_dump()
    return MeasuredFigure(of="categories", label=label, measure=measure, hits=hits, n=n, material=material, **share)


def _material(made_with):
    return Material(about="Prompts.", labelled_by="somebody", made_with=made_with, command="python -m x")


@pytest.fixture
def with_figures(monkeypatch):
    """Put figures in the place of the file's."""

    def put(*figures):
        materials = {"known": _material(True), "new": _material(False), "newer": _material(False)}
        every = EmbeddedFigures(materials=materials, figures=figures, notes={})
        monkeypatch.setattr(embedded_figures, "FIGURES", every)

    return put


def test_a_figure_that_people_write_is_refused_because_it_has_no_material(tmp_path):
    assert list(figures_without_material(ROOT)) == []
    draw = Random("written")
    for page in ("README.md", "docs/privacy.md", "flows/reference/figures.md", "tasks/release/dataset_card.md"):
        value, low, high = sorted(draw.random() for _ in range(3))
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        form = draw.choice(
            ("| faces | {1:.3f} [{0:.3f}, {2:.3f}] |", "Recall of homework: {1:.3f}.", "a precision of {1:.2f}")
        )
        (tmp_path / page).write_text(f"Text.\n{form.format(value, low, high)}\n")
    assert [told.partition(":")[0] for told in figures_without_material(tmp_path)] == [
        "README.md", "privacy.md", "figures.md", "dataset_card.md",
    ]  # fmt: skip


def test_every_interval_of_the_file_is_that_of_its_counts():
    for figure in FIGURES.figures:
        assert (figure.value, figure.ci95_low, figure.ci95_high) == pytest.approx(
            tuple(clopper_pearson(figure.hits, figure.n).model_dump().values()), abs=6e-5
        )
    assert {True, False} == {each.made_with for each in FIGURES.materials.values()}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda content: content["figures"][0].pop("material"), "figures.0.material"),
        (lambda content: content["figures"][0].update(material="hearsay"), "a figure needs its material"),
        (lambda content: content["figures"][0].update(hits=10**6), "is no share with its interval"),
        (lambda content: content["figures"].append(content["figures"][0]), "stands twice"),
        (lambda content: next(iter(content["materials"].values())).pop("labelled_by"), "labelled_by"),
    ],
)
def test_a_figure_without_its_material_is_refused_in_one_line(tmp_path, change, told):
    content = yaml.safe_load(FILE.read_text("utf-8"))
    change(content)
    (tmp_path / "figures.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(BadInput, match=re.escape(told)) as refused:
        read_figures(tmp_path / "figures.yaml")
    assert "\n" not in str(refused.value)


def test_a_line_says_in_words_that_nothing_else_was_measured(with_figures):
    with_figures(_figure("precision", 8, 10, "known"), _figure("recall", 3, 4, "new"))
    precision, recall = stated("categories")
    assert (precision.what, precision.unseen) == ("ocr: precision", NOT_UNSEEN)
    assert precision.made_with == "0.800 [0.444, 0.975] of 10 (known, somebody)"
    assert (recall.made_with, recall.unseen) == ("not measured", "0.750 [0.194, 0.994] of 4 (new, somebody)")


def test_answers_of_a_tag_follow_from_unseen_figures_of_all_material_together(with_figures):
    draw, seen = Random("answers"), set[TagAnswers]()
    for _ in range(200):
        figures = [_figure("precision", 60, 60, "known"), _figure("recall", 60, 60, "known")]
        right = tagged = true = 0
        for material in draw.sample(("new", "newer"), draw.randint(1, 2)):
            hits = draw.randint(1, 30)
            sizes = {"precision": hits + draw.randint(0, 9), "recall": hits + draw.randint(0, 40)}
            figures += [_figure(measure, hits, n, material) for measure, n in sizes.items()]
            right, tagged, true = right + hits, tagged + sizes["precision"], true + sizes["recall"]
        with_figures(*figures)
        precision = clopper_pearson(right, tagged)
        reached = precision.value >= 0.8 and precision.ci95_low >= 0.6
        expected = TagAnswers.OFF if right < true / 2 else TagAnswers.ALL if reached else TagAnswers.NO_TRUE
        assert tag_answers("ocr") is expected, figures
        seen.add(expected)
    assert seen == {*TagAnswers}
    assert tag_answers("humor") is TagAnswers.OFF  # nothing is known of it


class _Says:
    """A tagger of which every answer is known."""

    version = "says-1"

    def tag(self, documents):
        return [Categories(**dict.fromkeys(TAGS, said)) for said in documents]


def test_what_a_tag_may_not_say_is_null_and_the_version_tells(with_figures, monkeypatch):
    monkeypatch.setattr(known_tags, "WordsAndLayout", _Says)
    good = [_figure("precision", 40, 40, "new", tag) for tag in ("ocr", "diagram")]
    good += [_figure("recall", hits, 40, "new", tag) for tag, hits in (("ocr", 20), ("diagram", 19), ("humor", 40))]
    with_figures(*good, _figure("precision", 20, 40, "new", "humor"))
    tagger = KnownTags()
    said = [row.model_dump() for row in tagger.tag([True, False, None])]
    assert [row["ocr"] for row in said] == [True, False, None]
    assert [row["humor"] for row in said] == [None, False, None]
    assert [row["diagram"] for row in said] == [None, None, None]
    assert tagger.version.startswith("says-1+") and "off-diagram" in tagger.version and "ocr" not in tagger.version
    monkeypatch.setenv(SWITCHED_ON, "diagram,humor")
    switched = KnownTags()
    assert [row.diagram for row in switched.tag([True, False])] == [True, False]
    assert switched.version != tagger.version and set(tagger.limited) - set(switched.limited) == {"diagram", "humor"}
    monkeypatch.setenv(SWITCHED_ON, "diagrams")
    with pytest.raises(BadInput, match="names an unknown tag 'diagrams'"):
        KnownTags()


def test_refusals_and_code_say_true_because_their_unseen_figures_reach_the_limit():
    """These two have no gate; where a figure falls below, this test says so."""
    unseen = {name for name, each in FIGURES.materials.items() if not each.made_with}
    for capability in ("refusal", "code"):
        of = [each for each in FIGURES.figures if each.of == capability and each.material in unseen]
        assert of, capability
        for figure in of:
            if figure.measure == "precision":
                assert figure.value >= 0.8, figure
            if figure.measure.startswith("recall"):
                assert figure.value >= 0.5, figure
