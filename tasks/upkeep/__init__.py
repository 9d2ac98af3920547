"""Upkeep of a store for years: backups that prove themselves, retention, and where things stand."""
