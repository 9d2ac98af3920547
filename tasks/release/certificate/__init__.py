"""The certificate of a release: one JSON file, a page and a section of the card about how far its board can be trusted.

In: the released battles and boards, and the models of the store's battles. Out: `leaderboard/certificate.json` and
`leaderboard/certificate.html`.
"""
