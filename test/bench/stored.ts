import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Figure } from './figure.ts';
import type { Platform } from './platform.ts';
import { figure } from './row.ts';

/** The kinds of stored objects. */
export type Kept = 'delivery' | 'event' | 'record' | 'return';

const WHERE: Readonly<Record<Kept, string>> = {
  delivery: 'tables of webhooks, for each delivery',
  event: 'events of returns, for each event',
  record: 'Kafka, for each event',
  return: 'tables of returns, for each return',
};

/** Size on disk, indexes included. Bytes. */
export interface Stored {
  readonly webhooks: number;
  /** Tables of the outbox of returns. */
  readonly events: number;
  /** Other tables of returns. */
  readonly returns: number;
  /** Records of all topics. */
  readonly kafka: number;
}

export async function storedBytes({ admin, folder }: Platform): Promise<Stored> {
  const { rows } = await admin.query<Omit<Stored, 'kafka'>>(
    `select coalesce(sum(bytes) filter (where nspname = 'webhooks'), 0)::float8 as webhooks,
            coalesce(sum(bytes) filter (where nspname = 'returns' and is_event), 0)::float8 as events,
            coalesce(sum(bytes) filter (where nspname = 'returns' and not is_event), 0)::float8 as returns
     from (select n.nspname, c.relname ~ '^events' as is_event, pg_total_relation_size(c.oid) as bytes
           from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.relkind = 'r') as sizes`,
  );
  const [found] = rows;
  if (!found) throw new Error('PostgreSQL returned no table sizes');
  return { ...found, kafka: bytesOfRecords(join(folder, 'kafka')) };
}

/** Topics of Kafka itself begin with two underscores. They are left out. */
function bytesOfRecords(folder: string): number {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.log') && !path.includes('__') && /-\d+\/\d+\.log$/.test(path))
    .reduce((sum, path) => sum + statSync(join(folder, path)).size, 0);
}

export function storedFigure(kept: Kept, bytes: number, count: number): Figure {
  return figure({ name: storedName(kept), value: bytes / count, digits: 0 });
}

export function storedName(kept: Kept): string {
  return `bytes stored in ${WHERE[kept]}`;
}
