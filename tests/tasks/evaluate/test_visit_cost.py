"""What a submission costs: VisIT-Bench's estimate at the prices of 2023, and nothing for what is judged."""

from schemas.asked_model import AskedModel
from schemas.prices import Prices
from tasks.evaluate.estimate import estimate_judging
from tasks.evaluate.protocols import VISIT, AnswerPair, protocol
from tasks.runtime.prices import load_prices
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
    row = dict.fromkeys(("question_id", "shown", "model_a", "model_b", "answer_a", "answer_b"), "x")
    both = [AnswerPair(row, "What?", *answers, captions=["A cup."]) for answers in ("xy", "yx")]
    store = Store.open(str(tmp_path / "store"))
    prices, how = _prices(tmp_path), protocol(VISIT[0])
    found = estimate_judging(store, both * 700, judge, how, prices, lambda text: 800)
    assert [(row.mode, row.calls, round(row.usd, 2)) for row in found] == [
        ("one by one", 1400, 54.6),
        ("batch", 1400, 27.3),
    ]
