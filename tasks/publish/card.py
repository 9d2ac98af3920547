"""The dataset card of a repository that holds one configuration alone."""

import yaml


def card_of_config(card: str, config: str) -> str:
    """The release's card with only `config` in its YAML, whose files then lie at the repository's top.

    The text stays that of the whole release: what was removed, the schemas, the limits.
    """
    _, front, text = card.split("---\n", 2)
    about = yaml.safe_load(front)
    (chosen,) = [each for each in about["configs"] if each["config_name"] == config]
    files = [each | {"path": each["path"].removeprefix(f"{config}/")} for each in chosen["data_files"]]
    about["configs"] = [chosen | {"data_files": files, "default": True}]
    return f"---\n{yaml.safe_dump(about, sort_keys=False)}---\n{text}"
