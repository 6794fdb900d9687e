import { fileURLToPath } from 'node:url';
import type { Client } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { Outcome, type Return, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { ReturnsService } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createServiceClient } from '../../services/platform/rpc/client.ts';
import { isOverloaded } from '../../services/platform/values/errors.ts';
import { line, newId } from '../kit/builders.ts';
import { createTestDatabase, type TestDatabase } from '../kit/database.ts';
import { firstLine, present } from '../kit/services/returns-bench.ts';
import { actor, identity, newShop } from '../kit/services/running-service.ts';
import { type ProcessInCgroup, startInCgroup } from './process-in-cgroup.ts';

const MIB = 1024 * 1024;
/** Number of largest returns that are changed or read concurrently. Each belongs to another shop. */
const PARALLEL = 8;
/** Almost the maximum size of the details. */
const RETURN_BYTES = 23 * MIB;
const CALL_MS = 60_000;

let database: TestDatabase;
let service: ProcessInCgroup;
let client: Client<typeof ReturnsService>;
let close: () => void;
let all: readonly Return[];

beforeAll(async () => {
  database = await createTestDatabase('returns');
});
afterAll(() => database?.drop());
afterEach(async () => {
  close();
  await service.stop();
});

beforeEach(async () => {
  service = await startInCgroup(fileURLToPath(new URL('returns-process.ts', import.meta.url)), {
    DATABASE_URL: database.url,
    SERVICE_TOKEN: 't'.repeat(32),
  });
  const target = `127.0.0.1:${service.port}`;
  ({ client, close } = createServiceClient(ReturnsService, {
    target,
    identity,
    timeoutMs: CALL_MS,
  }));
  all = await Promise.all(Array.from({ length: PARALLEL }, newLargeReturn));
});

async function newLargeReturn(): Promise<Return> {
  const shopId = newShop();
  await client.updateSettings({ shopId, actor, settings: { currency: 'GBP' } });
  const submitted = await client.submitReturn({
    shopId,
    actor,
    idempotencyKey: `${shopId}`,
    currency: 'GBP',
    lines: [line()],
    outcome: Outcome.REFUND,
    order: { providerOrderId: newId(), name: '#1001' },
  });
  const made = present(submitted.return);
  const url = `https://x.example/${'x'.repeat(2_000)}`;
  await database.pool.query(
    `insert into uploads (shop_id, return_id, line_item_id, kind, url)
     select $1, $2, $3, 'image', $4 from generate_series(1, $5)`,
    [shopId, made.id, firstLine(made), url, Math.ceil(RETURN_BYTES / (url.length + 90))],
  );
  return made;
}

/** Runs the work for all returns concurrently, and repeats the rejected ones until all succeed. */
async function concurrently(work: (of: Return) => Promise<unknown>): Promise<void> {
  let left = all;
  while (left.length > 0) {
    const settled = await Promise.allSettled(left.map(work));
    left = left.filter((_, nth) => {
      const one = settled[nth];
      if (one?.status !== 'rejected') return false;
      if (!isOverloaded(one.reason)) throw one.reason;
      return true;
    });
  }
}

function finish(): void {
  if (process.env.ATTACK_SECONDS !== undefined) {
    const peak = Math.round(service.peakBytes() / MIB);
    process.stdout.write(`${expect.getState().currentTestName}: peak ${peak} MiB\n`);
  }
  expect(service.isRunning()).toBe(true);
  expect(service.peakBytes()).toBeLessThanOrEqual(service.limitBytes);
}

const ids = ({ shopId, id }: Return) => ({ shopId, actor, returnId: id });

describe('a returns service with the memory limit of its manifest', () => {
  test('changes the largest returns of many shops concurrently', async () => {
    await concurrently(async (of) => {
      const { return: changed } = await client.flagReturn({ ...ids(of), reasons: ['Odd'] });
      expect(changed?.state).toBe(ReturnState.REVIEW);
    });
    finish();
  });

  test('reads them', async () => {
    await concurrently(({ shopId, id }) => client.getReturns({ shopId, actor, returnIds: [id] }));
    finish();
  });

  test('reads their snapshots', async () => {
    await concurrently((of) => client.getSnapshot({ ...ids(of), revision: of.revision }));
    finish();
  });
});
