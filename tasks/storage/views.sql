-- The tables of a store as queries ask for them. Above each view: what one of its rows is. A view begins with a line
-- CREATE VIEW name AS and ends with a semicolon, by which engine.py finds it. "turns.role" is a column of the table
-- conversations: of each struct in its column turns the field role, as a list. The other fields, such as texts, are
-- then not read. `SELECT *` hands such columns on.

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

-- one conversation in the form in which it would be released: redacted, where a decision says so. What is dropped is
-- there, too, and models are not renamed. One whose named redaction is not stored is left out: `require_redactions` of
-- queries/texts.py ends a run before that
CREATE VIEW released AS
SELECT * FROM conversations ANTI JOIN named_redactions USING (conversation_id)
UNION ALL BY NAME
SELECT * EXCLUDE (policy_hash, redactions, left_names)
FROM redacted_conversations SEMI JOIN named_redactions USING (conversation_id, policy_hash);

-- one conversation in one form: 'logged' is as it was logged, 'kept' as in `released`, of those that the first pass of
-- the policy keeps (its rules about what screening measures), 'redacted' as a policy redacted it, once for each policy
CREATE VIEW forms AS
SELECT 'logged' AS form, * FROM conversations
UNION ALL BY NAME
SELECT 'kept' AS form, *
FROM released SEMI JOIN (
    SELECT item_id AS conversation_id FROM decisions WHERE item_kind = 'conversation' AND kept_by_screening
) AS first_pass USING (conversation_id)
UNION ALL BY NAME
SELECT 'redacted' AS form, * EXCLUDE (policy_hash, redactions, left_names) FROM redacted_conversations;

-- one image that one conversation shows, once for each time
CREATE VIEW shown_images AS
SELECT form, day, unnest(image_ids) AS image_id FROM forms;

-- one image, and what the version in use read in it: '' for nothing. Who asks gives the frame `versions`: the signal
-- and version of all signals in use
CREATE VIEW image_texts AS
SELECT content_id AS image_id, text
FROM "signals/image_text" SEMI JOIN (SELECT version FROM versions WHERE signal = 'image_text') USING (version);

-- one place of a text on which signals are measured: `kind` is that of schemas.signals.MeasuredOn, `form` that of its
-- conversation, `day` that of its log (null is in no window), `content_id` the id under which values are stored. A
-- place has a SELECT for each form in which its text is released or searched for personal data, and for each kind
CREATE VIEW text_ids AS
SELECT form, 'messages' AS kind, day, unnest("turns.text_id") AS content_id FROM forms
UNION ALL
SELECT form, 'assistant_messages' AS kind, day, content_id
FROM (SELECT form, day, unnest("turns.role") AS role, unnest("turns.text_id") AS content_id FROM forms)
WHERE role = 'assistant'
UNION ALL
SELECT form, 'prompt' AS kind, day, prompt_id AS content_id FROM forms
UNION ALL -- what was read in a shown image, also nothing; values are stored under the id of the image
SELECT form, 'images' AS kind, day, image_id AS content_id FROM shown_images SEMI JOIN image_texts USING (image_id)
UNION ALL -- the same text is screened as a message, under its own id; the day is null for an image that nothing shows
SELECT 'logged' AS form, 'messages' AS kind, day, content_id
FROM (SELECT image_id, text_id(text) AS content_id FROM image_texts WHERE text <> '')
LEFT JOIN (SELECT image_id, day FROM shown_images WHERE form = 'logged') USING (image_id)
UNION ALL -- images that were redacted are read, too; redacted texts are never asked for by day
SELECT 'redacted' AS form, 'messages' AS kind, NULL AS day, text_id(text) AS content_id
FROM image_texts WHERE text <> ''
UNION ALL -- what a model thought before it answered (in the column `served`) is screened as a message and as an answer
SELECT 'logged' AS form, 'messages' AS kind, day, unnest("served.thinking_id") AS content_id FROM conversations
UNION ALL
SELECT 'logged' AS form, 'assistant_messages' AS kind, day, unnest("served.thinking_id") AS content_id
FROM conversations
UNION ALL -- what a voter wrote about a vote; it is described also where the conversations are not kept
SELECT 'logged' AS form, 'messages' AS kind, day, vote_reason_id AS content_id FROM battles
UNION ALL
SELECT 'kept' AS form, 'messages' AS kind, day, vote_reason_id AS content_id FROM battles;

-- one text and an id that `text_ids` has for it; one that several rows of a table hold is there as often. Texts of
-- assistant messages are those of messages, so they have no kind here.
CREATE VIEW texts AS
SELECT 'messages' AS kind, unnest("turns.text_id") AS content_id, unnest("turns.content") AS text FROM conversations
UNION ALL
SELECT 'messages' AS kind, unnest("turns.text_id") AS content_id, unnest("turns.content") AS text
FROM redacted_conversations
UNION ALL
SELECT 'messages' AS kind, unnest("served.thinking_id") AS content_id, unnest("served.thinking") AS text
FROM conversations
UNION ALL
SELECT 'messages' AS kind, vote_reason_id AS content_id, vote_reason AS text FROM battles
UNION ALL
SELECT 'messages' AS kind, text_id(text) AS content_id, text FROM image_texts WHERE text <> ''
UNION ALL
SELECT 'images' AS kind, image_id AS content_id, text FROM image_texts
UNION ALL -- prompt_id is the id of just this: all messages of the user, with a blank line between them
SELECT 'prompt' AS kind, prompt_id AS content_id, array_to_string(
    [content FOR content, number IN "turns.content" IF "turns.role"[number] = 'user'], E'\n\n'
) AS text
FROM (SELECT * FROM conversations UNION ALL BY NAME SELECT * FROM redacted_conversations);

-- one input line: its outcome (kept, dropped or rejected), the first reason of one that is not kept, and whether it
-- waits only for a review. A chat line has the outcome of the conversation whose last state it is, a vote line that of
-- its battle
CREATE VIEW line_outcomes AS
WITH lines AS (
    SELECT source, line, first(record_type) AS record_type FROM sightings GROUP BY source, line
), items AS (
    SELECT 'conversation' AS item_kind, conversation_id AS item_id, source, line FROM conversations
    UNION ALL
    SELECT 'battle' AS item_kind, battle_id AS item_id, source, line FROM battles
), decided AS (
    SELECT lines.source, lines.line, record_type, item_id, keep, reasons[1] AS reason, held
    FROM lines
    LEFT JOIN items ON items.source = lines.source AND items.line = lines.line AND items.item_kind =
        CASE WHEN record_type IN ('leftvote', 'rightvote', 'tievote', 'bothbad_vote')
        THEN 'battle' ELSE 'conversation' END
    LEFT JOIN decisions USING (item_kind, item_id)
), judged AS ( -- a share line may be the source of two conversations; it is kept when one of them is
    SELECT DISTINCT ON (source, line) * FROM decided ORDER BY source, line, keep DESC NULLS LAST, item_id
)
SELECT source, line, if(keep, 'kept', 'dropped') AS outcome, coalesce(held, false) AS held,
    CASE WHEN coalesce(keep, false) THEN NULL WHEN reason IS NOT NULL THEN reason
    WHEN record_type = 'share' THEN 'share_record' ELSE 'superseded' END AS reason
FROM judged
UNION ALL
SELECT source, line, 'rejected' AS outcome, false AS held, reason FROM rejects WHERE line IS NOT NULL;
