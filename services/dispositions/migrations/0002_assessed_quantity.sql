-- fits: 1.0.0
alter table inspections
  -- Units that an assessment is about; null: all of the line item.
  add column quantity integer constraint inspections_quantity_of_assessment
    check (quantity is null or (quantity between 1 and 1000000 and kind = 'assessment' and outcome <> 'missing'));
