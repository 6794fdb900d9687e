-- fits: 1.0.0
-- A list counts up to 10,000 returns in an index. It reads the row of each one that changed since the last vacuum, too.
alter table returns set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02);
