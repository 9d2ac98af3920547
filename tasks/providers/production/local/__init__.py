"""Models that run on this machine with weights of their own: loaded once per process, shared by all its runs.

In: weights in a file, a folder or the Hugging Face cache. Out: providers of a capability, and topic engines.
"""
