"""When things are done: the order of stages. No computation here."""
