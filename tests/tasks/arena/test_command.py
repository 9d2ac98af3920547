"""`curate arena` with what it cannot serve: one line, exit status 2, and nothing of the folder is lost."""

import json
import socket

import pytest

from tests.cut_off import room_for

GOOD = [{"name": name, "base_url": "http://127.0.0.1:1/v1"} for name in "ab"]
LATER = "vision-tmp-2999-01-01-conv.json"


@pytest.fixture
def arena(curate, tmp_path, monkeypatch):
    """A function that starts an arena of a models file."""
    monkeypatch.delenv("LAB_KEY", raising=False)

    def started(*options, models=GOOD, logs=tmp_path / "logs"):
        file = tmp_path / "models.yaml"
        file.write_text(json.dumps({"models": models}))  # JSON is YAML
        given = ("--logs", logs) if logs else ()
        code, _, err = curate("arena", "--models", file, "--no-browser", *given, *options)
        assert (code, err.count("\n")) == (2, 1), err
        return err

    return started


def test_models_that_make_no_arena(arena, tmp_path):
    assert "model 'c'" in arena(models=[*GOOD, {**GOOD[0], "name": "c", "key": "LAB_KEY"}])
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (["login_header=X-User"], "--set login_header=X-User needs --set proxies=N"),
        (["login_header=X User"], "--set login_header: must match ^[A-Za-z0-9-]+$"),
        (["proxies=1", "proxied_by=10.0.0.5,my proxy"], "proxied_by 'my proxy' is no network; give the address"),
        (["captcha_script=https://h/api.js"], "captcha_site_key is not set"),
        (["captcha_script=javascript:x"], "--set captcha_script: must match ^https?://"),
        (["boost=0.5"], "--set boost: must be at least 1"),
    ],
)
def test_guards_that_cannot_guard(arena, given, error):
    assert error in arena(*(part for each in given for part in ("--set", each)))


def test_a_port_that_is_none(arena):
    assert "'--port': must be at most 65535, not '99999'" in arena("--port", "99999")


def test_a_port_that_is_taken(arena, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"--port {port} cannot be used" in arena("--port", port)
        monkeypatch.setenv("ARENA_ADMIN_TOKEN", "0123456789abcdef")
        assert f"--set admin_port={port} cannot be used" in arena("--set", f"admin_port={port}")
        monkeypatch.setenv("ARENA_ADMIN_TOKEN", "short")
        assert "ARENA_ADMIN_TOKEN has 5 characters" in arena()


def test_a_folder_that_cannot_hold_logs(arena, tmp_path):
    assert "needs --logs DIR" in arena(logs=None)
    (tmp_path / "file").write_text("mine")
    assert "cannot be written" in arena(logs=tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_disk_without_room_for_logs(arena):
    with room_for(1024):
        assert "cannot be written (File too large)" in arena()


def test_a_clock_that_is_behind_the_logs(arena, tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / LATER).write_text("{}\n")
    assert "holds lines of 2999-01-01, and this machine's clock says" in arena()
    assert (tmp_path / "logs" / LATER).read_text() == "{}\n"
