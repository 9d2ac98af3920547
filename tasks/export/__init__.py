"""A release -> other formats."""
