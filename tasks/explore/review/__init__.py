"""Review pages on the explorer's server: queues of items about which people give verdicts by keyboard.

In: queues of several stages (`queues.ReviewQueue`), the explorer's source, which masks and blurs. Out: verdicts, first
in the journal of `tasks/storage/reviews.py`, then in the table `reviews`. `session` knows what waits for whom, `routes`
serves it.
"""
