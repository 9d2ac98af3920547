"""Models answer benchmarks; judges compare answers, vote on battles and meet submissions, all asked in one way (`ask`).

In: benchmarks, a models file or files of answers, battles of a release. Out: `answers`, `verdicts` and `judge_votes`,
each stored as it arrives, and boards of them.
"""
