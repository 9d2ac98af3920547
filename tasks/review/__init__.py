"""One way to ask people: queues of items, on pages, as sheets (CSV) and as tasks of annotators.

In: stored items and what is asked about them (`review_queue.ReviewQueue`; one module a kind of question), filled-in
sheets, verdicts given by keyboard. Out: rows of the table `reviews`, sheets with their images, and what people say.
`session` knows what waits for whom, `routes` serves it, `sheets` writes and reads the sheets.
"""
