-- Ids leave as JSON numbers, which carry no more than 2^53 - 1 exactly.
alter table exchanges alter column id set maxvalue 9007199254740991;
alter table gift_card_requests alter column id set maxvalue 9007199254740991;
alter table instant_refunds alter column id set maxvalue 9007199254740991;
alter table label_requests alter column id set maxvalue 9007199254740991;
alter table labels alter column id set maxvalue 9007199254740991;
alter table processing_jobs alter column id set maxvalue 9007199254740991;
alter table refunds alter column id set maxvalue 9007199254740991;
alter table return_lines alter column id set maxvalue 9007199254740991;
alter table shipments alter column id set maxvalue 9007199254740991;
alter table timeline alter column id set maxvalue 9007199254740991;
alter table uploads alter column id set maxvalue 9007199254740991;

alter table line_conditions add constraint line_conditions_grading_id_range
  check (grading_id between 1 and 9007199254740991);
alter table line_dispositions add constraint line_dispositions_assessment_id_range
  check (assessment_id between 1 and 9007199254740991);
