"""Files that were written elsewhere.

In: answers and judgements as other tools publish them, and answers that somebody submits. Out: rows of one shape.
"""
