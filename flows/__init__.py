"""The order of the stages, as Prefect flows, and the `curate` command. In: settings; out: a report of each stage.

No computation here: every flow calls steps of `tasks`.
"""
