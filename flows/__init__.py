"""The stages as Prefect flows, and the `curate` command. In: settings; out: one report per stage.

Nothing is computed here: every flow calls steps of `tasks`.
"""

import os

for _name, _value in (("DO_NOT_TRACK", "1"), ("PREFECT_SERVER_ANALYTICS_ENABLED", "false")):
    os.environ.setdefault(_name, _value)  # before Prefect is imported: nothing about a run leaves this machine
