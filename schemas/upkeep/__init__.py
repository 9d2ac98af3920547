"""Rows of a store's upkeep: its audit log, the list of a backup, and where it stands."""
