"""What passes the admission, what does not, and what nobody is blamed for."""

import asyncio
import io
import json
import time
from dataclasses import replace
from random import Random

import numpy as np
import PIL.Image
import pytest

from flows.arena.serving import admission as opened
from schemas.errors import BadInput
from schemas.signals import Moderation
from tasks.arena.entrance import UPLOAD_BYTES_MAX, Admission, KnownImage, Refused
from tasks.arena.settings import ArenaSettings
from tasks.arena.uploads import UPLOAD_KEPT_SECONDS, Examples, Uploads
from tasks.arena.words import page_words
from tasks.images.served import as_served, served_name
from tasks.ingest.image_files import logged_name
from tasks.ingest.known_images import file_digests, load_known_hashes
from tasks.providers.capabilities import Failed
from tests.built_arena import VISIT, Scripted, image_file

KEYS = ("moderated", "nsfw", "unavailable", "unreadable")
MODERATED, NSFW, UNAVAILABLE, UNREADABLE = (page_words()[key] for key in KEYS)


class Says:
    """A moderator that flags one word."""

    version = "1"

    def __init__(self, word="", failure=None):
        self.word, self.failure = word, failure

    def moderate(self, texts):
        if isinstance(self.failure, Exception):
            raise self.failure
        flagged = [["harassment"] if self.word and self.word in text else [] for text in texts]
        rated = [Moderation(flagged_probability=0.9, flagged_categories=each, category_scores=[]) for each in flagged]
        return [self.failure] * len(rated) if self.failure else rated


class Scores:
    """An NSFW classifier with one answer for all images."""

    version = "1"

    def __init__(self, answer):
        self.answer = answer

    def nsfw_probabilities(self, images):
        return [self.answer for _ in images]


def test_an_upload_is_made_anew_without_metadata_and_named_as_ingest_names_it(admission, tmp_path):
    exif = PIL.Image.Exif()
    exif[0x010F] = "maker"
    exif.get_ifd(0x8825)[1] = "N"
    photo = image_file("JPEG", exif=exif) + b"<?php trailing polyglot"
    found = admission.picture(photo)
    assert b"maker" not in found.png and b"Exif" not in found.png and b"polyglot" not in found.png
    with PIL.Image.open(io.BytesIO(found.png)) as again:
        assert (again.mode, served_name(again)) == ("RGBA", found.name)
    (tmp_path / "preset.jpg").write_bytes(photo)
    assert logged_name(tmp_path / "preset.jpg") == found.name, "an uploaded preset is recognized by its name"
    assert as_served(PIL.Image.new("RGB", (3000, 2000))).size == (1023, 682)
    assert set(found.checked) == {"nsfw_probability"}


def _animated() -> bytes:
    sink = io.BytesIO()
    frames = [PIL.Image.fromarray(np.full((8, 8), shade, np.uint8)) for shade in (0, 120, 255)]
    frames[0].save(sink, "GIF", save_all=True, append_images=frames[1:])
    return sink.getvalue()


def _bomb() -> bytes:
    sink = io.BytesIO()
    PIL.Image.new("1", (19_000, 19_000)).save(sink, "PNG")
    return sink.getvalue()


def _sliver() -> bytes:
    sink = io.BytesIO()
    PIL.Image.new("L", (9_000, 2)).save(sink, "PNG")
    return sink.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"", b"<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>", b"GIF89a" + b"\0" * 20, image_file()[:200],
        _animated(), _bomb(), _sliver(), b"\0" * (UPLOAD_BYTES_MAX + 1),
    ],
    ids=["empty", "svg", "broken", "cut off", "animated", "bomb", "sliver", "large"],
)  # fmt: skip
def test_what_is_no_still_image_within_the_limits_is_refused(admission, content):
    began = time.process_time()
    with pytest.raises(Refused):
        admission.picture(content)
    assert time.process_time() - began < 5


def test_a_known_file_is_not_decoded_and_known_pixels_are_found(admission, tmp_path):
    listed = tmp_path / "hashes.txt"
    lines = [f"sha256 {file_digests(b'not an image').sha256}", f"md5 {admission.picture(image_file(seed=3)).name}"]
    listed.write_text("\n".join(lines))
    known = load_known_hashes([str(listed)])
    guarded = Admission(
        Scores(Failed("asked too early")),
        0.8,
        admission.moderator,
        known=known,
        holds_file=lambda content: known.holds_file(file_digests(content)),
    )
    with pytest.raises(KnownImage):
        guarded.picture(b"not an image")
    with pytest.raises(KnownImage):
        guarded.picture(image_file(seed=3))
    with pytest.raises(Refused, match=UNAVAILABLE):
        guarded.picture(image_file(seed=4))


@pytest.mark.parametrize(
    ("answer", "said"),
    [(0.8, NSFW), (Failed("timed_out"), UNAVAILABLE), (float("nan"), UNAVAILABLE), (0.79, None)],
    ids=["nsfw", "failed", "NaN", "fine"],
)
def test_the_nsfw_check_decides_and_its_failure_closes_the_door(answer, said):
    admission = Admission(Scores(answer), 0.8, Says())
    if said is None:
        assert admission.picture(image_file()).name
        return
    with pytest.raises(Refused) as refused:
        admission.picture(image_file())
    assert str(refused.value) == said


def test_a_policy_without_a_threshold_for_nsfw_images_is_refused():
    with pytest.raises(BadInput, match=r"no rule `at_least` for nsfw\.nsfw_probability"):
        opened(ArenaSettings(policy="upstream"))


def test_what_the_moderation_measured_is_logged_and_a_new_answer_needs_it_too(build, admission):
    says = Says()
    built = build(admission=Admission(admission.nsfw, 0.8, says), vision=("good-model", "second-model"))

    async def rounds():
        await built.finished(await built.say("", [admission.picture(image_file())]))
        conversation = await built.say()
        await built.finished(conversation)
        says.failure = Failed("down")
        with pytest.raises(Refused, match=UNAVAILABLE):
            await built.arena.regenerate(conversation, VISIT)
        assert not conversation.answering and conversation.state == (1, 0)
        says.failure = None
        await built.arena.regenerate(conversation, VISIT)
        await built.finished(conversation)

    asyncio.run(rounds())
    moderation = [record["arena"]["moderation"]["flagged_categories"] for record, _ in built.seen()]
    assert moderation == [None] * 2 + [[]] * 4, "of an image without words no text was moderated"


@pytest.mark.parametrize(
    ("rules", "passes"),
    [
        ([], []),
        ([("moderation", [], "drop")], []),
        ([("moderation", ["hate"], "drop"), ("moderation", [], "tag")], ["harassment"]),
        ([("moderation", ["hate"], "drop"), ("moderation", ["harassment"], "hold")], []),
        ([("image_moderation", ["hate"], "drop")], []),
        ([("moderation", [], "tag")], ["harassment"]),
        ([("moderation", ["hate"], "tag")], ["harassment"]),
    ],
    ids=["no rule", "no list", "a list", "two lists", "of images", "a tag", "a tag with a list"],
)
def test_the_categories_that_the_policy_names_are_refused_and_all_where_it_names_none(tmp_path, rules, passes):
    nsfw = {"reason": "nsfw", "signal": "nsfw.nsfw_probability", "over": "images", "at_least": 0.8}
    rows = [
        {"reason": f"r{number}", "signal": f"{signal}.flagged_categories", "contains_any": listed, "action": action}
        | {"over": "images" if signal.startswith("image") else "messages"}
        for number, (signal, listed, action) in enumerate(rules)
    ]
    (tmp_path / "policy.yaml").write_text(json.dumps({"name": "own", "about": "Mine.", "rules": [nsfw, *rows]}))
    guarded = replace(opened(ArenaSettings(policy=str(tmp_path / "policy.yaml"))), moderator=Says("awful"))
    if passes:
        assert guarded.check_texts(["awful"]) == guarded.check_texts(["awful", "fine", "awful too"]) == passes
    else:
        with pytest.raises(Refused, match=MODERATED):
            guarded.check_texts(["awful"])


def test_texts_for_open_models_alone_are_only_logged_where_the_policy_is_about_proprietary_ones(tmp_path, build):
    own = "name: own\nextends: public_release\nrules:\n- {reason: moderation, models: proprietary}\n"
    (tmp_path / "own.yaml").write_text(own)
    guarded = replace(opened(ArenaSettings(policy=str(tmp_path / "own.yaml"))), moderator=Says("awful"))
    with pytest.raises(Refused, match=MODERATED):
        asyncio.run(build(admission=guarded, open_models=("good-model",)).say("awful"))
    both_open = build(admission=guarded, open_models=("good-model", "second-model"))
    assert asyncio.run(both_open.say("awful")).moderation == ["harassment"]


def test_the_whole_conversation_is_moderated_and_a_failure_blames_nobody(build, admission):
    models = {"good-model": Scripted(("Fine",)), "second-model": Scripted(("An awful word",))}
    built = build(models, admission=Admission(admission.nsfw, 0.8, Says("awful")))

    async def second_message():
        conversation = await built.say()
        await built.finished(conversation)
        with pytest.raises(Refused) as refused:
            await built.say("Harmless", conversation=conversation)
        assert str(refused.value) == MODERATED and len(conversation.prompts) == 1

    asyncio.run(second_message())
    for failure in (Failed("down"), RuntimeError("key quoted here")):
        with pytest.raises(Refused) as refused:
            Admission(admission.nsfw, 0.8, Says(failure=failure)).check_texts(["Hello"])
        assert str(refused.value) == UNAVAILABLE


def test_uploads_are_their_owners_and_wait_for_the_message_that_is_taken(admission):
    now = [0.0]
    uploads = Uploads(admission, clock=lambda: now[0])
    with pytest.raises(Refused, match=UNREADABLE[:20]):
        uploads.take(b"nothing", "me")
    mine, again = uploads.take(image_file(), "me"), uploads.take(image_file(), "me")
    with pytest.raises(Refused):
        uploads.collect([mine], "somebody else")
    for _ in range(2):  # a refused message is sent again
        assert [each.name for each in uploads.collect([mine, again], "me")] == [
            admission.picture(image_file()).name
        ] * 2
    uploads.discard([mine, again], "somebody else")
    uploads.discard([mine, "/etc/passwd"], "me")
    for names in ([mine], ["never"], ["/etc/passwd"]):
        with pytest.raises(Refused, match=UNREADABLE[:20]):
            uploads.collect(names, "me")
    now[0] = UPLOAD_KEPT_SECONDS
    uploads.purge()
    assert uploads.content(again, "me") is None and uploads._bytes == 0


def test_nobody_is_told_of_a_known_image_before_its_message_is_sent(admission):
    guarded = replace(admission, holds_file=lambda content: content == b"listed")
    uploads = Uploads(guarded)
    name = uploads.take(b"listed", "me")
    assert uploads.content(name, "me") is None
    with pytest.raises(KnownImage):
        uploads.collect([uploads.take(image_file(), "me"), name], "me")


def test_example_images_pass_the_door_and_others_are_left_out(admission, tmp_path):
    (tmp_path / "good.png").write_bytes(image_file())
    (tmp_path / "bad.png").write_bytes(b"nothing")
    listed = [("good.png", tmp_path / "good.png"), ("bad.png", tmp_path / "bad.png")]
    examples = Examples(admission, {"All": listed, "Bad": listed[1:]}, Random(0))
    assert {examples.draw("All").preset for _ in range(10)} == {"good.png"}
    assert examples.first("All") and examples.first("Bad") is None
    for kind in ("Bad", "None"):
        with pytest.raises(Refused):
            examples.draw(kind)
