-- A control plane in PostgreSQL as such systems are built: a table per concept, one stored procedure per commit.
-- Its best case: plain batches only, everything set-based, one round trip, no unknown partitions.

CREATE TABLE logs (
    topic_id uuid NOT NULL,
    partition integer NOT NULL,
    log_start_offset bigint NOT NULL DEFAULT 0,
    high_watermark bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (topic_id, partition)
) WITH (fillfactor = 50);

CREATE TABLE files (
    file_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    object_key text NOT NULL UNIQUE,
    uploader_id integer NOT NULL,
    size bigint NOT NULL,
    committed_at timestamptz NOT NULL
);

CREATE TABLE batches (
    batch_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic_id uuid NOT NULL,
    partition integer NOT NULL,
    base_offset bigint NOT NULL,
    last_offset bigint NOT NULL,
    file_id bigint NOT NULL,
    byte_offset bigint NOT NULL,
    byte_size integer NOT NULL,
    max_timestamp bigint NOT NULL
);
CREATE UNIQUE INDEX batches_by_offset ON batches (topic_id, partition, last_offset);
CREATE INDEX batches_by_file ON batches (file_id);

CREATE FUNCTION commit_file(
    key text, size bigint, topic_ids uuid[], partitions integer[], byte_offsets bigint[], byte_sizes integer[],
    records integer[], max_timestamps bigint[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    file bigint;
    answer bigint[];
BEGIN
    INSERT INTO files (object_key, uploader_id, size, committed_at) VALUES (key, 1, size, now()) RETURNING file_id INTO file;
    WITH wanted AS MATERIALIZED (
        SELECT * FROM unnest(topic_ids, partitions, byte_offsets, byte_sizes, records, max_timestamps)
            WITH ORDINALITY AS w (topic_id, partition, byte_offset, byte_size, records, max_timestamp, place)
    ), sums AS MATERIALIZED (
        SELECT w.topic_id, w.partition, sum(w.records) AS records FROM wanted w GROUP BY w.topic_id, w.partition
    ), locked AS MATERIALIZED (
        -- In one order, so that two commits cannot wait for each other.
        SELECT l.topic_id, l.partition FROM logs l JOIN sums s USING (topic_id, partition)
        ORDER BY l.topic_id, l.partition FOR UPDATE OF l
    ), moved AS (
        UPDATE logs l SET high_watermark = l.high_watermark + s.records
        FROM sums s JOIN locked USING (topic_id, partition)
        WHERE l.topic_id = s.topic_id AND l.partition = s.partition
        RETURNING l.topic_id, l.partition, l.high_watermark - s.records AS first_offset
    ), placed AS MATERIALIZED (
        SELECT w.*, m.first_offset - w.records + sum(w.records) OVER (PARTITION BY w.topic_id, w.partition ORDER BY w.place) AS base_offset
        FROM wanted w JOIN moved m USING (topic_id, partition)
    ), written AS (
        INSERT INTO batches (topic_id, partition, base_offset, last_offset, file_id, byte_offset, byte_size, max_timestamp)
        SELECT p.topic_id, p.partition, p.base_offset, p.base_offset + p.records - 1, file, p.byte_offset, p.byte_size, p.max_timestamp
        FROM placed p
    )
    SELECT array_agg(p.base_offset ORDER BY p.place) INTO answer FROM placed p;
    RETURN answer;
END
$$;
