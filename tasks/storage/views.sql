-- The tables of a store as queries ask for them. Above each view: what one of its rows is. A view begins with a line
-- CREATE VIEW name AS (a macro with CREATE MACRO) and ends with a semicolon, by which engine.py finds it. "turns.role"
-- is a column of the table conversations: of each struct in its column turns the field role, as a list. The other
-- fields, such as texts, are then not read. `SELECT *` hands such columns on.
--
-- Views of what signals say need the frame `versions`, which who asks gives (`versions_in_use` of queries/signals.py):
-- the signal and version of all signals in use.

-- what one speaker, 'user' or 'assistant', said in a conversation: those of its texts, or of their ids, that are theirs
CREATE MACRO said_by(speaker, texts, roles) AS
[text FOR text, place IN texts IF roles[place] = speaker];

-- the prompt of a conversation: all messages of the user, with a blank line between them. prompt_id is the id of just
-- this
CREATE MACRO prompt_of(contents, roles) AS
array_to_string(said_by('user', contents, roles), E'\n\n');

-- the images that a conversation shows up to the answer to a turn: images are numbered in the order of first use
CREATE MACRO images_until(image_ids, places, turn) AS
list_slice(
    image_ids, 1, 1 + coalesce(list_max([place.image FOR place IN flatten(list_slice(places, 1, 2 * turn))]), -1)
);

-- the values that spans mark in a text, as text_pii has them, with their types
CREATE MACRO values_found(found_text, spans) AS
[struct_pack(value := found_text[span.start + 1:span."end"], "type" := span."type") FOR span IN spans];

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

-- one conversation in the form that a release would show: redacted, where its decision says so. Also of conversations
-- that are dropped (`kept` has the others), and with models under the names of the logs (released.py renames them). One
-- whose redaction is not stored is left out: `require_redactions` of queries/released.py ends a run before that
CREATE VIEW released AS
SELECT * FROM conversations ANTI JOIN named_redactions USING (conversation_id)
UNION ALL BY NAME
SELECT * EXCLUDE (policy_hash, redactions, left_names)
FROM redacted_conversations SEMI JOIN named_redactions USING (conversation_id, policy_hash);

-- one document, under the id of its released form, on which a conversation asks a prompt of the hidden split: `hidden` has
-- prompts as they were logged, and redacting them gives other ids
CREATE VIEW hidden_documents AS
SELECT DISTINCT released.document_id
FROM released
JOIN (SELECT conversation_id, document_id AS logged_id FROM conversations) AS logged USING (conversation_id)
SEMI JOIN (SELECT document_id AS logged_id FROM hidden) AS secret USING (logged_id);

-- one person's vote on one turn of two conversations; turn is the number of the user's message that was answered, from
-- 1. `counts` is whether the vote is the battle of the two: of several votes, the one on the latest turn. Reasons and
-- what else was said are null where the source does not say it; comments are in `reactions`
CREATE VIEW votes AS
SELECT
    a.conversation_id AS battle_id, a.conversation_id AS conversation_a, a.opponent_id AS conversation_b,
    a.model AS model_a, b.model AS model_b, a.turn, a.winner, a.anonymous,
    a.reasons AS reasons_a, b.reasons AS reasons_b, a.seconds_to_vote, a.session_order, a.categories, a.languages,
    a.user_id AS judge, a.tstamp, a.day, battles.battle_id IS NOT NULL AS counts, a.source, a.line
FROM (FROM reactions WHERE side = 'a') AS a
JOIN (FROM reactions WHERE side = 'b') AS b ON a.source = b.source AND a.line = b.line
LEFT JOIN battles ON a.source = battles.source AND a.line = battles.line
UNION ALL BY NAME
SELECT
    battle_id, conversation_a, conversation_b, model_a, model_b, turns_a AS turn, winner, anonymous,
    judge, tstamp, day, true AS counts, source, line
FROM battles ANTI JOIN (FROM reactions WHERE side IS NOT NULL) AS reactions USING (source, line);

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

-- one image file or preset (which have no digests), and the name that lines have for it; of several under one name the
-- latest is in use, and a preset comes after files (`place`)
CREATE VIEW logged_files AS
SELECT
    if(starts_with(name, 'preset:'), name, regexp_replace(name, '^(.+)\.[^.]*$', '\1', 's')) AS name,
    image_id, md5, sha1, sha256, 0 AS place
FROM image_files
UNION ALL
SELECT logged_name AS name, image_id, NULL AS md5, NULL AS sha1, NULL AS sha256, 1 AS place FROM presets;

-- one image, and what the version in use read in it: '' for nothing
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
UNION ALL
SELECT 'prompt' AS kind, prompt_id AS content_id, prompt_of("turns.content", "turns.role") AS text
FROM (SELECT * FROM conversations UNION ALL BY NAME SELECT * FROM redacted_conversations);

-- one conversation that the decisions keep, as it is released, and the public set of images that it shows (null for
-- none)
CREATE VIEW kept AS
SELECT * FROM released JOIN (
    SELECT item_id AS conversation_id, preset_dataset FROM decisions WHERE item_kind = 'conversation' AND keep
) AS decided USING (conversation_id);

-- one conversation as it would be released, and its prompt
CREATE VIEW prompts AS
SELECT conversation_id, prompt_of("turns.content", "turns.role") AS prompt FROM released;

-- one text of one conversation as it would be released: a message, or a shown image, which stands for what was read in
-- it and is no answer (null); `content_id` is the id under which values are stored
CREATE VIEW described_texts AS
SELECT
    conversation_id,
    unnest("turns.text_id") AS content_id,
    unnest("turns.role") = 'assistant' AS is_answer
FROM released
UNION ALL
SELECT conversation_id, unnest(image_ids) AS content_id, NULL AS is_answer FROM released;

-- one text or image of a conversation in `released`, and what the versions in use say of it; null is not measured. The
-- rows of several signals become one, in which a column has the value of its signal: any_value() skips the nulls of the
-- others
CREATE VIEW text_facts AS
SELECT
    content_id, any_value(tokens) AS tokens, any_value(is_code) AS is_code, any_value(refusal) AS refusal,
    any_value(entities) AS entities,
    any_value(h1) AS h1, any_value(h2) AS h2, any_value(h3) AS h3,
    any_value(h4) AS h4, any_value(h5) AS h5, any_value(h6) AS h6,
    any_value(ordered) AS ordered, any_value(unordered) AS unordered,
    any_value(bold_stars) AS bold_stars, any_value(bold_underscores) AS bold_underscores
FROM (
    SELECT 'tokens' AS signal, content_id, version, tokens FROM "signals/tokens"
    UNION ALL BY NAME
    SELECT 'code' AS signal, content_id, version, is_code FROM "signals/code"
    UNION ALL BY NAME
    SELECT 'refusal' AS signal, content_id, version, refusal FROM "signals/refusal"
    UNION ALL BY NAME
    SELECT 'named_entities' AS signal, content_id, version, entities FROM "signals/named_entities"
    UNION ALL BY NAME
    SELECT 'markdown' AS signal, content_id, version, h1, h2, h3, h4, h5, h6, ordered, unordered, bold_stars,
        bold_underscores
    FROM "signals/markdown"
) SEMI JOIN versions USING (signal, version)
SEMI JOIN described_texts USING (content_id)
GROUP BY content_id;

-- the sum over the rows for which `is_meant`; null where there is none, or one has no value: a part of a sum is wrong
CREATE MACRO whole_sum(value, is_meant) AS
CASE WHEN bool_and(value IS NOT NULL) FILTER (is_meant) THEN (sum(value) FILTER (is_meant))::BIGINT END;

-- whether it holds for any of the rows for which `is_meant`; null where there is none, or one has no value and it holds
-- for none of the others
CREATE MACRO holds_for_any(value, is_meant) AS
CASE
    WHEN bool_or(value) FILTER (is_meant) THEN true
    WHEN bool_and(value IS NOT NULL) FILTER (is_meant) THEN false
END;

-- one conversation as it would be released, and facts of its messages together. Refusals, entities and Markdown are
-- those of its answers: null without one, where tokens are 0. Code may be in an image
CREATE VIEW message_facts AS
SELECT
    conversation_id,
    holds_for_any(is_code, true) AS code,
    holds_for_any(refusal, is_answer) AS refusal,
    CASE WHEN bool_or(NOT is_answer) THEN whole_sum(tokens, NOT is_answer) ELSE 0 END AS context_tokens,
    CASE WHEN bool_or(is_answer) THEN whole_sum(tokens, is_answer) ELSE 0 END AS assistant_tokens,
    whole_sum(h1, is_answer) AS h1,
    whole_sum(h2, is_answer) AS h2,
    whole_sum(h3, is_answer) AS h3,
    whole_sum(h4, is_answer) AS h4,
    whole_sum(h5, is_answer) AS h5,
    whole_sum(h6, is_answer) AS h6,
    whole_sum(ordered, is_answer) AS ordered,
    whole_sum(unordered, is_answer) AS unordered,
    whole_sum(bold_stars, is_answer) AS bold_stars,
    whole_sum(bold_underscores, is_answer) AS bold_underscores,
    whole_sum(entities, is_answer) AS entities
FROM described_texts LEFT JOIN text_facts USING (content_id)
GROUP BY conversation_id;

-- one message, and what moderation flags in it
CREATE VIEW moderations AS
SELECT content_id, first(flagged_categories) AS flagged_categories
FROM "signals/moderation" SEMI JOIN (SELECT version FROM versions WHERE signal = 'moderation') USING (version)
GROUP BY content_id;

-- one prompt, and the language in which it is
CREATE VIEW prompt_languages AS
SELECT content_id AS prompt_id, first(language) AS language
FROM "signals/language" SEMI JOIN (SELECT version FROM versions WHERE signal = 'language') USING (version)
GROUP BY content_id;

-- whether a list of answers holds six times yes; null where those that nobody knows may decide it
CREATE MACRO six_hold(answers) AS
CASE
    WHEN coalesce(list_sum(answers::INT[]), 0) >= 6 THEN true
    WHEN coalesce(list_sum(answers::INT[]), 0) + len(answers) - list_count(answers) < 6 THEN false
END;

-- one document (a prompt with its images), the categories that the tagger gives it, the criteria of a good prompt that
-- it meets and who says so, and its place in the taxonomy of questions and images; null is not measured
CREATE VIEW document_facts AS
SELECT
    document_id,
    any_value(captioning) AS captioning, any_value(creative_writing) AS creative_writing,
    any_value(diagram) AS diagram, any_value(entity_recognition) AS entity_recognition,
    any_value(homework) AS homework, any_value(humor) AS humor, any_value(ocr) AS ocr,
    any_value(instruction_following) AS instruction_following,
    any_value(specificity) AS specificity, any_value(domain_knowledge) AS domain_knowledge,
    any_value(complexity) AS complexity, any_value(problem_solving) AS problem_solving,
    any_value(creativity) AS creativity, any_value(technical_accuracy) AS technical_accuracy,
    any_value(real_world) AS real_world,
    any_value(provider) FILTER (signal = 'criteria') AS criteria_provider,
    any_value(question_category) AS question_category, any_value(question_subcategory) AS question_subcategory,
    any_value(image_domain) AS image_domain, any_value(image_subdomain) AS image_subdomain
FROM (
    SELECT 'categories' AS signal, content_id AS document_id, * EXCLUDE (content_id) FROM "signals/categories"
    UNION ALL BY NAME
    SELECT 'criteria' AS signal, content_id AS document_id, * EXCLUDE (content_id) FROM "signals/criteria"
    UNION ALL BY NAME
    SELECT 'taxonomy' AS signal, content_id AS document_id, * EXCLUDE (content_id) FROM "signals/taxonomy"
) SEMI JOIN versions USING (signal, version)
GROUP BY document_id;

-- one conversation as it would be released, without its texts, and all that is known of it; null is not measured
CREATE VIEW conversation_facts AS
SELECT
    released.conversation_id, model, user_id, tstamp, num_turns, prompt_id, document_id, image_ids,
    language,
    num_turns > 1 AS multi_turn,
    len(image_ids) > 1 AS multi_image,
    context_tokens >= 500 AS longer_query,
    -- the embedded provider knows words alone, and nobody's labels were compared with it
    CASE WHEN criteria_provider <> 'embedded' THEN six_hold([
        specificity, domain_knowledge, complexity, problem_solving, creativity, technical_accuracy, real_world
    ]) END AS hard,
    message_facts.* EXCLUDE (conversation_id),
    h1 + h2 + h3 + h4 + h5 + h6 AS headers,
    ordered + unordered AS list_items,
    bold_stars + bold_underscores AS bold,
    document_facts.* EXCLUDE (document_id, criteria_provider),
    topics.topic AS topic_id, topics.name AS topic, topics.x, topics.y
FROM released
LEFT JOIN message_facts USING (conversation_id)
LEFT JOIN prompt_languages USING (prompt_id)
LEFT JOIN document_facts USING (document_id)
LEFT JOIN topics USING (document_id);

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
