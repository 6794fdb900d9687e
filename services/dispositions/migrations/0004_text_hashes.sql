-- Long notes and descriptions are stored once, by returns: once it has taken an inspection over, only their
-- SHA-256 stays here, by which a repeated call is known.
alter table inspections
  add column note_sha256 bytea check (length(note_sha256) = 32),
  add column description_sha256 bytea check (length(description_sha256) = 32);

update inspections i
   set note = case when octet_length(note) <= 2000 then note end,
       note_sha256 = case when octet_length(note) > 2000 then sha256(convert_to(note, 'UTF8')) end,
       description = case when octet_length(description) > 2000 then '' else description end,
       description_sha256 = case when octet_length(description) > 2000
                                 then sha256(convert_to(description, 'UTF8')) end
 where (octet_length(note) > 2000 or octet_length(description) > 2000)
   and not exists (select from handovers h where h.shop_id = i.shop_id and h.inspection_id = i.id);
