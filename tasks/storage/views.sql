-- The tables of a store as stages ask for them. Above each view: what one of its rows is. A view begins with a line
-- CREATE VIEW name AS and ends with a semicolon. "turns.role" is a column of the table conversations: of each struct in
-- its column turns the field role, as a list. The other fields, such as texts, are then not read.

-- one message of one conversation as it was logged, numbered from 0
CREATE VIEW turns AS
SELECT
    conversation_id,
    day,
    unnest(range(len("turns.text_id"))) AS number,
    unnest("turns.role") AS role,
    unnest("turns.text_id") AS text_id
FROM conversations;
