"""Suspects: voters, and groups of voters, whose votes pull one model.

In: battles, one row a vote. Out: rows of `schemas/benches/certificate.py`. Nobody is named for an opinion: the test
allows each voter a taste of `TASTE` log-odds for or against any model.
"""
