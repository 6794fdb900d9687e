-- Searching for part of a title reads an index instead of every line. The extension comes with
-- PostgreSQL and needs no superuser; where somebody installed it before, it may lie in another schema.
create extension if not exists pg_trgm;

do $$
begin
  execute format('create index return_lines_by_title on return_lines using gin (lower(title) %I.gin_trgm_ops)',
    (select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace
      where e.extname = 'pg_trgm'));
end
$$;
