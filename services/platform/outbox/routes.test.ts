import { randomUUID } from 'node:crypto';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { appendTo, rememberingBus, testEvent } from '../../../test/kit/events/outbox.ts';
import { startPublisher } from '../../../test/kit/events/publisher.ts';

let database: TestDatabase;
let memory = rememberingBus();
let publisher: Awaited<ReturnType<typeof startPublisher>>;
beforeAll(async () => {
  database = await createTestDatabase('fraud');
  publisher = await startPublisher(database.pool, 't', (...call) => memory.bus.publish(...call));
});
afterAll(async () => {
  await publisher.stop();
  await database.drop();
});
beforeEach(() => {
  memory = rememberingBus();
});

const positionsOf = async (ids: readonly string[]) => {
  const { rows } = await database.pool.query<{ position: bigint }>(
    'select position from events where event_id = any ($1) order by position',
    [ids],
  );
  return rows.map(({ position }) => position);
};

describe('events of a service', () => {
  test('are published again as they are stored, in order whatever the order of the request', async () => {
    const key = randomUUID();
    const ids = await appendTo(database.pool, testEvent(key, 1n), testEvent(key, 2n));
    const positions = await positionsOf(ids);
    const answer = await publisher.client.publishAgain({ positions: positions.toReversed() });
    expect(answer.published).toBe(2);
    expect(memory.ids()).toEqual(ids);
    expect(memory.revisions(key)).toEqual([1n, 2n]);
    expect(memory.published[0]?.headers).toMatchObject({ event_id: ids[0] });
  });

  test('are skipped when they are no longer stored', async () => {
    const ids = await appendTo(database.pool, testEvent(randomUUID()));
    const positions = [...(await positionsOf(ids)), 10n ** 12n];
    expect((await publisher.client.publishAgain({ positions })).published).toBe(1);
    expect(memory.ids()).toEqual(ids);
  });

  test('are UNAVAILABLE while the bus is', async () => {
    const positions = await positionsOf(await appendTo(database.pool, testEvent(randomUUID())));
    memory.control.before = () => Promise.reject(new Error('no broker'));
    const call = publisher.client.publishAgain({ positions });
    await expect(call).rejects.toMatchObject({ code: Code.Unavailable });
  });

  test('are requested by 1 to 200 positions', async () => {
    for (const positions of [[], [0n], Array.from({ length: 201 }, (_, n) => BigInt(n + 1))]) {
      const call = publisher.client.publishAgain({ positions });
      await expect(call).rejects.toMatchObject({ code: Code.InvalidArgument });
    }
  });

  test.each(['1.2', '0.0.0.0.0.0.0.x', '-1.0.0.0.0.0.0.0'])(
    'are not listed after the cursor %s',
    async (cursor) => {
      const call = publisher.client.listPublished({ cursor });
      await expect(call).rejects.toMatchObject({ code: Code.InvalidArgument });
    },
  );
});
