import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { freePort } from '../../deploy/local/free-ports.ts';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { until } from '../../test/kit/until.ts';
import { runWebhooks, webhooksSettings } from '../../test/kit/webhooks/running-webhooks.ts';
import { createInProcessBus } from '../platform/bus/in-process.ts';
import { loadConfig } from '../platform/process/config.ts';
import { newKeyringText } from '../platform/security/keyring.ts';
import { checkProduction, webhooksShape } from './config.ts';
import { startWebhooks } from './start.ts';

describe('the start', () => {
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
});

const ENV = {
  DATABASE_URL: 'postgres://rms_webhooks@db/rms',
  KAFKA_BROKERS: 'kafka:9092',
  SERVICE_AUTH: 'kubernetes',
  SERVICE_TOKEN_FILE: '/token',
  SERVICE_JWKS_FILE: '/jwks',
  SERVICE_ISSUER: 'https://kubernetes.default.svc',
  SERVICE_SUBJECTS: 'system:serviceaccount:rms:*',
  RETURNS_TARGET: 'dns:///returns:8080',
  EVENT_KEYRING: newKeyringText(),
  WEBHOOK_KEYRING: newKeyringText(),
};
const load = (more: object) => loadConfig(webhooksShape, { ...ENV, ...more });

describe("the webhooks service's configuration", () => {
  test('keeps the log for 30 days, and allows public addresses only', () => {
    expect(load({})).toMatchObject({ WEBHOOK_LOG_DAYS: 30, WEBHOOK_ALLOWED_ORIGINS: [] });
  });

  test.each([
    ['WEBHOOK_ALLOWED_ORIGINS', 'http://127.0.0.1:*'],
    ['API_CALENDAR', '2027-08-01'],
  ])('%s is for trials and refused in production', (name, value) => {
    expect(() => checkProduction(load({ [name]: value }))).not.toThrow();
    const inProduction = { NODE_ENV: 'production', TRANSPORT_SECURITY: 'mesh' };
    expect(() => checkProduction(load({ ...inProduction, [name]: value }))).toThrow(name);
    expect(() => checkProduction(load(inProduction))).not.toThrow();
  });
});
