"""The embedded image domain is null unless the prompt's words or the image itself say it.

Images are `photos` and `mathv` of the data that `tests/places.py` names.
"""

from dataclasses import replace

from tasks.images.decode import open_image
from tasks.providers import Providers
from tasks.providers.embedded.labels import NearestPlace
from tests.places import DATA, needs_data

ANIMALS = (
    "AAOYRUDX", "animalpose", "atrw", "billy", "dog", "horse", "macaque", "zebra", "resize_test_image__123_456",
    "resize_test_image__456_123", "notebooks__images__image_1", "notebooks__images__image_3", "chat__examples__image1",
    "chat__examples__image2", "chat__examples__image5", "serve__examples__img6", "gallery__prod_1.jpeg",
    "testing__images__image2",
)  # fmt: skip


def _domains(document, files, prompt="What is this?"):
    embed = Providers()["image_embedding"].embed_images
    images = [open_image(file.read_bytes()) for file in files]
    shown = [replace(document(prompt), image_count=1, image_vectors=(vector,)) for vector in embed(images)]
    return [place.image_subdomain for place in NearestPlace().tag(shown)]


def test_what_is_this_names_no_image_domain(document):
    bare = [replace(document(text), image_count=1) for text in ("What is this?", "Describe the image.", "Why?", "")]
    assert [place.image_domain for place in NearestPlace().tag(bare)] == [None] * 4
    (named,) = NearestPlace().tag([replace(document("Which breed is the dog?"), image_count=1)])
    assert (named.image_domain, named.image_subdomain) == ("Natural", "Animals")


@needs_data
def test_photographs_of_animals_are_told_from_their_vectors(document):
    files = sorted(file for file in (DATA / "photos").iterdir() if file.suffix in (".jpg", ".jpeg", ".png"))
    shown = [any(name in file.name for name in ANIMALS) for file in files]
    told = [name == "Animals" for name in _domains(document, files)]
    right = sum(a and b for a, b in zip(shown, told, strict=True))
    assert right / sum(shown) >= 0.7
    assert right / sum(told) >= 0.95


@needs_data
def test_drawings_of_exercises_are_no_photographs(document):
    files = sorted(file for file in (DATA / "mathv").rglob("*") if file.suffix in (".jpg", ".png"))[::6]
    told = _domains(document, files)
    assert sum(name is not None for name in told) <= 0.05 * len(files)
