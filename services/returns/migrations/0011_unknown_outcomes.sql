-- fits: 1.0.0
-- processing_outcomes_open has these rows, too.
drop index processing_outcomes_unknown;
