"""Reads the price file and checks that every chosen service has a price."""

import json
from collections.abc import Iterable
from pathlib import Path

import yaml
from pydantic import ValidationError

from schemas.errors import BadInput
from schemas.run import Prices
from tasks.runtime.yaml_files import read_yaml

SHIPPED = Path(__file__).parent / "prices.yaml"


def load_prices(file: str | None = None) -> Prices:
    """The price file, by default the shipped one. Raises BadInput with the first error in it."""
    path = Path(file) if file else SHIPPED
    try:
        return Prices.model_validate_json(json.dumps(read_yaml(path), default=str))
    except OSError:
        raise BadInput(f"price file {str(path)!r} cannot be read") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise BadInput(f"price file {str(path)!r} is not YAML") from None
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "the whole file"
        raise BadInput(f"price file {str(path)!r}: {where}: {problem['msg']}; see the shipped prices.yaml") from None


def check_prices(prices: Prices, providers: Iterable[object]) -> None:
    """Raises BadInput when a chosen paid service has no price, because its calls could not count against a budget."""
    for service in sorted({name for provider in providers if (name := getattr(provider, "service", None))}):
        if prices.tokens(service) is None and service not in prices.unit_prices:
            raise BadInput(
                f"--budget: the price file has no price for {service!r}; add it to a copy, give --prices FILE"
            )
