package postgres

// oldestSnapshotSQL asks for the oldest transaction that keeps vacuum from the dead rows of this database: one with a
// snapshot here, or with a transaction id anywhere, which is the lower end of every snapshot that is taken meanwhile. A prepared
// transaction is one, too. Vacuum's own do no harm. Sessions of other roles are seen only by one that has the rights of
// pg_read_all_stats.
const oldestSnapshotSQL = `
SELECT coalesce(extract(epoch FROM greatest(clock_timestamp() - min(since), interval '0')), 0)::float8 FROM (
    SELECT xact_start AS since FROM pg_stat_activity
    WHERE (backend_xmin IS NOT NULL AND datname = current_database() OR backend_xid IS NOT NULL)
        AND pid <> pg_backend_pid() AND backend_type <> 'autovacuum worker'
    UNION ALL
    SELECT prepared FROM pg_prepared_xacts) t`
