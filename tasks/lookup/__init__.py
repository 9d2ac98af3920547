"""What the tables of a store say, read across stages: facts, pictures, features, where lines went, why."""
