"""How far people and judges agree, and how boards and benchmarks correlate.

In: files with a label for every item, votes of a store, filled-in sheets of experts, tables of scores. Out: confusion,
accuracy, F1, kappa, alpha and correlations with 95 % intervals (`schemas/agreement.py`); blinded sheets of battles.
Nothing here asks a model.
"""
