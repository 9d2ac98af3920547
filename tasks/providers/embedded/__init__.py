"""Default providers: models that ship inside installed packages. Deterministic; no network, no keys, no torch.

In: decoded images, texts, documents. Out: the return types of the Protocols in `capabilities.py`.
"""
