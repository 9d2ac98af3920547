"""Boards by WildVision's taxonomy, boards with named votes, and cards of pairs with example battles."""

import json

import pytest

ROWS = """question_id,model_a,model_b,winner,anony,question_category,question_subcategory,image_domain
q1,x,y,model_a,true,Analytical,Data Analysis,Expert
q2,y,x,model_b,true,Analytical,Mathematical Reasoning,Expert
q3,x,y,model_b,true,Recognition,,Objects
q4,x,y,tie,true,,,Objects
q5,x,y,model_b,false,Analytical,Data Analysis,
q6,y,x,model_b,true,Recognition,Text Recognition,Expert
"""


@pytest.fixture
def rate(curate, tmp_path):
    """JSON rows and stderr of `curate rate` on the table."""
    table = tmp_path / "votes.csv"
    table.write_text(ROWS)

    def rows(*options):
        code, out, err = curate("rate", table, "--json", *options)
        assert code == 0, err
        return [json.loads(line) for line in out.splitlines()], err

    return rows


def test_every_category_subcategory_and_domain_is_a_slice(rate):
    rows, _ = rate("--table", "vote_shares")
    sizes = {row["slice"]: row["battles"] for row in rows}
    assert sizes["question:Analytical"] == 2
    assert sizes["question:Analytical / Data Analysis"] == 1
    assert (sizes["image:Expert"], sizes["image:Objects"]) == (3, 2)
    assert "question:Recognition / " not in sizes
    board, _ = rate("--slice", "image:Expert")
    assert (board[0]["slice"], board[0]["model"], board[0]["battles"]) == ("image:Expert", "x", 3)


def test_named_votes_count_only_when_asked_for_and_mark_the_board(rate):
    (first, _), err = rate("--slice", "overall")
    assert (first["battles"], "named_votes" in first["flags"], err.count("names were shown")) == (5, False, 0)
    (first, second), err = rate("--slice", "overall", "--named")
    assert (first["battles"], "1 votes are on models whose names were shown" in err) == (6, True)
    assert all("named_votes" in row["flags"] for row in (first, second))


def test_a_card_names_battles_that_each_side_won(rate):
    (card, other), _ = rate("--table", "pair_cards")
    assert (card["model"], card["opponent"], card["wins"], card["losses"], card["ties"]) == ("x", "y", 3, 1, 1)
    assert (card["won"], card["lost"]) == (["q1", "q2", "q6"], ["q3"])
    assert (other["won"], other["lost"]) == (card["lost"], card["won"])
