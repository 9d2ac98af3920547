"""What a submission costs: VisIT-Bench's estimate at the prices of 2023, and nothing for what is judged."""

from schemas.asked_model import AskedModel
from schemas.run import Prices
from schemas.written import Split
from tasks.evaluate.estimate import estimate_without_images
from tasks.evaluate.visit.compare import OrderedPair
from tasks.evaluate.visit.protocol import VisitProtocol
from tasks.runtime.prices import load_prices
from tasks.storage.queries.benches.written_items import ItemForJudging
from tasks.storage.tables import Store

PRICES = """
tokens:
  openai-gpt-4-0613:
    input_usd_per_million: 30
    output_usd_per_million: 60
    batch_share: 0.5
    image: {tile_pixels: 32, tiles_max: 1, tokens_a_tile: 1}
    source: the price list of 2023
    date: 2023-08-01
    confirmed: false
units: {}
"""


def _prices(folder) -> Prices:
    (folder / "prices.yaml").write_text(PRICES)
    return load_prices(str(folder / "prices.yaml"))


def test_700_battles_of_800_tokens_in_and_250_out_cost_50_to_70_dollars_at_the_prices_of_2023(tmp_path):
    judge = AskedModel(name="gpt-4", vendor="openai", model="gpt-4-0613")
    item = ItemForJudging("i", "f", "What?", ["A cup."], None, (), Split.VALIDATION, "d")
    answers = [{"model": name, "version": "1", "text": name} for name in "xy"]
    both = [OrderedPair(item, "s", *answers), OrderedPair(item, "s", *reversed(answers))]
    store = Store.open(str(tmp_path / "store"))
    found = estimate_without_images(store, both * 700, judge, VisitProtocol(False), _prices(tmp_path), lambda text: 800)
    assert [(row.mode, row.calls, round(row.usd, 2)) for row in found] == [
        ("one by one", 1400, 54.6),
        ("batch", 1400, 27.3),
    ]
