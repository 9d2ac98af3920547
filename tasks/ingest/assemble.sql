-- `seen` (sightings without texts) -> `conversations` and `battles`.

-- Sightings numbered by time; the highest `seq` of a conversation is its last.
CREATE TABLE ordered AS
SELECT *, row_number() OVER (ORDER BY tstamp, source, line, side) AS seq, pictures[1] AS picture,
    record_type IN ('leftvote', 'rightvote', 'tievote', 'bothbad_vote') AS is_vote
FROM seen;
DROP TABLE seen;

-- Conversations under one conv_id are told apart by their first user text and first image. A sighting without an image
-- (an early-era vote) joins the conversation with the same first text that has one. Exception: a chat line without an
-- image is a conversation of its own when it is not longer than the line with an image before it, or not shorter than
-- the one after it, because the lines of one conversation only grow.
CREATE TABLE opened AS
WITH around AS (
    SELECT seq, conv_id, opening_id, picture, num_messages, record_type,
        last_value(if(picture IS NULL, NULL, num_messages) IGNORE NULLS) OVER earlier AS size_before,
        first_value(if(picture IS NULL, NULL, num_messages) IGNORE NULLS) OVER later AS size_after
    FROM ordered
    WINDOW
        earlier AS (PARTITION BY conv_id, opening_id ORDER BY seq ROWS UNBOUNDED PRECEDING),
        later AS (PARTITION BY conv_id, opening_id ORDER BY seq ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
), own AS (
    SELECT seq, conv_id, opening_id, if(
        picture IS NULL AND record_type = 'chat' AND coalesce(size_before >= num_messages, size_after <= num_messages),
        '', picture
    ) AS picture
    FROM around
)
SELECT seq, conv_id, opening_id, coalesce(
    last_value(picture IGNORE NULLS) OVER earlier, first_value(picture IGNORE NULLS) OVER later, ''
) AS first_picture
FROM own
WINDOW
    earlier AS (PARTITION BY conv_id, opening_id ORDER BY seq ROWS UNBOUNDED PRECEDING),
    later AS (PARTITION BY conv_id, opening_id ORDER BY seq ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING);

-- The earliest conversation keeps the bare conv_id; the others get a hash of their opening appended.
CREATE TABLE named AS
WITH started AS (
    SELECT conv_id, opening_id, first_picture, min(seq) AS seq FROM opened GROUP BY ALL
), ranked AS (
    SELECT *, seq = min(seq) OVER (PARTITION BY conv_id) AS is_first FROM started
)
SELECT conv_id, opening_id, first_picture,
    CASE WHEN is_first THEN conv_id ELSE conv_id || '-' || opening_suffix(opening_id, first_picture) END
    AS conversation_id
FROM ranked;

CREATE TABLE identified AS
SELECT ordered.*, conversation_id FROM ordered JOIN opened USING (seq, conv_id, opening_id)
JOIN named USING (conv_id, opening_id, first_picture);
DROP TABLE ordered;
DROP TABLE opened;
DROP TABLE named;

-- `source` and `line` point to the last line of the conversation that is not a vote or share, else to the last of those.
CREATE TABLE conversations AS
WITH last AS (
    SELECT conversation_id,
        arg_max(model, seq) AS model, arg_max(part, seq) AS part, arg_max("row", seq) AS "row",
        arg_max(num_messages, seq) AS num_messages, arg_max(picture_problems, seq) AS picture_problems,
        arg_max(pictures, seq) FILTER (len(pictures) > 0) AS pictures,
        max(tstamp) AS tstamp, min(tstamp) AS first_tstamp,
        arg_max(user_id, seq) AS user_id, arg_max(anonymous, seq) AS anonymous, bool_or(is_vote) AS voted,
        list(record_type ORDER BY seq) FILTER (record_type IN ('upvote', 'downvote', 'flag')) AS pressed,
        arg_max(source, if(is_vote OR record_type = 'share', 0, 1_000_000_000_000) + seq) AS source,
        arg_max(line, if(is_vote OR record_type = 'share', 0, 1_000_000_000_000) + seq) AS line
    FROM identified GROUP BY conversation_id
)
SELECT *, list_filter(coalesce(pressed, []), lambda button, number: list_position(pressed, button) = number) AS feedback,
    row_number() OVER (ORDER BY tstamp, conversation_id) AS place
FROM last;

-- The last vote on each pair of conversations.
CREATE TABLE battles AS
WITH pairs AS (
    SELECT a.*, b.conversation_id AS conversation_b, b.model AS model_b
    FROM identified AS a JOIN identified AS b ON a.source = b.source AND a.line = b.line
    WHERE a.is_vote AND a.side = 0 AND b.side = 1
), votes AS (
    SELECT * FROM pairs QUALIFY seq = max(seq) OVER (PARTITION BY conversation_id, conversation_b)
)
SELECT votes.conversation_id AS battle_id, votes.conversation_id AS conversation_a, conversation_b,
    votes.model AS model_a, model_b, votes.winner, votes.anonymous, (a.num_messages + 1) // 2 AS turns_a,
    (b.num_messages + 1) // 2 AS turns_b, votes.tstamp, votes.tstamp AS first_tstamp, votes.user_id AS judge,
    votes.source, votes.line, row_number() OVER (ORDER BY votes.tstamp, votes.conversation_id, seq) AS place
FROM votes JOIN conversations AS a ON votes.conversation_id = a.conversation_id
JOIN conversations AS b ON conversation_b = b.conversation_id;
