"""How well the embedded tagger and the code rule do on labelled prompts and images, with 95 % intervals.

    python -m benchmarks.tags_quality DATA [--half held_out|tuning|unseen] [--failures N] [--fit]

DATA is the folder of shared data (`tag_labels.py` says what is known of it). Rules and examples were worked on with the
tuning half; the held-out half, by hash, was only measured, but comes from the same sources. `unseen` is `tag-labels`,
made by somebody else: of it nothing is listed, so that no rule is made with it. The peer of the code rule is FastChat's
own, by its words.
"""

import argparse
import re
import textwrap
from collections.abc import Mapping, Sequence
from itertools import compress
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.tag_labels import Labelled, labelled, unseen
from benchmarks.tags_by_hand import TAGS, TAXONOMY, ByHand, by_hand
from schemas.tags import Share, TagAgreement
from tasks.images.decode import open_image
from tasks.providers import Providers
from tasks.providers.capabilities import Document
from tasks.providers.embedded import labels
from tasks.providers.embedded.labels import DOMAINS, WordsAndLayout
from tasks.runtime.arrays import Vectors
from tasks.runtime.progress import progress
from tasks.runtime.shares import clopper_pearson
from tasks.signals.loose_files import document_of
from tasks.signals.rules.texts import code
from tasks.signals.tag_evaluation import TagValue, agreements, disagreements

GOAL_F1 = 0.8
PENALTY, SAME_IMAGE = 10.0, 0.97
"""Inverse of the regression's penalty; cosine from which two images are one, whatever their size."""
WEIGHTS = Path(labels.__file__).with_name("image_weights.yaml")
OF_FOLDERS = {"mathv/": "Expert", "charts": "Expert", "art/": "Expert", "ui-screens/": "Entertainment"}
_FIGURES = ("precision", "recall", "f1", "kappa")
_FASTCHAT = re.compile(
    r"```|\b(?:git|github|dataframe|nginx|pip|python|c\+\+|cpp|java|javascript|typescript|html|css|sql|bash|powershell"
    r"|matlab|golang|linux|ubuntu)\b|import (?:pandas|numpy|torch)|jax|tensorflow|pytorch|keras|scikit-learn|sklearn"
    r"|apt-get",
    re.I,
)
"""FastChat's `code_tagger.py`: tokens and substrings, without its patterns of import lines."""


def documents_of(items: Sequence[Labelled], providers: Providers, read_text: bool = True) -> list[Document]:
    """The items as taggers see them: text read, layout and vectors measured by the embedded providers."""
    documents = []
    with progress("images and prompts", len(items)) as advance:
        for each in items:
            images = [open_image(each.image.read_bytes())] if each.image else []
            documents.append(
                document_of(each.item, each.prompt, images, providers, with_images=False, read_text=read_text)
            )
            advance(1)
    return documents


def said_of(items: Sequence[Labelled], documents: Sequence[Document]) -> dict[str, dict[str, TagValue]]:
    """What the embedded taggers find, before `known_tags` limits it, and the code rule."""
    tags, placed = WordsAndLayout().tag(documents), Providers()["taxonomy"].tag(documents)
    shown = [code(document.prompt).is_code or code(document.image_text).is_code for document in documents]
    return {
        each.item: {**said.model_dump(), **place.model_dump(), "code": is_code}
        for each, said, place, is_code in zip(items, tags, placed, shown, strict=True)
    }


def fit_kinds(
    items: Sequence[Labelled], documents: Sequence[Document], names: Sequence[Mapping[str, TagValue]]
) -> None:
    """Logistic regressions of `diagram`, `homework` and the domain on vectors of images; writes the weights."""
    lines: dict[str, Vectors] = {}
    for kind in ("diagram", "homework"):
        pairs = [(d.image_vectors[0], e.tags[kind]) for e, d in zip(items, documents, strict=True)
                 if d.image_vectors and kind in e.tags]  # fmt: skip
        lines |= _fitted(pairs, [kind])
    shown = [(d.image_vectors[0], n["image_domain"]) for d, n in zip(documents, names, strict=True)
             if d.image_vectors and n.get("image_domain") in DOMAINS]  # fmt: skip
    lines |= _fitted(shown, DOMAINS)
    about = f"# By benchmarks/tags_quality.py --fit from {len(documents)} images. Kind of image: [intercept, weights]"
    rows = [textwrap.fill(f"{kind}: [{', '.join(f'{w:.4g}' for w in line)}]", 118, subsequent_indent="  ")
            for kind, line in lines.items()]  # fmt: skip
    WEIGHTS.write_text("\n".join([about, *rows, ""]), encoding="utf-8")


def _fitted(pairs: Sequence[tuple[Vectors, TagValue]], kinds: Sequence[str]) -> dict[str, Vectors]:
    """Kind -> intercept and weights."""
    fitted = LogisticRegression(C=PENALTY, max_iter=5000, class_weight="balanced")
    fitted.fit(np.array([vector for vector, _ in pairs]), [said for _, said in pairs])
    return dict(zip(kinds, np.column_stack([fitted.intercept_, fitted.coef_]), strict=True))


def _unlike(documents: Sequence[Document], unseen: Sequence[ByHand]) -> list[bool]:
    """Whether no image of the unseen half is the same as a document's: arena logs show public images."""
    apart = np.array([each.document.image_vectors[0] for each in unseen if each.document.image_vectors]).reshape(
        len(unseen), -1
    )
    return [not len(apart) or float((apart @ d.image_vectors[0]).max()) < SAME_IMAGE for d in documents]


def _names_of(items: Sequence[Labelled]) -> list[dict[str, TagValue]]:
    """The domain of images of folders that hold one domain alone."""
    return [
        {"image_domain": next((name for start, name in OF_FOLDERS.items() if e.item.startswith(start)), None)}
        for e in items
    ]


def _row(row: TagAgreement) -> str:
    return f"{row.tag:<18}{row.items:>6}{row.in_reference:>6}{row.undecided:>6}  " + "".join(
        f"{_share(getattr(row, name)):<24}" for name in _FIGURES
    )


def _told(name: str, hand: Sequence[ByHand], said: Mapping[str, Mapping[str, TagValue]]) -> str:
    """How many of the named are told and told rightly, on a line."""
    pairs = [(said[each.labelled.item][name], each.names[name]) for each in hand if each.names[name] is not None]
    told = [pair for pair in pairs if pair[0] is not None]
    right = sum(ours == theirs for ours, theirs in told)
    all_told = sum(said[each.labelled.item][name] is not None for each in hand)
    figures = (_share(clopper_pearson(right, n)) for n in (len(told), len(pairs)))
    return (
        f"{name:<18}{len(pairs):>6}  precision {next(figures)}  recall {next(figures)}  told {all_told} of {len(hand)}"
    )


def _share(share: Share) -> str:
    return "-" if share.value is None else f"{share.value:.3f} [{share.ci95_low:.3f}, {share.ci95_high:.3f}]"


def main() -> None:
    """Print the table and, when asked, what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--half", choices=("held_out", "tuning", "unseen"), default="held_out")
    parser.add_argument("--failures", type=int, default=0, help="failures listed for each tag")
    parser.add_argument(
        "--stores", nargs="+", default=[], help="stores of the prompts labelled by hand: these alone are judged"
    )
    parser.add_argument("--fit", action="store_true", help="fit the weights of images, to the tuning halves of both")
    given = parser.parse_args()
    half = "tuning" if given.fit else given.half
    if half == "unseen" and given.failures:
        parser.error("--failures lists nothing of unseen: rules are not made with it")
    hand = list(by_hand(given.stores, half))
    items, documents = [each.labelled for each in hand], [each.document for each in hand]
    if half == "unseen":
        items = unseen(given.data)
        documents = documents_of(items, Providers())
    elif given.fit or not hand:
        public = [
            each
            for each in labelled(given.data)
            if each.held_out == (half == "held_out") and (each.image or not given.fit)
        ]
        read = documents_of(public, Providers(), read_text=not given.fit)
        if given.fit:
            apart = _unlike(read, list(by_hand(given.stores, "held_out")))
            public, read = [*compress(public, apart)], [*compress(read, apart)]
            fit_kinds(items + public, documents + read, [*(each.names for each in hand), *_names_of(public)])
            return
        items, documents = items + public, documents + read
    said = said_of(items, documents)
    truth: dict[str, dict[str, TagValue]] = {each.item: {**each.tags} for each in items}
    print(f"{given.half}: {len(items)} items")
    print(f"{'tag':<18}{'n':>6}{'yes':>6}{'null':>6}  {''.join(f'{n:<24}' for n in _FIGURES)}")
    rows = agreements(said, truth, TAGS)
    fastchat = {each.item: {"code": bool(_FASTCHAT.search(each.prompt))} for each in items}
    peer = agreements(fastchat, truth, ["code"])[0].model_copy(update={"tag": "code (FastChat)"})
    print("\n".join(_row(row) for row in (*rows, peer)))
    for name in TAXONOMY if hand else ():
        print(_told(name, hand, said))
    prompts = {each.item: each.prompt for each in items}
    for tag in TAGS if given.failures else ():
        for each in list(disagreements(said, truth, [tag], prompts))[: given.failures]:
            print(f"  {tag}: said {each.tagger}, is {each.reference}  {each.item}  {each.prompt}")
    below = [row.tag for row in rows[:5] if (row.f1.value or 0) < GOAL_F1]
    print(f"below the goal of F1 {GOAL_F1}: {', '.join(below) or 'none'}")


if __name__ == "__main__":
    main()
