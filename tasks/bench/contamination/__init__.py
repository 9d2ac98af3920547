"""Finds prompts that ask the same thing: within a store, and between the benchmark and any outside dataset."""
