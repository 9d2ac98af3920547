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

-- one conversation whose redacted form is the one that is released, and the policy that made it
CREATE VIEW named_redactions AS
SELECT item_id AS conversation_id, policy_hash
FROM decisions
WHERE item_kind = 'conversation' AND len(redactions) > 0;

-- one conversation in released form, also one that is dropped; its models have the names that were logged
CREATE VIEW released AS
SELECT * FROM conversations ANTI JOIN named_redactions USING (conversation_id)
UNION ALL BY NAME
SELECT * EXCLUDE (policy_hash, redactions, left_names)
FROM redacted_conversations SEMI JOIN named_redactions USING (conversation_id, policy_hash);

-- one conversation in one form: 'logged' is as it was logged, 'kept' as it is released if the first pass of the policy
-- keeps it, 'redacted' as some policy redacted it
CREATE VIEW forms AS
SELECT 'logged' AS form, * FROM conversations
UNION ALL BY NAME
SELECT 'kept' AS form, *
FROM released SEMI JOIN (
    SELECT item_id AS conversation_id FROM decisions WHERE item_kind = 'conversation' AND kept_by_screening
) AS kept_by_screening USING (conversation_id)
UNION ALL BY NAME
SELECT 'redacted' AS form, * EXCLUDE (policy_hash, redactions, left_names) FROM redacted_conversations;

-- one image that one conversation shows, once for each time
CREATE VIEW shown_images AS
SELECT form, day, unnest(image_ids) AS image_id FROM forms;

-- one image, and what the version in use read in it: '' for nothing. The frame versions names a version of each signal
CREATE VIEW image_texts AS
SELECT content_id AS image_id, text
FROM "signals/image_text" SEMI JOIN (SELECT version FROM versions WHERE signal = 'image_text') USING (version);

-- one place of a text on which signals of a kind are measured (schemas.signals.MeasuredOn): the form of its conversation
-- as in `forms`, the day of its log, and the id under which values are stored. Of 'images' it is what was read in one
-- that a conversation shows, under the id of the image.
CREATE VIEW text_ids AS
SELECT form, 'messages' AS kind, day, unnest("turns.text_id") AS content_id FROM forms
UNION ALL
SELECT form, 'assistant_messages', day, content_id
FROM (SELECT form, day, unnest("turns.role") AS role, unnest("turns.text_id") AS content_id FROM forms)
WHERE role = 'assistant'
UNION ALL
SELECT form, 'prompt', day, prompt_id FROM forms
UNION ALL
SELECT form, 'images', day, image_id FROM shown_images SEMI JOIN image_texts USING (image_id)
UNION ALL -- what a model thought before it answered
SELECT 'logged', 'messages', day, unnest("served.thinking_id") FROM conversations
UNION ALL
SELECT 'logged', 'assistant_messages', day, unnest("served.thinking_id") FROM conversations
UNION ALL -- what was read in an image is screened as a message; the day is null for an image that nothing shows
SELECT 'logged', 'messages', day, content_id
FROM (SELECT image_id, text_id(text) AS content_id FROM image_texts WHERE text <> '')
LEFT JOIN (SELECT image_id, day FROM shown_images WHERE form = 'logged') USING (image_id)
UNION ALL
SELECT 'redacted', 'messages', NULL, text_id(text) FROM image_texts WHERE text <> ''
UNION ALL -- what a voter wrote about a vote
SELECT 'logged', 'messages', day, vote_reason_id FROM battles
UNION ALL
SELECT 'kept', 'messages', day, vote_reason_id FROM battles;

-- one text under the id of `text_ids`, once for each of its places. An answer is found among the messages.
CREATE VIEW texts AS
SELECT 'messages' AS kind, unnest("turns.text_id") AS content_id, unnest("turns.content") AS text FROM conversations
UNION ALL
SELECT 'messages', unnest("turns.text_id"), unnest("turns.content") FROM redacted_conversations
UNION ALL
SELECT 'messages', unnest("served.thinking_id"), unnest("served.thinking") FROM conversations
UNION ALL
SELECT 'messages', vote_reason_id, vote_reason FROM battles
UNION ALL
SELECT 'messages', text_id(text), text FROM image_texts WHERE text <> ''
UNION ALL
SELECT 'images', image_id, text FROM image_texts
UNION ALL
SELECT 'prompt', prompt_id, array_to_string(
    [content FOR content, place IN "turns.content" IF "turns.role"[place] = 'user'], E'\n\n'
)
FROM (SELECT * FROM conversations UNION ALL BY NAME SELECT * FROM redacted_conversations);
