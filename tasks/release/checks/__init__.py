"""Checks of `curate verify` that compute again what a release says: boards of votes, pages that a browser opens."""
