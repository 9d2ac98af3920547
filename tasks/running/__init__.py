"""How work runs: on threads or processes, with progress, timed, in compiled loops."""
