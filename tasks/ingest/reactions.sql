-- a row is one person's opinion on one answer, the last of several; one beside a vote has the other side of it. Its
-- sighting has the opinion, which holds texts. Somebody whom the source does not name is one person in a conversation
SELECT opinions.conversation_id, opinions.turn, opinions.model,
    CASE WHEN opinions.winner IS NOT NULL THEN if(opinions.side = 0, 'a', 'b') END AS side,
    opponents.conversation_id AS opponent_id, opinions.winner,
    CASE WHEN opinions.winner IS NOT NULL THEN opinions.anonymous END AS anonymous,
    opinions.user_id, opinions.tstamp, opinions.tstamp AS first_tstamp, opinions.part, opinions.row,
    opinions.source, opinions.line
FROM opinions LEFT JOIN votes AS opponents
    ON opinions.source = opponents.source AND opinions.line = opponents.line AND opinions.side <> opponents.side
QUALIFY row_number() OVER (
    PARTITION BY opinions.conversation_id, opinions.turn, opinions.user_id, opinions.winner IS NULL
    ORDER BY opinions.tstamp DESC, opinions.source DESC, opinions.line DESC
) = 1
ORDER BY opinions.tstamp, opinions.conversation_id, opinions.turn, opinions.source, opinions.line
