-- source, line, outcome, held and reason of every input line, once each.
CREATE TABLE outcomes AS
WITH lines AS (
    SELECT source, line, first(record_type ORDER BY place) AS record_type FROM sightings GROUP BY source, line
), items AS (
    SELECT 'conversation' AS item_kind, conversation_id AS item_id, source, line FROM conversations
    UNION ALL SELECT 'battle', battle_id, source, line FROM battles
), known AS (
    SELECT lines.source, lines.line, record_type, item_id, keep, reasons[1] AS reason, held
    FROM lines
    LEFT JOIN items ON items.source = lines.source AND items.line = lines.line AND items.item_kind =
        CASE WHEN record_type IN ('leftvote', 'rightvote', 'tievote', 'bothbad_vote')
        THEN 'battle' ELSE 'conversation' END
    LEFT JOIN decisions USING (item_kind, item_id)
), judged AS (  -- a share line may be the source of two conversations; it is kept when one of them is
    SELECT DISTINCT ON (source, line) * FROM known ORDER BY source, line, keep DESC NULLS LAST, item_id
)
SELECT source, line, if(keep, 'kept', 'dropped') AS outcome, coalesce(held, false) AS held,
    CASE WHEN coalesce(keep, false) THEN NULL WHEN reason IS NOT NULL THEN reason
    WHEN record_type = 'share' THEN 'share_record' ELSE 'superseded' END AS reason
FROM judged
UNION ALL
SELECT source, line, 'rejected', false, reason FROM rejects WHERE line IS NOT NULL
