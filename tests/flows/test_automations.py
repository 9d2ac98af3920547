"""docs/automations.yaml creates automations on a real server, for the deployments of prefect.yaml."""

import json
from pathlib import Path

import pytest
import yaml
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.client.orchestration import get_client
from prefect.events.schemas.automations import AutomationCore

ROOT = Path(__file__).parents[2]
NOBODY = "00000000-0000-0000-0000-000000000000"


@pytest.fixture(scope="module")
def made(prefect_server) -> dict[str, dict]:
    """The automations that the server created from the file, by name."""
    block = CustomWebhookNotificationBlock(name="test", url="http://127.0.0.1:9/told")
    told = str(block.save("told", overwrite=True))
    written = (ROOT / "docs" / "automations.yaml").read_text().replace(NOBODY, told)
    with get_client(sync_client=True) as client:
        for each in yaml.safe_load(written)["automations"]:  # as `prefect automation create --from-file` does
            client.create_automation(AutomationCore.model_validate(each))
        return {each.name: json.loads(each.model_dump_json()) for each in client.read_automations()}


def test_the_server_makes_both_and_tells_through_the_block(made):
    assert made.keys() == {"curation failed", "no night for 26 hours"}
    assert all(each["enabled"] and each["actions"][0]["block_document_id"] != NOBODY for each in made.values())
    assert made["no night for 26 hours"]["trigger"]["within"] == 26 * 3600


def test_they_are_about_the_deployments_that_there_are(made):
    deployed = [each["name"] for each in yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]]
    assert set(made["curation failed"]["trigger"]["match_related"]["prefect.resource.name"]) == set(deployed)
    assert made["no night for 26 hours"]["trigger"]["match_related"]["prefect.resource.name"] in deployed
