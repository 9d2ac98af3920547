"""Signals: measured properties of images, texts and documents. Each value is measured once and stored.

In: decoded images, texts of conversations, documents (prompts with their images). Out: tables `signals/<name>`, one row
per item and version. `registry.py` has one line a signal: its rule (`rules/`) or the call of its provider.
"""
