"""Flows and commands of benchmarks made on demand."""
