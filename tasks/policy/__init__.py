"""Applies a policy to signals: decisions with every reason that fired. Thresholds are in YAML only.

In: `conversations`, `battles`, `images`, `signals/*`, `reviews` and a policy file. Out: `decisions`, `near_images`,
`semantic_images`, `near_prompts`, `redacted_conversations`, `redacted_images`, `rule_parity`.
"""

from pathlib import Path

SHIPPED_POLICIES = {file.stem: file for file in sorted((Path(__file__).parent / "policies").glob("*.yaml"))}
"""Name of a policy that ships with the install -> its file."""
