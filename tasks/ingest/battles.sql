-- a row is one battle: of the votes on a conversation, whatever the other side, the one on the latest turn, of several on
-- it the last; a vote without a turn is on all that was said. Its sighting has the reason, which is a text
SELECT * EXCLUDE (recency)
FROM (
    WITH compared AS MATERIALIZED (
        SELECT a.conversation_id AS battle_id, a.conversation_id AS conversation_a, b.conversation_id AS conversation_b,
            a.model AS model_a, b.model AS model_b, a.winner, a.anonymous,
            least(a.turns, coalesce(a.turn, a.turns)) AS turns_a, least(b.turns, coalesce(b.turn, b.turns)) AS turns_b,
            a.tstamp, a.tstamp AS first_tstamp, a.user_id AS judge, a.part, a.row, a.source, a.line,
            row(a.turn IS NULL, coalesce(a.turn, 0), a.tstamp, a.source, a.line) AS recency
        FROM votes AS a JOIN votes AS b ON a.source = b.source AND a.line = b.line AND a.side = 0 AND b.side = 1
    ), latest AS (
        SELECT conversation_id, max(recency) AS recency
        FROM (SELECT unnest([conversation_a, conversation_b]) AS conversation_id, recency FROM compared)
        GROUP BY conversation_id
    )
    FROM compared
    SEMI JOIN latest AS of_left ON conversation_a = of_left.conversation_id AND compared.recency = of_left.recency
    SEMI JOIN latest AS of_right ON conversation_b = of_right.conversation_id AND compared.recency = of_right.recency
)
ORDER BY tstamp, battle_id, source, line
