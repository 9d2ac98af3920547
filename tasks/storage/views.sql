-- The tables of a store as stages ask for them. Above each view: what one of its rows is. `"turns.role"` is the field
-- `role` of the structs in the column `turns`, as a list; the other fields, such as texts, are then not read.

-- one message of one conversation as it was logged, numbered from 0
CREATE VIEW turns AS
SELECT
    conversation_id,
    day,
    unnest(range(len("turns.text_id"))) AS number,
    unnest("turns.role") AS role,
    unnest("turns.text_id") AS text_id
FROM conversations;
