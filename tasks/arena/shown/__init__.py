"""What visitors see of a conversation. In: texts of people and models. Out: the same without names and tags."""
