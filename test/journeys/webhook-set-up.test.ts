import { expect, test } from '@jest/globals';
import { type Hook, partnerForTests, verified } from '../kit/journeys/hooks.ts';
import { journeyForTests } from '../kit/journeys/journey.ts';
import { until } from '../kit/until.ts';

const journey = journeyForTests();
const partner = partnerForTests(journey);

const API = '/api/2026-10';

/** Sends a request that must succeed, and returns the body. */
async function ask<T>(method: string, path: string, json?: object): Promise<T> {
  const response = await journey.send({ method, path: `${API}${path}`, ...(json && { json }) });
  if (response.status >= 300) {
    throw new Error(`${method} ${path}: ${response.status} ${response.text}`);
  }
  return response.body as T;
}

interface Shown {
  readonly health: string;
  readonly success_rate_24h: number | null;
  readonly failures: number;
  readonly failing_since: string | null;
  readonly oldest_waiting_at: string | null;
}
interface Job {
  readonly id: number;
  readonly state: string;
  readonly total: number;
  readonly done: number;
  readonly skipped: number;
}
interface Secret {
  readonly secret: string;
  readonly expires_at: string | null;
}

const webhookOf = ({ id }: Hook) => ask<Shown>('GET', `/webhooks/${id}`);
const deliveriesOf = async ({ id }: Hook) =>
  (await ask<{ deliveries: { id: string; state: string }[] }>('GET', `/webhooks/${id}/deliveries`))
    .deliveries;

test('a partner sets up a webhook, tests it, rotates its secret, and recovers from an outage by REST alone', async () => {
  const hook = await partner.subscribe('return', 'return.created');
  expect(await webhookOf(hook)).toMatchObject({ health: 'healthy', success_rate_24h: null });

  // Test: the event comes signed, and its delivery is in the log.
  const tested = await ask<{ id: string }>('POST', `/webhooks/${hook.id}/test`);
  const first = await partner.nth(hook, 1);
  expect(first.headers['webhook-id']).toBe(tested.id);
  expect(verified(hook, first)).toMatchObject({ trigger: 'return.created' });
  await until(async () => (await deliveriesOf(hook))[0]?.state === 'delivered');
  expect(await webhookOf(hook)).toMatchObject({ health: 'healthy', success_rate_24h: 1 });

  // Rotate: during the overlap both secrets verify.
  const path = `/webhooks/${hook.id}/secret`;
  const { secret } = await ask<Secret>('POST', `${path}/rotate`, { overlap_hours: 1 });
  const { secrets } = await ask<{ secrets: Secret[] }>('GET', path);
  expect(secrets.map((one) => one.secret)).toEqual([secret, hook.secret]);
  expect(secrets.map((one) => one.expires_at === null)).toEqual([true, false]);
  await ask('POST', `/webhooks/${hook.id}/test`);
  const second = await partner.nth(hook, 2);
  for (const valid of [secret, hook.secret]) {
    expect(() => verified({ ...hook, secret: valid }, second)).not.toThrow();
  }

  // The earlier secret has leaked: it ends immediately, and the newest stays.
  await ask('DELETE', `${path}/previous`);
  const { secrets: left } = await ask<{ secrets: Secret[] }>('GET', path);
  expect(left.map((one) => one.secret)).toEqual([secret]);
  await ask('POST', `/webhooks/${hook.id}/test`);
  const third = await partner.nth(hook, 3);
  expect(() => verified({ ...hook, secret }, third)).not.toThrow();
  expect(() => verified(hook, third)).toThrow();

  // Fail: the health says so, and the log has the delivery that waits.
  partner.receiver.answer = (response) => void response.writeHead(500).end();
  const from = new Date().toISOString();
  for (const _ of [1, 2, 3]) await journey.stack.fixture('no_label');
  await partner.nth(hook, 6);
  const failing = await until(async () => {
    const shown = await webhookOf(hook);
    return shown.failures >= 3 && shown;
  });
  expect(['failing', 'paused']).toContain(failing.health);
  expect(failing.failing_since).not.toBeNull();
  expect(failing.oldest_waiting_at).not.toBeNull();
  expect(failing.success_rate_24h).toBeLessThan(1);

  // Fix the url: what waits goes there. Then send everything since then again, with progress.
  partner.receiver.answer = (response) => void response.writeHead(200).end();
  const change = { topic: 'return', trigger: 'return.created', url: `${hook.url}-fixed` };
  await ask('PUT', `/webhooks/${hook.id}`, change);
  const fixed = { ...hook, secret, path: `${hook.path}-fixed` };
  await journey.stack.control('POST', '/clock/webhooks', { advance_s: 3_600 });
  await until(async () =>
    (await deliveriesOf(hook)).every((delivery) => delivery.state === 'delivered'),
  );
  const before = partner.received(fixed).length;
  const filter = { webhook_id: hook.id, from };
  const preview = await ask<{ replayable: number }>('POST', '/webhook-replay-previews', filter);
  expect(preview).toMatchObject({ matched: 3, replayable: 3, more: false, not_replayable: [] });
  const started = await ask<Job>('POST', '/webhook-replays', filter);
  expect(started.total).toBe(3);
  const ended = await until(async () => {
    const job = await ask<Job>('GET', `/webhook-replays/${started.id}`);
    return job.state !== 'running' && job;
  });
  expect(ended).toMatchObject({ state: 'done', total: 3, done: 3, skipped: 0 });
  await partner.nth(fixed, before + 3);
  for (const received of partner.received(fixed)) verified(fixed, received);
  const { replays } = await ask<{ replays: Job[] }>(
    'GET',
    `/webhook-replays?webhook_id=${hook.id}`,
  );
  expect(replays).toEqual([ended]);
  expect(await ask('POST', `/webhook-replays/${started.id}/cancel`)).toEqual(ended);
  expect(await webhookOf(hook)).toMatchObject({ health: 'healthy', oldest_waiting_at: null });
});

test('a backfill over REST sends a new webhook the events from before it', async () => {
  const { id } = await journey.stack.fixture('no_label');
  const hook = await partner.subscribe('return', 'return.created');
  const backfill = { kind: 'backfill', webhook_id: hook.id };
  const preview = await until(async () => {
    const { matched } = await ask<{ matched: number }>(
      'POST',
      '/webhook-replay-previews',
      backfill,
    );
    return matched > 0 && { matched };
  });
  const started = await ask<Job>('POST', '/webhook-replays', backfill);
  expect(started.total).toBeGreaterThanOrEqual(preview.matched);
  await partner.nth(hook, preview.matched);
  await until(() => partner.received(hook).some((one) => verified(hook, one).id === id));
});
