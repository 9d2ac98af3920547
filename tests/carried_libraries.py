"""C libraries that wheels carry, with the versions that their binaries name: `python -m tests.carried_libraries`.

`pip-audit` looks up packages; a library inside a wheel has no entry there. Exit 1 if one that reads bytes of strangers
is older than the release that mended a vulnerability of its reading.
"""

import mmap
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import NamedTuple

from packaging.utils import canonicalize_name
from packaging.version import Version

NAMED = (
    ("libjpeg-turbo", rb"libjpeg-turbo version (\d[\d.]+\d)"),
    ("libjpeg-turbo", rb"build-libjpeg-turbo \(ver (\d[\d.]+\d)"), ("libpng", rb"libpng version (1\.[\d.]+\d)"),
    ("libtiff", rb"LIBTIFF, Version (\d[\d.]+\d)"), ("zlib", rb" inflate (1\.[\d.]+\d) Copyright"),
    ("freetype", rb"FreeType (\d[\d.]+\d)"), ("openssl", rb"OpenSSL (\d\.\d+\.\d+[a-z]?) +(?:FIPS +)?\d"),
    ("ffmpeg", rb"FFmpeg version n?(\d[\d.]+\d)"), ("expat", rb"expat_(\d[\d.]+\d)"),
    ("curl", rb"libcurl/(\d[\d.]+\d)"),
)  # fmt: skip
"""Library, and what its binaries say; each pattern begins with letters, by which the search is fast."""
MENDED = {
    "libjpeg-turbo": "3.0.0",  # CVE-2023-2804; the betas before it, 2.1.90 to 2.1.92, get no mending
    "libwebp": "1.3.2",  # CVE-2023-4863
    "libpng": "1.6.55",  # CVE-2026-25646
    "libtiff": "4.7.1",  # CVE-2025-9900
    "zlib": "1.2.13",  # CVE-2022-37434
    "openjpeg": "2.5.4",  # CVE-2025-54874
    "freetype": "2.13.1",  # CVE-2025-27363
    "openssl": "3.0.0",  # 1.1.1 gets no mending since 2023
    "expat": "2.7.2",  # CVE-2025-59375
}
"""Library -> first version without the vulnerabilities that are known of its reading."""
READ_BYTES_OF_STRANGERS = ("pillow", "zxing-cpp")
"""Packages whose C libraries read files that strangers send. OpenCV reads no file here."""


class Carried(NamedTuple):
    """A C library inside a package."""

    package: str
    library: str
    version: str

    @property
    def is_old(self) -> bool:
        number = re.match(r"[\d.]+\d", self.version)
        return self.library in MENDED and number is not None and Version(number[0]) < Version(MENDED[self.library])


def libraries_in(package: str, binaries: Iterable[Path]) -> set[Carried]:
    """The libraries that the binaries of a package name."""
    found = set()
    for binary in binaries:
        with binary.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
            for library, pattern in NAMED:
                found |= {Carried(package, library, each.decode()) for each in re.findall(pattern, content)}
    return found


def carried(packages: Iterable[str] = ()) -> Iterator[Carried]:
    """The libraries of installed packages; without names of all but those that compute on a GPU."""
    wanted = {canonicalize_name(each) for each in packages}
    for each in distributions():
        name = canonicalize_name(each.metadata["Name"])
        if name in wanted or not (wanted or name.startswith(("nvidia-", "torch", "triton"))):
            yield from sorted(libraries_in(name, _binaries(each)))
            if name == "pillow":
                yield from _told_by_pillow()


def _binaries(package: Distribution) -> Iterator[Path]:
    for file in package.files or []:
        path = Path(str(package.locate_file(file)))
        if re.search(r"\.so(\.\d+)*$", file.name) and path.is_file() and path.stat().st_size:
            yield path


def _told_by_pillow() -> Iterator[Carried]:
    """Libraries whose binaries name no version; Pillow asks them."""
    from PIL import features

    names = {
        "webp": "libwebp",
        "freetype2": "freetype",
        "jpg_2000": "openjpeg",
        "avif": "libavif",
        "littlecms2": "lcms2",
    }
    for feature, library in names.items():
        if version := features.version(feature):
            yield Carried("pillow", library, version)


def main() -> int:
    """Print all, and return 1 if one that reads strangers' bytes is old."""
    status = 0
    for each in dict.fromkeys(carried()):
        read = each.package in READ_BYTES_OF_STRANGERS
        status |= each.is_old and read
        old = f"  older than {MENDED.get(each.library)}{'' if read else '; reads no bytes of strangers'}" * each.is_old
        print(f"{each.package}: {each.library} {each.version}{old}")  # noqa: T201
    return status


if __name__ == "__main__":
    sys.exit(main())
