"""A chat arena: people chat with models and vote; the logs are FastChat's, so `curate run` reads them.

In: a models file, a folder for logs, providers that check what is sent. Out: `vision-tmp-DATE-conv.json`,
`serve_images/`, requests for takedowns. Everything but `page`, `events`, `app`, `look` and `tasks_tab` works
without a user interface.
"""
