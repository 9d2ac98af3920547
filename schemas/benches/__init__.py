"""Rows of benchmarks: drawn, written and made on demand; answers, verdicts, votes and how they agree."""
