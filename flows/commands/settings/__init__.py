"""`curate init` writes the settings file; `curate doctor` says what is in force and whether a run can start."""
