"""The whole curation, in order. Each stage is a flow of its own and can be run alone."""

from prefect import flow

from flows.canaries import canaries
from flows.decide import decide
from flows.ingest import ingest
from flows.measure import describe, screen
from flows.one_writer import one_writer
from flows.rate import rate
from flows.release import release
from flows.sample import sample
from schemas.run import StageReport
from schemas.settings import Settings


@flow(name="curate")
@one_writer
def curate(settings: Settings) -> list[StageReport]:
    """Raw logs -> a release."""
    return [
        *canaries(settings),  # planted probes take the same way; one that gets through ends the run
        *ingest(settings),  # lines and pictures; pixel signals look at the decode that gives a picture its identity
        *screen(settings),  # every text: facts that may forbid a release
        *decide(settings),  # keep or drop, with every reason
        *describe(settings),  # kept texts: facts that make the release useful
        *sample(settings),
        *rate(settings),
        *release(settings),
    ]
