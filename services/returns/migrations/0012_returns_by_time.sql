-- fits: 1.0.0
-- returns_by_state_created has the same order for each of the five states.
drop index returns_by_time;
