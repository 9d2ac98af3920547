"""Where `compact` was; `tasks.parquet` has it."""

from tasks.parquet import compact

__all__ = ["compact"]
