"""Boards from verdicts of judges.

In: verdicts of a store or of published judgement files. Out: scores against one baseline with intervals, the same under
style control, how far the judge can be trusted, the judge's board of a release beside the people's, and the board of a
written benchmark.
"""
