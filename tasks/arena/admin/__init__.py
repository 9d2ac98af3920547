"""The operator's page of an arena: what happens by hour and model, and what may be changed without a restart."""
