"""What each reason means, for people who have not read the policy."""

from schemas.policy import Policy, Rule
from schemas.reject import REJECT_TEXTS
from tasks.lookup.funnel import SHARE, SUPERSEDED

REPEATS = {
    SUPERSEDED: "a later line of the same conversation or vote replaced it",
    SHARE: "a shared link; it repeats conversations that other lines hold",
}
"""Lines that carry nothing of their own."""


def reason_texts(policy: Policy) -> dict[str, str]:
    """Reason -> what makes it fire; of rejects as well."""
    texts: dict[str, str] = {}
    for each in policy.rules:
        texts[each.reason] = "; or ".join(filter(None, (texts.get(each.reason), _rule(each))))
    texts |= {
        f"unmeasured_{rule.signal.partition('.')[0]}": "no measurement, which counts against it"
        for rule in policy.rules
    }
    if (rule := policy.duplicates) is not None:
        alike = f"the same prompt (cosine {rule.prompt_cosine_min} or more), pictures: {rule.pictures}"
        texts[rule.reason] = f"{alike}; copies kept: {rule.copies_max}"
    if (limit := policy.hot_prompts) is not None:
        kept = limit.copies_max or f"quantile {limit.copies_quantile} of the battles that each prompt has"
        texts[limit.reason] = f"more battles of the same prompt, pictures: {limit.pictures}; kept: {kept}"
    return texts | REPEATS | REJECT_TEXTS


def _rule(rule: Rule) -> str:
    if rule.at_least is not None:
        comparison = f"{rule.at_least} or more"
    elif rule.at_most is not None:
        comparison = f"{rule.at_most} or less"
    elif rule.contains_any is not None:
        comparison = f"holds {'any of ' + ', '.join(rule.contains_any) if rule.contains_any else 'anything'}"
    else:
        comparison = f"is {str(rule.equals).lower()}"
    return f"{rule.signal} of the {rule.over.replace('_', ' ')}: {comparison}"
