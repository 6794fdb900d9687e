import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { freePort } from '../../deploy/local/free-ports.ts';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { until } from '../../test/kit/until.ts';
import { runWebhooks, webhooksSettings } from '../../test/kit/webhooks/running-webhooks.ts';
import { createInProcessBus } from '../platform/bus/in-process.ts';
import { startWebhooks } from './start.ts';

let db: TestDatabase;

beforeAll(async () => {
  db = await createTestDatabase('webhooks');
});
afterAll(() => db.drop());

describe('a start that cannot listen to events', () => {
  test('fails, and leaves nothing running', async () => {
    const metricsPort = await freePort();
    let metrics = '';
    const bus = {
      ...createInProcessBus(),
      subscribe: async () => {
        metrics = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
        throw new Error('no broker');
      },
    };
    const settings = { ...webhooksSettings(db.url), METRICS_PORT: metricsPort };
    const start = startWebhooks({ ...settings, bus });
    await expect(start).rejects.toThrow('no broker');
    expect(metrics).toContain('target_info');
    // The dispatcher reports from its start how much is in flight.
    expect(metrics).not.toContain('webhooks_in_flight');
    const webhooks = await runWebhooks({ db });
    expect(await webhooks.metrics()).toContain('webhooks_in_flight');
    await webhooks.stop();
  });
});

describe('the list of redacted returns', () => {
  test('is kept a day longer than events, however short the log is kept', async () => {
    await db.pool.query(
      `insert into redacted_returns (shop_id, return_id, redacted_at)
       values (1, 1, now() - interval '190 hours'), (1, 2, now() - interval '194 hours')`,
    );
    const webhooks = await runWebhooks({ db, WEBHOOK_LOG_DAYS: 1, RETENTION_DAYS: 7 });
    const known = async () => {
      const { rows } = await db.pool.query<{ return_id: bigint }>(
        'select return_id from redacted_returns where shop_id = 1 order by return_id',
      );
      return rows.map((row) => row.return_id);
    };
    await until(async () => !(await known()).includes(2n));
    expect(await known()).toEqual([1n]);
    await webhooks.stop();
  });
});
