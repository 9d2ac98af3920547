"""Colours of the figures."""

import numpy as np
import numpy.typing as npt

BLUE, GREY, RED = "#2f6fb0", "#c9ced6", "#b5483a"
TOPICS = [
    "#1f77b4", "#aec7e8", "#ff7f0e", "#ffbb78", "#2ca02c", "#98df8a", "#d62728", "#ff9896", "#9467bd",
    "#c5b0d5", "#8c564b", "#c49c94", "#e377c2", "#f7b6d2", "#bcbd22", "#dbdb8d", "#17becf", "#9edae5",
]  # fmt: skip
"""Tableau's twenty, without the greys: outliers are grey."""
_BLUES = ["f7fbff", "deebf7", "c6dbef", "9ecae1", "6baed6", "4292c6", "2171b5", "08519c", "08306b"]
"""ColorBrewer's Blues of nine classes."""
_STOPS = np.array([list(bytes.fromhex(each)) for each in _BLUES], np.float64)
_LUMA = np.array([0.299, 0.587, 0.114])
"""ITU-R BT.601."""
_DARK = 0.55


def blues(darkness: npt.NDArray[np.float64]) -> list[tuple[str, str]]:
    """A shade of blue for each number, 0 (light) to 1 (dark), and the colour of text that can be read on it."""
    at = darkness.clip(0, 1) * (len(_STOPS) - 1)
    mixed = np.stack([np.interp(at, np.arange(len(_STOPS)), channel) for channel in _STOPS.T], axis=-1).round()
    dark = mixed @ _LUMA / 255 < _DARK
    return [
        (f"#{bytes(shade).hex()}", "#ffffff" if covered else "#000000")
        for shade, covered in zip(mixed.astype(np.uint8).tolist(), dark, strict=True)
    ]
