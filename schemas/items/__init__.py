"""Rows of what a store keeps of logs and images, and of what was decided on it."""
