"""Flows and commands of benchmarks that people write."""
