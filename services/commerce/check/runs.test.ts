import { type Client, Code } from '@connectrpc/connect';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import {
  Check,
  type CheckRun,
  CommerceService,
} from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import type { Fault } from '../../../test/kit/commerce/faults.ts';
import { startFaultyEndpoint } from '../../../test/kit/commerce/faulty-endpoint.ts';
import { during } from '../../../test/kit/during.ts';
import { invalid, notFound, startReturnsBench } from '../../../test/kit/services/returns-bench.ts';
import { actor, identity, refusal } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import { createServiceClient } from '../../platform/rpc/client.ts';

const bench = during(() => startReturnsBench({ NODE_ENV: 'production' }));
let channel: { client: Client<typeof CommerceService>; close(): void };
let commerce: Client<typeof CommerceService>;
let shopId: bigint;
let endpoint: Awaited<ReturnType<typeof startFaultyEndpoint>> | undefined;
beforeEach(async () => {
  channel = createServiceClient(CommerceService, { target: bench().target, identity });
  commerce = channel.client;
  shopId = await bench().shop();
});
afterEach(() => {
  channel.close();
  endpoint?.stop();
});

/** Connects the shop to an endpoint. */
async function connected(fault?: Fault): Promise<void> {
  const url = 'http://127.0.0.1:9/';
  const { secret } = await commerce.connect({ shopId, actor, url });
  endpoint = await startFaultyEndpoint(secret?.value ?? '', fault);
  await commerce.connect({ shopId, actor, url: endpoint.url });
}

const start = () => commerce.startCheck({ shopId, actor });
const last = async () => (await commerce.getLastCheck({ shopId, actor })).run;
const ended = (): Promise<CheckRun> =>
  until(async () => {
    const run = await last();
    return run?.endedAt && run;
  });
const failedIn = ({ steps }: CheckRun) => steps.filter(({ problems }) => problems.length > 0);

describe('a check in the background', () => {
  test('asks every question, and stores the answers', async () => {
    await connected('forgets keys');
    expect(await last()).toBeUndefined();
    const { run } = await start();
    expect(run).toMatchObject({ url: endpoint?.url, interrupted: false });
    expect(run?.endedAt).toBeUndefined();
    expect(run?.steps.map(({ title }) => title)).toContain(
      'makes nothing again for a repeated key',
    );
    const done = await ended();
    expect(done.steps).toHaveLength(14);
    expect(done.steps.filter(({ answered }) => !answered)).toEqual([]);
    expect(failedIn(done).map(({ check }) => check)).toContain(Check.REPEATS);
  }, 60_000);

  test('shows an answer while it still asks', async () => {
    await connected('answers too late');
    await start();
    await until(async () => (await last())?.steps.some(({ answered }) => answered));
    expect((await last())?.endedAt).toBeUndefined();
    await commerce.disconnect({ shopId, actor });
    expect(await last()).toBeUndefined();
  });

  test('asks no more when the first question fails', async () => {
    await connected('answers HTML');
    await start();
    const { steps } = await ended();
    expect(steps.map(({ answered }) => answered)).toEqual([true, ...Array(13).fill(false)]);
  });

  test('is one, however often it is begun at once', async () => {
    await connected('answers too late');
    const runs = await Promise.all([start(), start(), start()]);
    expect(new Set(runs.map(({ run }) => JSON.stringify(run?.startedAt, asText))).size).toBe(1);
    await commerce.disconnect({ shopId, actor });
  });

  test('does not begin again at once', async () => {
    await connected('answers HTML');
    await start();
    await ended();
    expect(await refusal(start())).toMatchObject({
      code: Code.ResourceExhausted,
      reason: 'QUOTA_EXCEEDED',
    });
  });

  test('whose process died is interrupted, and another one can begin', async () => {
    await connected('answers HTML');
    await start();
    await ended();
    await bench().db.pool.query(
      `update commerce_checks set ended_at = null, started_at = now() - interval '1 minute',
              alive_until = now() - interval '1 ms' where shop_id = $1`,
      [shopId],
    );
    expect(await last()).toMatchObject({ interrupted: true });
    expect((await start()).run).toMatchObject({ interrupted: false });
    expect(await ended()).toMatchObject({ interrupted: false });
  });

  test('needs a connection, and the id of an order with its name', async () => {
    const call = { shopId, actor };
    expect(await refusal(commerce.startCheck(call))).toEqual(notFound('COMMERCE_CONNECTION'));
    const named = commerce.startCheck({ ...call, testOrderName: '#1001' });
    expect(await refusal(named)).toEqual(invalid('test_order_id'));
  });
});

function asText(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value;
}
