"""How every flow runs: with errors of one line, as the only writer of its store, in threads or in several processes.

In: a function over `Settings`. Out: a Prefect flow that gives one report per stage. Planted probes run before others.
"""
