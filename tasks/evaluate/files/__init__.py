"""Files about models that were written elsewhere.

In: answers and judgements as other tools publish them, and the list of models to ask. Out: rows of one shape.
"""
