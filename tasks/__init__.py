"""The work: one folder per stage, named by what it makes; `storage`, `providers` and `runtime` serve all of them."""
