"""The report of a release.

In: the tables of a store. Out: `report/index.html` (one file that opens offline), `report/figures/*.svg` and
`report/tables/*.csv`.
"""
