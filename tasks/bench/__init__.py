"""The drawn benchmark: a public split over the topics of kept prompts, a hidden one, and prompts that models fail.

In: `topics`, kept `conversations` and `battles`, `signals/*`. Out: `bench`, `hidden`, `failures` and figures of each.
`contamination/` finds benchmark prompts in a store, in a release and in outside data.
"""
