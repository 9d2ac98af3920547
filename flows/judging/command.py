"""The commands of judging: `curate judge` and `curate correlate`, and their places in the help."""

from flows.commands.listed import Added, CommandGroup
from flows.judging import agree, boards, calls, correlate, failures, submit

_OF_JUDGES = CommandGroup(
    "judge",
    "Rank models by a judge's verdicts on their answers.",
    [
        calls.answer,
        calls.compare,
        submit.submit,
        boards.board,
        agree.agree,
        agree.votes,
        agree.metrics,
        failures.failures,
    ],
)
COMMANDS = (Added(correlate.correlate, "Look", before="review"), Added(_OF_JUDGES, "Look", before="tags"))
