-- Ids leave as JSON numbers, which carry no more than 2^53 - 1 exactly.
alter table inspected_lines add constraint inspected_lines_line_item_id_range
  check (line_item_id between 1 and 9007199254740991);
alter table handovers add constraint handovers_line_item_id_range
  check (line_item_id between 1 and 9007199254740991);
