"""Forget a conversation, picture or user: gone from every table, cache and built release, and kept out for ever."""
