-- When a replay first forgot that the record's event had been dealt with. From then on the listener's
-- own memory says whether it is still to be handled, and no replay forgets it again.
alter table poison_records add column released_at timestamptz;
