"""The stages as Prefect flows, and the `curate` command. In: settings; out: one report per stage.

Nothing is computed here: every flow calls steps of `tasks`.
"""
