"""Signals and a policy -> decisions with every reason that fired. No thresholds in Python.

In: `conversations`, `battles`, `images`, `signals/*`, `reviews` and a policy file. Out: `decisions`, `near_pictures`,
`semantic_pictures`, `near_prompts`, `redacted_conversations`, `redacted_images`, `rule_parity`.
"""
