"""`curate ingest` from the command line."""

from tests.tasks.ingest.logs import DAY, chat, write


def test_an_unknown_format_is_one_clear_line(curate, tmp_path):
    write(tmp_path / "logs", DAY, chat("a"))
    given = ("--logs", tmp_path / "logs", "--store", tmp_path / "store", "--format", "vision-arena-chta")
    for command in ("ingest", "run"):
        code, out, err = curate(command, *given)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "Did you mean vision-arena-chat?" in err


def test_a_folder_of_something_else_says_what_could_be_there(curate, tmp_path):
    write(tmp_path / "logs", "rows.jsonl", {"prompt": "alice@example.com"})
    code, _, err = curate("ingest", "--logs", tmp_path / "logs", "--store", tmp_path / "store")
    assert (code, err.count("\n")) == (2, 1)
    assert "columns: prompt" in err and "lmsys-chat" in err and "alice" not in err
