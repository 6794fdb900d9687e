import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { SubscriptionStatus } from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { FAKE, sampleSubscription } from '../../test/kit/gateway/fake-objects.ts';
import { type McpBench, type SignedInMember, startMcpBench } from '../../test/kit/gateway/mcp.ts';
import { GOOD_CALLS } from '../../test/kit/gateway/tool-calls.ts';
import type { ActionName } from '../actions/permissions.ts';

let bench: McpBench;
let developer: SignedInMember;
beforeAll(async () => {
  bench = await startMcpBench();
  developer = await bench.member('developer');
}, 60_000);
afterAll(() => bench?.stop());
afterEach(() => bench.resetServices());

const call = (tool: ActionName, args: object = GOOD_CALLS[tool]) =>
  bench.call(developer.token, tool, args);

describe('signing secrets', () => {
  test.each(['create_webhook', 'rotate_webhook_secret'] as const)(
    'are never in a result of %s, which says where a person reads them',
    async (tool) => {
      const result = await call(tool, { ...GOOD_CALLS[tool], idempotency_key: `secret-${tool}` });
      expect(result.isError).toBe(false);
      expect(JSON.stringify(result)).not.toContain('whsec_');
      expect(JSON.stringify(result)).toContain(`GET /api/webhooks/${FAKE.webhook}/secret`);
      const { rows } = await bench.database.pool.query<{ stored: string }>(
        'select t::text as stored from tool_calls t',
      );
      expect(rows.map(({ stored }) => stored).join()).not.toContain('whsec_');
    },
  );
});

test('a webhook that never delivers is created with a warning', async () => {
  const args = { topic: 'label', trigger: 'return.closed', url: 'https://hooks.example.com/' };
  const { data } = await call('create_webhook', args);
  expect(data).toMatchObject({
    webhook_id: Number(FAKE.webhook),
    delivers: false,
    warnings: [expect.stringContaining('never delivers return.closed')],
  });
});

test('no tool sets or shows the description of a webhook, which the portal has', async () => {
  const subscription = { ...sampleSubscription(), description: 'Warehouse' };
  const asked: unknown[] = [];
  Object.assign(bench.services.webhooks, {
    listSubscriptions: () => ({ subscriptions: [subscription] }),
    updateSubscription: ({ description }: { readonly description?: string }) => {
      asked.push(description);
      return { subscription };
    },
  });
  const results = [await call('list_webhooks', {}), await call('update_webhook')];
  expect(results.map(({ isError }) => isError)).toEqual([false, false]);
  expect(JSON.stringify(results.map(({ data }) => data))).not.toContain('Warehouse');
  expect(asked).toEqual([undefined]);
});

describe('the list of webhooks', () => {
  const list = async (subscription: object) => {
    Object.assign(bench.services.webhooks, {
      listSubscriptions: () => ({ subscriptions: [{ ...sampleSubscription(), ...subscription }] }),
    });
    const { data } = await call('list_webhooks', {});
    return data.webhooks[0];
  };

  test('says how the deliveries of each fare, as REST does, and leaves out what has no value', async () => {
    const healthy = await list({});
    expect(healthy).toMatchObject({
      health: 'healthy',
      success_rate_24h: 0.6666,
      delivers: true,
      oldest_waiting_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
    });
    expect(Object.keys(healthy)).not.toContain('inactive_reason');
    expect(await list({ failures: 4 })).toMatchObject({ health: 'failing', failures: 4 });
    const { health, createdAt } = sampleSubscription();
    const paused = await list({
      health: { ...health, counted: 0, delivered: 0, pausedSince: createdAt },
    });
    expect(paused.health).toBe('paused');
    expect(paused).not.toHaveProperty('success_rate_24h');
  });

  test('says why one is inactive', async () => {
    const inactiveReason = 'answered 410';
    expect(await list({ status: SubscriptionStatus.INACTIVE, inactiveReason })).toMatchObject({
      status: 'inactive',
      health: 'inactive',
      inactive_reason: inactiveReason,
    });
  });
});

describe('a replay by filter', () => {
  test('is previewed, started and read with its progress', async () => {
    const args = { webhook_id: Number(FAKE.webhook), from: '2026-11-20T10:00:00Z' };
    const preview = await call('preview_webhook_replay', args);
    expect(preview.data).toMatchObject({ kind: 'replay', matched: 5, replayable: 3 });
    const started = await call('start_webhook_replay', args);
    const running = { id: Number(FAKE.replay), state: 'running', total: 3, done: 1 };
    expect(started.data).toMatchObject({ replay: running });
    const listed = await call('list_webhook_replays', {});
    expect(listed.data).toMatchObject({ replays: [running], next_cursor: null });
  });

  test.each([
    [{}, 'from is required when kind is replay.'],
    [{ kind: 'backfill' }, 'webhook_id is required when kind is backfill.'],
    [
      { kind: 'backfill', webhook_id: 41, return_id: 11 },
      'return_id must be absent when kind is backfill.',
    ],
    [{ from: '2026-11-20T10:00:00Z', to: '2026-11-20T10:00:00Z' }, 'to must be after from.'],
  ])('with %j is rejected', async (args, problem) => {
    for (const tool of ['preview_webhook_replay', 'start_webhook_replay'] as const) {
      const result = await call(tool, args);
      expect([result.isError, result.text]).toEqual([true, `Invalid arguments: ${problem}`]);
    }
  });

  test.each<[argument: string, value: unknown]>([
    ['webhook_id', ''],
    ['webhook_id', ' '],
    ['webhook_id', 'null'],
    ['return_id', ''],
    ['trigger', ''],
    ['states', []],
    ['states', '[]'],
    ['states', ''],
    ['to', 'null'],
  ])('does not send everything because %s is %j', async (argument, value) => {
    const started: unknown[] = [];
    Object.assign(bench.services.webhooks, {
      startReplay: (asked: unknown) => started.push(asked),
    });
    const args = { from: '2026-11-20T10:00:00Z', [argument]: value };
    for (const tool of ['preview_webhook_replay', 'start_webhook_replay'] as const) {
      const result = await call(tool, args);
      expect([result.isError, result.text]).toEqual([
        true,
        `Invalid arguments: ${argument} must not be empty. To call this tool without this restriction, omit it.`,
      ]);
    }
    expect(started).toEqual([]);
  });

  test('takes null as absent, for clients that cannot omit an argument', async () => {
    const nothing = { webhook_id: null, states: null, trigger: null, return_id: null, to: null };
    const args = { from: '2026-11-20T10:00:00Z', ...nothing };
    expect((await call('start_webhook_replay', args)).isError).toBe(false);
  });

  test('that does not exist is named with the next step', async () => {
    const result = await call('cancel_webhook_replay', { replay_id: 999 });
    expect([result.isError, result.text]).toEqual([
      true,
      'This shop has no such replay. list_webhook_replays returns the existing ones.',
    ]);
  });
});

test('a delivery is not sent without the check of its webhook because webhook_id is empty', async () => {
  const args = { ...GOOD_CALLS.replay_webhook_delivery, webhook_id: 'null' };
  const { isError, text } = await call('replay_webhook_delivery', args);
  expect([isError, text]).toEqual([true, expect.stringContaining('webhook_id must not be empty')]);
});
