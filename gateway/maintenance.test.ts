import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { createLogger } from '../services/platform/telemetry/log.ts';
import { createTestDatabase, type TestDatabase } from '../test/kit/database.ts';
import { silentLogger } from '../test/kit/services/telemetry.ts';
import { until } from '../test/kit/until.ts';
import { purgeAll, startMaintenance } from './open-parts.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('gateway');
});
afterAll(() => db.drop());

const left = async (sql: string): Promise<unknown[]> =>
  (await db.pool.query(sql)).rows.map((row) => Object.values(row)[0]);

describe('maintenance of the gateway', () => {
  test('keeps the audit log for 13 months, and counters until an hour after their window', async () => {
    await db.pool.query(
      `with founder as (insert into users (email) values ('owner@example.com') returning id),
            shop as (insert into shops (name, currency, founder_id)
                     select 'Shop', 'GBP', id from founder returning id)
       insert into audit_log (shop_id, at, actor_kind, actor_id, actor_name, action, subject)
       select shop.id, now() - age, 'system', 'test', '', subject, subject
         from shop, (values ('past', interval '13 months 1 day'), ('kept', interval '12 months 27 days'))
           as entry (subject, age)`,
    );
    const counter =
      "insert into rate_limits (key, points, expire) values ('past', 1, $1), ('kept', 1, $2)";
    await db.pool.query(counter, [Date.now() - 24 * 3_600_000, Date.now() + 60_000]);

    const maintenance = startMaintenance(db.pool, silentLogger());
    const purged = until(
      async () => !(await left('select subject from audit_log')).includes('past'),
    );
    await purged.finally(() => maintenance.stop());
    expect(await left('select subject from audit_log')).toEqual(['kept']);
    expect(await left('select key from rate_limits')).toEqual(['kept']);
  });

  test('deletes more than one batch, by statements of bounded size', async () => {
    const other = await createTestDatabase('gateway');
    await other.pool.query(
      `insert into rate_limits (key, points, expire)
       select 'past ' || n, 1, 0 from generate_series(1, 12000) n`,
    );
    const deleted: number[] = [];
    const db = new Proxy(other.pool, {
      get(pool, name) {
        const member: unknown = Reflect.get(pool, name);
        if (typeof member !== 'function') return member;
        if (name !== 'query') return member.bind(pool);
        return async (...statement: unknown[]) => {
          const result = await Reflect.apply(member, pool, statement);
          if (String(statement[0]).includes('rate_limits')) deleted.push(result.rowCount);
          return result;
        };
      },
    });
    await purgeAll(db, silentLogger(), new AbortController().signal);
    expect(deleted).toEqual([5_000, 5_000, 2_000]);
    await other.drop();
  });

  test('deletes audit entries of more than one batch', async () => {
    const other = await createTestDatabase('gateway');
    await other.pool.query(
      `with founder as (insert into users (email) values ('owner@example.com') returning id),
            shop as (insert into shops (name, currency, founder_id)
                     select 'Shop', 'GBP', id from founder returning id)
       insert into audit_log (shop_id, at, actor_kind, actor_id, actor_name, action, subject)
       select shop.id, now() - interval '14 months', 'system', 'test', '', 'past', 'past'
         from shop, generate_series(1, 5001)`,
    );
    await purgeAll(other.pool, silentLogger(), new AbortController().signal);
    expect((await other.pool.query('select from audit_log')).rowCount).toBe(0);
    await other.drop();
  });

  test('a failed purge is logged, and the others run', async () => {
    const other = await createTestDatabase('gateway');
    const migrator = new pg.Client({ connectionString: other.migratorUrl });
    await migrator.connect();
    await migrator.query('revoke delete on gateway.rate_limits from rms_gateway');
    await migrator.end();
    await other.pool.query(
      `insert into oauth_tickets (kind, id_hash, sealed, expires_at)
       values ('SignIn', sha256('past'), 'x', now() - interval '1 minute')`,
    );
    const lines: string[] = [];
    const destination = { write: (line: string): void => void lines.push(line) };
    const logger = createLogger({ service: 'test', level: 'info', destination });

    const next = await purgeAll(other.pool, logger, new AbortController().signal);
    const { rowCount } = await other.pool.query('select from oauth_tickets');
    await other.drop();
    expect([next, rowCount]).toEqual(['idle', 0]);
    expect(lines).toHaveLength(1);
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({ level: 'error', purge: 'counters' });
  });
});
