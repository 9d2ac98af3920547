"""Takedowns: removes conversations, images or users from all tables and built releases, and keeps them out for ever."""
