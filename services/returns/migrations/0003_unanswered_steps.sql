-- When the provider was last asked for an outcome and has not definitely refused it. With no `done_at`
-- the answer is unknown: it may have taken effect.
alter table processing_outcomes add column asked_at timestamptz(3);

-- Nobody noted what became of earlier intents: they count as unanswered until processed again.
update processing_outcomes set asked_at = intended_at;
