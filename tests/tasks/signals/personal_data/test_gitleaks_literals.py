"""Texts of gitleaks' tests are read from its Go files as they stand there, and held against the finder."""

import subprocess
import sys

import pytest

from benchmarks.gitleaks_literals import RULES, figures, literals

GO = """package rules

// tps := []string{"a comment"}
var shown = []string{
\t`shown = "one"`, // a comment, with "quotes"
}

func Lumenix() *config.Rule {
\tr := config.Rule{RuleID: "lumenix", Keywords: []string{"lumenix"}}
\ttps := utils.GenerateSampleSecrets("lumenix", secrets.NewSecret(`[a-z]{9}`))
\ttps = append(tps, utils.GenerateSampleSecrets("lumenix", "AKIALALEMEL33243OLIB")...)
\tr.TPs = append(tps,
\t\t`raw \\n two
lines`,
\t\t"with \\"quotes\\" and\\ttab",
\t\t"drawn " + secrets.NewSecret(`x{3}`),
\t\t`drawn `+secrets.NewSecret(`y{3}`)+`!`,
\t)
\tr.FPs = append(shown, "raw \\\\n two\\nlines", "near")
\treturn &r
}

func ByPath() *config.Rule {
\ttps := map[string]string{
\t\t"file.tf": "password = " + `"drawn"`,
\t\t"file.hcl": `secret: "of a file"`,
\t\t"key.p12": "",
\t}
\tfps := map[string]string{"near.tf": "near"}
\treturn utils.ValidateWithPaths(r, tps, fps)
}
"""


@pytest.fixture
def sources(tmp_path):
    (tmp_path / RULES).mkdir(parents=True)
    (tmp_path / RULES / "lumenix.go").write_text(GO)
    return tmp_path


def test_plain_literals_are_read_and_drawn_ones_left_out(sources):
    assert literals(sources) == (
        (
            'lumenixToken = "AKIALALEMEL33243OLIB"', "raw \\n two\nlines", 'with "quotes" and\ttab',
            'secret: "of a file"',
        ),
        ('shown = "one"', "near"),
    )  # fmt: skip


def test_what_is_not_found_and_what_is_taken_for_a_secret_is_listed(sources):
    found, taken = figures(literals(sources))
    assert found[1:3] == (1, 4)
    assert 'secret: "of a file"' in found[3]
    assert taken[1:] == (0, 2, [])


def test_a_folder_without_the_rules_is_refused_in_one_line(tmp_path):
    command = [sys.executable, "-m", "benchmarks.gitleaks_literals", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "has no cmd/generate/config/rules: give a checkout of gitleaks" in done.stderr.splitlines()[-1]
