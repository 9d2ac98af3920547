"""A store beside its tables: who may write to it, what must not come back, what runs did."""
