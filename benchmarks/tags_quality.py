"""How well the embedded tagger and the code rule do on labelled prompts and images, with 95 % intervals.

    python -m benchmarks.tags_quality DATA [--half held_out|tuning] [--failures N] [--fit]

DATA is the folder of shared data (`tag_labels.py` says what is known of it). Rules and examples were worked on with the
tuning half; the held-out half, by hash, was only measured. The peer of the code rule is FastChat's own, by its words.
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.tag_labels import Labelled, labelled
from schemas.tags import Share, TagAgreement
from tasks.images.decode import open_image
from tasks.providers import Providers
from tasks.providers.capabilities import Document
from tasks.providers.embedded import labels
from tasks.runtime.progress import progress
from tasks.signals.loose_files import document_of
from tasks.signals.rules.code import code
from tasks.signals.tag_evaluation import Said, agreements, disagreements

TAGS = ("homework", "ocr", "diagram", "code", "captioning", "creative_writing", "entity_recognition", "humor")
GOAL_F1 = 0.8
PENALTY = 10.0
WEIGHTS = Path(labels.__file__).with_name("diagram_weights.yaml")
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


def said_of(items: Sequence[Labelled], documents: Sequence[Document]) -> dict[str, dict[str, Said]]:
    """What the embedded tagger says, and the code rule of the prompt."""
    tags = Providers()["categories"].tag(documents)
    return {
        each.item: {**said.model_dump(), "code": code(each.prompt).is_code}
        for each, said in zip(items, tags, strict=True)
    }


def fit_diagrams(items: Sequence[Labelled], documents: Sequence[Document]) -> None:
    """Logistic regression of `diagram` on the images' embeddings; writes the tagger's weights."""
    pairs = [(d.image_vectors[0], e.tags["diagram"]) for e, d in zip(items, documents, strict=True)
             if d.image_vectors and "diagram" in e.tags]  # fmt: skip
    vectors, truth = np.array([v for v, _ in pairs]), [t for _, t in pairs]
    fitted = LogisticRegression(C=PENALTY, max_iter=5000, class_weight="balanced").fit(vectors, truth)
    lines = ",\n  ".join(
        ", ".join(f"{w:.4f}" for w in fitted.coef_[0][n : n + 14]) for n in range(0, vectors.shape[1], 14)
    )
    about = f"# Written by benchmarks/tags_quality.py --fit from {len(pairs)} images, {sum(truth)} of them diagrams."
    WEIGHTS.write_text(f"{about}\nintercept: {fitted.intercept_[0]:.4f}\nweights: [\n  {lines}]\n", encoding="utf-8")


def _row(row: TagAgreement) -> str:
    return f"{row.tag:<18}{row.items:>6}{row.in_reference:>6}  " + "".join(
        f"{_share(getattr(row, name)):<24}" for name in _FIGURES
    )


def _share(share: Share) -> str:
    return "-" if share.value is None else f"{share.value:.3f} [{share.ci95_low:.3f}, {share.ci95_high:.3f}]"


def main() -> None:
    """Print the table and, when asked, what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--half", choices=("held_out", "tuning"), default="held_out")
    parser.add_argument("--failures", type=int, default=0, help="failures listed for each tag")
    parser.add_argument("--fit", action="store_true", help="fit the weights that tell diagrams, to the tuning half")
    given = parser.parse_args()
    half = "tuning" if given.fit else given.half
    items = [each for each in labelled(given.data) if each.held_out == (half == "held_out")]
    documents = documents_of(items, Providers(), read_text=not given.fit)
    if given.fit:
        fit_diagrams(items, documents)
        return
    said = said_of(items, documents)
    truth: dict[str, dict[str, Said]] = {each.item: {**each.tags} for each in items}
    print(f"{given.half}: {len(items)} items\n{'tag':<18}{'n':>6}{'yes':>6}  {''.join(f'{n:<24}' for n in _FIGURES)}")
    rows = agreements(said, truth, TAGS)
    fastchat = {each.item: {"code": bool(_FASTCHAT.search(each.prompt))} for each in items}
    peer = agreements(fastchat, truth, ["code"])[0].model_copy(update={"tag": "code (FastChat)"})
    print("\n".join(_row(row) for row in (*rows, peer)))
    prompts = {each.item: each.prompt for each in items}
    for tag in TAGS if given.failures else ():
        for each in list(disagreements(said, truth, [tag], prompts))[: given.failures]:
            print(f"  {tag}: said {each.tagger}, is {each.reference}  {each.item}  {each.prompt}")
    below = [row.tag for row in rows[:5] if (row.f1.value or 0) < GOAL_F1]
    print(f"below the goal of F1 {GOAL_F1}: {', '.join(below) or 'none'}")


if __name__ == "__main__":
    main()
