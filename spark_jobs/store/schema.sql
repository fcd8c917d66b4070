-- What the monitor knows of `__diskless_metadata`. One writer, the Spark driver: one transaction per micro-batch moves the
-- heads together with every number derived from the entries below them, so a replay changes nothing. Readers (dashboard,
-- commands) open it read-only. Times are milliseconds since the epoch unless named `second` or `minute` (since the
-- epoch, of the entry's append time). Topic ids are 16 raw bytes. `kpart` is the partition of the metadata topic, `entry_offset` the
-- offset of an entry in it. Names and types are such that SQLite and PostgreSQL both take the tables.

create table if not exists log (            -- the topic that is followed; another id is another topic
    topic text primary key, topic_id text not null, partitions integer not null, schema_version integer not null
) without rowid;

create table if not exists head (           -- where the job is, per partition of the metadata topic
    kpart integer primary key,
    next_offset integer not null,           -- entries below are replays
    epoch integer, term integer, seq integer,       -- the claim in force and its last entry; null: not known
    from_offset integer not null,           -- totals hold from here on
    from_ms integer not null,               -- Kafka's time of the first entry read, or of the snapshot that was begun with
    log_end integer not null,               -- end of the log when last asked
    append_ms integer not null,             -- Kafka's time of the last entry read
    merged_ms integer not null,             -- when it was merged: merged_ms - append_ms is the freshness
    state text not null default '{}',       -- the rest of the scan's head, as JSON
    restarted_at integer,                   -- entries before it were lost: user partitions may exist whose creation was not seen
    snapshot_offset integer                 -- where it last began with a snapshot, which says all that exists; null: it never did
);
create table if not exists unread_span (    -- times of which entries were lost before they were read
    kpart integer, from_ms integer, to_ms integer, primary key (kpart, from_ms)
) without rowid;
create table if not exists held_entry (     -- entries of the open transaction
    kpart integer, entry_offset integer, append_ms integer, value blob, primary key (kpart, entry_offset)
) without rowid;
create table if not exists note (           -- worth knowing, and not wrong
    id integer primary key, kpart integer not null, entry_offset integer not null, text text not null, seen_ms integer not null
);

-- activity. Kept: seconds 2 hours, minutes 24 hours, minute_partition 1 hour. A file of several owners is one object: `files`,
-- `file_bytes` and the histogram of sizes count it in the log of its first owner, batches count wherever they are.
create table if not exists activity_second (
    second integer, kpart integer, files integer, batches integer, records integer, bytes integer, -- bytes of batches
    file_bytes integer, multi_owner_files integer, void_entries integer, entries integer,
    primary key (second, kpart)
) without rowid;
create table if not exists activity_topic (
    minute integer, topic_id blob, batches integer, records integer, bytes integer, primary key (minute, topic_id)
) without rowid;
create table if not exists activity_partition (
    minute integer, topic_id blob, partition integer, batches integer, records integer, bytes integer,
    primary key (minute, topic_id, partition)
) without rowid;
create table if not exists activity_uploader (      -- broker or gateway; its rack is in `broker`
    minute integer, uploader integer, files integer, batches integer, bytes integer, file_bytes integer, primary key (minute, uploader)
) without rowid;
create table if not exists histogram (      -- name: batches_per_file, partitions_per_file, file_bytes, fill_percent, freshness_ms
    name text, minute integer, upper integer, count integer, primary key (name, minute, upper)  -- bucket of values <= upper
) without rowid;
create table if not exists total (          -- exact since from_offset: files, batches, records, bytes, file_bytes, entries,
    name text, kpart integer, value numeric, primary key (name, kpart)     -- void.<reason>, quarantined, findings, replayed, record.<type>,
) without rowid;                            -- other.<verdict> (batches refused, or duplicates)

-- what the log says exists
create table if not exists topic (
    topic_id blob primary key, name text, partitions integer, deleted_ms integer,
    settings text                           -- those that it has of its own, as JSON
) without rowid;
create table if not exists partition (      -- a chain per user partition
    kpart integer, topic_id blob, partition integer,
    start_offset integer, next_offset integer, since_offset integer, -- log start, high watermark; first entry seen of it
    batches integer, records integer, bytes integer, last_append_ms integer, -- of the newest batch; until there is one, when it was created or its B0 was set or unset
    diskless_base integer,                  -- B0 of a migrated partition, -1 before it is set
    prefix_start integer not null default -1, leader_epoch integer not null default -1,     -- what its leaders said of it
    stretch_base integer not null default 0,    -- where what this coordinator has of it begins, if it came by a move
    newest_move integer not null default -1,    -- the newest move that it took part in here; -1: none
    released_to integer,                        -- the coordinator in which it goes on; null: it takes batches here
    moved_ms integer not null default 0,        -- when it left its coordinator in the newest move
    said_start integer,                     -- log start by its newest file, if that is another one
    chained integer not null default 1,     -- 0: entries were lost since, the next commit may begin anywhere
    block_offset integer, block_bytes integer,  -- the newest run_block, which is added to while it is small
    primary key (kpart, topic_id, partition)
) without rowid;
create index if not exists partition_migrated on partition (topic_id, diskless_base) where diskless_base is not null;
create index if not exists partition_moved on partition (topic_id, partition) where newest_move >= 0;
create table if not exists migration_step ( -- the newest resets and repairs of migrated partitions, by operators
    kpart integer, entry_offset integer, topic_id blob, partition integer, step text not null,
    base_before integer, base_after integer not null,   -- B0; -1: not set, null: not known
    leader_epoch integer not null, append_ms integer not null, primary key (kpart, entry_offset, topic_id, partition)
) without rowid;
create table if not exists producer (
    kpart integer, topic_id blob, partition integer, producer_id integer, epoch integer, next_sequence integer, last_append_ms integer,
    primary key (kpart, topic_id, partition, producer_id)
) without rowid;
create table if not exists deleted_topic (  -- ids that do not come back to this partition of the metadata topic
    kpart integer, topic_id blob, entry_offset integer, append_ms integer, primary key (kpart, topic_id)
) without rowid;
create table if not exists claim (          -- leadership changes, those in force
    kpart integer, epoch integer, term integer, node_id integer, entry_offset integer, append_ms integer, primary key (kpart, entry_offset)
) without rowid;
create table if not exists node (node_id integer primary key, rack text, endpoints text, schema_level_max integer, incarnation blob, drain integer) without rowid;
create table if not exists happening (      -- kind: start (of a node), deployment (a start with another schema_level_max), level (in force)
    kpart integer, entry_offset integer, append_ms integer, kind text, node_id integer, level integer, primary key (kpart, entry_offset, kind)
) without rowid;
create table if not exists node_directory (node_id integer, directory_id blob, primary key (node_id, directory_id)) without rowid;
create table if not exists replica_directory (node_id integer, kpart integer, directory_id blob, primary key (node_id, kpart)) without rowid;
create table if not exists level_use (      -- entries at a level that partition 0 is not known to have put in force, until it has been read
    kpart integer, entry_offset integer, level integer, seen_ms integer, primary key (kpart, entry_offset, level)
) without rowid;
create table if not exists placed_range (   -- where partitions were placed by the newest order for their topic
    topic_id blob, first_partition integer, num_partitions integer, coordinator_id integer, primary key (topic_id, first_partition)
) without rowid;
create table if not exists move (           -- moves of user partitions that partition 0 ordered, the newest of topics that exist
    move_id integer primary key, topic_id blob not null, partition integer not null,
    from_coordinator integer not null, to_coordinator integer not null,
    entry_offset integer not null,          -- in partition 0: of the order, or where the move was done
    ordered_ms integer not null,
    moved_ms integer                        -- when partition 0 said that it is done; null: it is under way
) without rowid;
create index if not exists move_of_partition on move (topic_id, partition);
create table if not exists move_step (      -- steps of moves that were not compared with their orders yet: released, adopted, moved
    kpart integer, entry_offset integer, topic_id blob, partition integer, step text not null, move_id integer not null,
    to_coordinator integer not null, seen_ms integer not null, primary key (kpart, entry_offset, topic_id, partition)
) without rowid;
create table if not exists created_range (  -- partitions whose creation was not compared with the order for it yet
    kpart integer, entry_offset integer, topic_id blob, first_partition integer, num_partitions integer, order_offset integer,
    primary key (kpart, entry_offset, topic_id, first_partition)
) without rowid;
create table if not exists feature (    -- name: schema (level in force), moves before (not judged up to that id), moves not settled
    name text primary key, level integer) without rowid;
create table if not exists broker (broker_id integer primary key, rack text, host text) without rowid; -- from Kafka, not the log
create table if not exists snapshot (
    kpart integer, entry_offset integer, mark_offset integer, end_offset integer, epoch integer, size_bytes integer, location text, digest blob,
    append_ms integer, primary key (kpart, entry_offset)
) without rowid;
create table if not exists open_transaction (kpart integer primary key, name text, entry_offset integer, append_ms integer) without rowid;

-- life of the WAL files. state: live, waiting (for another owner), deletable, removed, fenced
create table if not exists file (
    file_number integer primary key, kpart integer not null, object_key text not null, entry_offset integer not null, append_ms integer not null,
    uploader integer, file_bytes integer, batches integer, live_batches integer, live_bytes integer,
    owners text, next_owner integer,        -- JSON list of metadata partitions; whom it was handed to
    state text not null, state_since_ms integer not null, created_ms integer not null default -1
);
create unique index if not exists file_by_key on file (kpart, object_key);
create index if not exists file_by_state on file (state, state_since_ms);
create table if not exists run_block (      -- which files hold the batches of a partition: frames of spark_jobs.scan.blocks
    kpart integer, topic_id blob, partition integer, first_offset integer, end_offset integer, runs blob,
    primary key (kpart, topic_id, partition, first_offset)
) without rowid;

-- what is wrong
create table if not exists finding (
    id integer primary key, kpart integer not null, entry_offset integer not null, rule text not null, message text not null,
    topic_id blob, partition integer, producer_id integer, object_key text, expected integer, found integer, seen_ms integer not null,
    acknowledgement integer                 -- the one in force; null: the finding is open
);
create index if not exists finding_open on finding (id) where acknowledgement is null;
create index if not exists finding_acknowledged on finding (id) where acknowledgement is not null;
create table if not exists acknowledgement (    -- what people said of findings; rows are never changed
    id integer primary key, action text not null, who text not null, reason text not null, at_ms integer not null,
    findings integer not null,              -- of how many findings
    without_row integer                     -- when said of all: how many findings that got no row are acknowledged from then on
);
create table if not exists quarantine (
    kpart integer, entry_offset integer, error text, size_bytes integer, first_bytes blob, seen_ms integer, primary key (kpart, entry_offset)
) without rowid;

create table if not exists micro_batch (    -- the last 1000: for the page's own health panel
    id integer primary key, merged_ms integer, entries integer, batches integer, scan_ms integer, merge_ms integer, lag_entries integer
);
create table if not exists job (name text primary key, value text) without rowid; -- started_ms, pid, trigger_s, version, last_verify (JSON), last_objects (JSON); signs of life are a file beside this one
