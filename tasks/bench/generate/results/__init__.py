"""What models score on generated items. In: items and answers. Out: accuracy, ranks, and the figures of an audit."""
