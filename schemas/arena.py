"""A model that an arena serves, as its models file names it."""

from pydantic import Field

from schemas.review import Draws
from schemas.row import Row


class ArenaModel(Row):
    """One entry of an arena's models file."""

    name: str = Field(min_length=1, max_length=200)
    """Name in logs and on boards; each name once in a file."""
    base_url: str = Field(pattern=r"^https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?(/[^@\s]*)?$")
    """Address of a server with OpenAI's chat completions, such as http://gpu1:8000/v1."""
    model: str = ""
    """The server's own name of the model; by default `name`."""
    key: str | None = Field(default=None, pattern=r"^[A-Z][A-Z0-9_]*$")
    """Name of the environment variable with the key, never the key itself; none for a server that needs none."""
    vision: bool = False
    """Whether the model reads images."""
    weight: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """How often the model is drawn for battles, relative to others; 0 for never."""
    anonymous_only: bool = False
    """Whether the model stands in battles only, so that nobody can choose it by name."""
    system: str = ""
    """System prompt; empty for none."""
    temperature: float | None = Field(default=0.7, ge=0, le=2, allow_inf_nan=False)
    """Sampling temperature; null leaves it to the server."""
    top_p: float | None = Field(default=1.0, gt=0, le=1, allow_inf_nan=False)
    """Nucleus of sampling; null leaves it to the server."""
    answer_tokens_max: int = Field(default=2000, ge=1)
    """Limit of an answer in tokens."""

    @property
    def asked_as(self) -> str:
        """The server's own name of the model."""
        return self.model or self.name


class ArenaTasks(Draws):
    """A tasks file: what annotators of an arena are asked, and who they are."""

    lists: list[str] = Field(min_length=1)
    """Kinds of `curate review`, such as battles, items, generated or preferences, or single queues of them."""
    overlap: int = Field(default=2, ge=1)
    """How many annotators get each item."""
    annotators: dict[str, str] = Field(min_length=1)
    """Name in the table of verdicts, and name of the environment variable with that annotator's key."""
