"""The board of a written benchmark.

In: battles of a judge without the images, in both orders, and the items' families. Out: Elo, Bradley-Terry, coverage
and win rates against the reference, for all items and each family; a dated file each time.
"""
