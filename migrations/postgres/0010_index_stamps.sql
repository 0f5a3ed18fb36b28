-- Timestamps of the feed lie at least half a millisecond apart, so that no whole second has more than
-- a page. What was written closer is spread in its order; nothing moves before what a follower has read.
CREATE TABLE index_stamps (old_ns BIGINT PRIMARY KEY, new_ns BIGINT NOT NULL);
INSERT INTO index_stamps (old_ns, new_ns)
SELECT old_ns, (max(old_ns / 500000 - place) OVER (ORDER BY old_ns) + place) * 500000
FROM (
    SELECT old_ns, row_number() OVER (ORDER BY old_ns) AS place
    FROM (
        SELECT first_seen_ns AS old_ns FROM index_versions
        UNION SELECT at_ns FROM index_changes
        UNION SELECT claimed_ns FROM repo_tags WHERE claimed_ns IS NOT NULL
        UNION SELECT last_ns FROM index_clock
        UNION SELECT forgotten_ns FROM index_clock
    ) AS stamps
) AS places;

-- By way of negative numbers, since a key must be unique after every row.
UPDATE index_versions SET first_seen_ns =
    -(SELECT new_ns FROM index_stamps WHERE old_ns = index_versions.first_seen_ns);
UPDATE index_versions SET first_seen_ns = -first_seen_ns;
UPDATE index_changes SET at_ns = -(SELECT new_ns FROM index_stamps WHERE old_ns = index_changes.at_ns);
UPDATE index_changes SET at_ns = -at_ns;
UPDATE repo_tags SET claimed_ns = (SELECT new_ns FROM index_stamps WHERE old_ns = repo_tags.claimed_ns)
    WHERE claimed_ns IS NOT NULL;
UPDATE index_clock SET
    last_ns = (SELECT new_ns FROM index_stamps WHERE old_ns = index_clock.last_ns),
    forgotten_ns = (SELECT new_ns FROM index_stamps WHERE old_ns = index_clock.forgotten_ns);
DROP TABLE index_stamps;
