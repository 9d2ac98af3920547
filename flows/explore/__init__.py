"""Command of the explorer."""
