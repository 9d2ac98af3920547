"""Prompts that say what another prompt says: found in a store, and between the benchmark and any outside data."""
