"""Tables and figures of a release, in one page that opens offline."""
