"""`curate ingest` from the command line."""

import sys

import pytest

from flows.commands import main
from tests.tasks.ingest.logs import DAY, chat, write


def curate(monkeypatch, capsys, *arguments: object) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["curate", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    out, err = capsys.readouterr()
    return int(stopped.value.code or 0), out, err


def test_an_unknown_format_is_one_clear_line(monkeypatch, capsys, tmp_path):
    write(tmp_path / "logs", DAY, chat("a"))
    given = ("--logs", tmp_path / "logs", "--store", tmp_path / "store", "--format", "vision-arena-chta")
    for command in ("ingest", "run"):
        code, out, err = curate(monkeypatch, capsys, command, *given)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "Did you mean vision-arena-chat?" in err


def test_a_folder_of_something_else_says_what_could_be_there(monkeypatch, capsys, tmp_path):
    write(tmp_path / "logs", "rows.jsonl", {"prompt": "alice@example.com"})
    code, _, err = curate(monkeypatch, capsys, "ingest", "--logs", tmp_path / "logs", "--store", tmp_path / "store")
    assert (code, err.count("\n")) == (2, 1)
    assert "columns: prompt" in err and "lmsys-chat" in err and "alice" not in err


def test_help_names_what_can_be_read(monkeypatch, capsys):
    code, out, _ = curate(monkeypatch, capsys, "ingest", "--help")
    assert code == 0
    for word in ("--format", "VisionArena-Chat", "lmsys-chat-1m", ".zst"):
        assert word in out
