"""The benchmark: drawn from the topics of kept prompts, with a hidden split that is not released.

In: `topics`, kept `conversations`, `signals/*`. Out: `bench`, `hidden`, `bench_funnel`, `bench_measures`.
`contamination/` finds benchmark prompts in a store, in a release and in outside data.
"""
