"""Image models on one's own machine: diffusers with a small pipeline from a folder, its images in a benchmark."""

import io
import shutil
from importlib import metadata
from types import SimpleNamespace

import PIL.Image
import pytest

from schemas.errors import BadInput, MissingProvider
from schemas.policy import GeneratedRule
from tasks.generated_bench.steps import draw_images
from tasks.providers import Providers
from tasks.providers.capabilities import Failed
from tests.generated_bench import make, settings_for


@pytest.fixture(scope="module")
def drawn_pipeline():
    pytest.importorskip("diffusers", reason="production extra")  # seconds, in the one process that draws
    from tests.tasks.providers import small_diffusion

    return small_diffusion.drawn_pipeline


@pytest.fixture(scope="module")
def folder(drawn_pipeline, tmp_path_factory):
    return drawn_pipeline(tmp_path_factory.mktemp("pipeline"))


@pytest.fixture
def chosen(folder, monkeypatch):
    monkeypatch.setenv("CURATE_DIFFUSERS_WEIGHTS", str(folder))
    monkeypatch.setenv("CURATE_DIFFUSERS_CALL", '{"num_inference_steps": 2}')
    return {"pictures": "diffusers"}


def test_words_and_seed_decide_the_image_whatever_was_drawn_before(chosen):
    model = Providers(chosen)["pictures"]
    first = model.draw("a red cup", "1")
    assert PIL.Image.open(io.BytesIO(first)).size == (32, 32)
    others = {model.draw("a red cup", "2"), model.draw("a blue dog", "1")}
    assert len(others) == 2 and first not in others
    assert model.draw("a red cup", "1") == first


def test_its_version_names_pipeline_weights_and_steps_and_no_path(
    chosen, folder, drawn_pipeline, tmp_path, monkeypatch
):
    version = Providers(chosen)["pictures"].version
    assert version.startswith(
        f"diffusers-{metadata.version('diffusers')}-StableDiffusionPipeline-"
    ) and version.endswith("+num_inference_steps=2")
    assert str(folder.parent) not in version
    monkeypatch.delenv("CURATE_DIFFUSERS_CALL")
    assert Providers(chosen)["pictures"].version == version.removesuffix("+num_inference_steps=2")
    monkeypatch.setenv("CURATE_DIFFUSERS_WEIGHTS", str(drawn_pipeline(tmp_path, seed=1)))
    assert Providers(chosen)["pictures"].version not in version


def test_an_image_that_the_pipeline_hides_is_a_refusal_and_an_error_says_no_more_than_its_type(chosen, monkeypatch):
    model = Providers(chosen)["pictures"]
    hidden = SimpleNamespace(images=[PIL.Image.new("RGB", (8, 8))], nsfw_content_detected=[True])
    monkeypatch.setattr(model, "_pipeline", lambda **_: hidden)
    assert model.draw("x", "1") == Failed("refused")

    def broken(**_):
        raise RuntimeError("a red cup")

    monkeypatch.setattr(model, "_pipeline", broken)
    assert model.draw("a red cup", "1") == Failed("RuntimeError")


@pytest.mark.parametrize("broken", ["no folder", "pickles", "half"])
def test_a_folder_that_cannot_be_used_is_one_clear_line(chosen, folder, tmp_path, monkeypatch, broken):
    copy = shutil.copytree(folder, tmp_path / "copy")
    weights = next(copy.glob("unet/*.safetensors"))
    if broken == "no folder":
        shutil.rmtree(copy)
    elif broken == "pickles":
        weights.rename(weights.with_name("diffusion_pytorch_model.bin"))
    else:
        weights.write_bytes(weights.read_bytes()[:1000])
    monkeypatch.setenv("CURATE_DIFFUSERS_WEIGHTS", str(copy))
    with pytest.raises(MissingProvider, match=r"^pictures: .*CURATE_DIFFUSERS_WEIGHTS") as told:
        _ = Providers(chosen)["pictures"]
    assert "\n" not in str(told.value) and str(tmp_path) not in str(told.value)


@pytest.mark.parametrize("given", ["many", "[2]", '{"num_inference_steps": [2]}', '{"prompt": "x"}', '{"stepz": 2}'])
def test_settings_that_the_pipeline_does_not_have_are_refused(chosen, monkeypatch, given):
    monkeypatch.setenv("CURATE_DIFFUSERS_CALL", given)
    with pytest.raises(BadInput, match=r"^CURATE_DIFFUSERS_CALL: "):
        _ = Providers(chosen)["pictures"]


def test_its_images_go_the_way_of_every_image_and_none_is_drawn_twice(chosen, tmp_path):
    changes = {"general": 1, "fine": 1, "per_aspect": 2, "levels": ["easy"]}
    settings = settings_for(tmp_path, **changes).model_copy(update={"providers": chosen})
    store, rule = make(settings), GeneratedRule()
    drawn = store.read("generated_images")
    assert drawn.height == 2 * (1 + rule.redraws_max), "noise shows nothing that was described, so each is drawn again"
    assert set(drawn["version"]) == {Providers(chosen)["pictures"].version}
    assert drawn["image_id"].is_in(store.read("images", ["image_id"])["image_id"].implode()).all()
    assert draw_images.fn(settings, Providers(chosen), rule).model_calls == {}
