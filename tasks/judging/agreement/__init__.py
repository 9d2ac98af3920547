"""Text metrics and judges, held against people who agreed on the better of two answers.

In: votes of several people on pairs of answers, the answers, references, a judge's battles. Out: shares of majorities
reproduced, with intervals, and rank agreement of boards.
"""
