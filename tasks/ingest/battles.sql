-- a row is one battle: of the votes on a pair of conversations the one on the latest turn, of several on it the last; a
-- vote without a turn is on all that was said. Its sighting has the reason, which is a text
SELECT a.conversation_id AS battle_id, a.conversation_id AS conversation_a, b.conversation_id AS conversation_b,
    a.model AS model_a, b.model AS model_b, a.winner, a.anonymous,
    least(a.turns, coalesce(a.turn, a.turns)) AS turns_a, least(b.turns, coalesce(b.turn, b.turns)) AS turns_b,
    a.tstamp, a.tstamp AS first_tstamp, a.user_id AS judge, a.part, a.row, a.source, a.line
FROM votes AS a JOIN votes AS b ON a.source = b.source AND a.line = b.line AND a.side = 0 AND b.side = 1
QUALIFY row_number() OVER (
    PARTITION BY conversation_a, conversation_b
    ORDER BY a.turn DESC NULLS FIRST, a.tstamp DESC, a.source DESC, a.line DESC
) = 1
ORDER BY a.tstamp, battle_id, a.source, a.line
