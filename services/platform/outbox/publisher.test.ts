import { expect, test } from '@jest/globals';
import type pg from 'pg';
import { silentLogger } from '../../../test/support/telemetry.ts';
import type { BusRecord, EventBus } from '../bus/event-bus.ts';
import { createPublisher } from './publisher.ts';

const SHARD = 3;

interface Answer {
  readonly resolve: (rows: readonly object[]) => void;
  readonly reject: (error: Error) => void;
}

/** A publisher whose database and bus answer when the test says so. */
function open() {
  const asked: Record<string, Answer[]> = { 'outbox-read': [], 'outbox-forget': [] };
  const published: string[] = [];
  const arrivals: { arrive: () => void; refuse: () => void }[] = [];
  const query = ({ name }: { name: string }) =>
    new Promise((resolve, reject) => {
      asked[name]?.push({ resolve: (rows) => resolve({ rows }), reject });
    });
  const publish = (_: string, records: readonly BusRecord[]) => {
    published.push(...records.map(({ key }) => key));
    return new Promise<void>((resolve, reject) => {
      arrivals.push({ arrive: resolve, refuse: () => reject(new Error('away')) });
    });
  };
  const publisher = createPublisher({
    pool: { query } as unknown as pg.Pool,
    bus: { publish } as unknown as EventBus,
    topic: 't',
    logger: silentLogger(),
    onChange: () => {},
    onPublished: () => {},
  });
  const next = (name: string): Answer => {
    const answer = asked[name]?.shift();
    if (!answer) throw new Error(`nobody asked ${name}`);
    return answer;
  };
  /** A whole step that finds these keys. */
  const find = async (...rows: readonly object[]): Promise<void> => {
    const step = publisher.step([SHARD], { isLook: true });
    next('outbox-read').resolve(rows);
    await step;
  };
  return { publisher, published, arrivals, next, find };
}

const row = (key: string, position: bigint) => ({
  ...{ shard: SHARD, shop_id: 1n, day: '2026-11-21', position, key, bytes: 10 },
  ...{ is_known: false, is_late: false, snapshot: '1:9:', found_at: position },
  ...{ event_id: key, trigger: 'return.updated', traceparent: '', value: Buffer.alloc(0) },
});

const settled = () => new Promise((done) => setImmediate(done));

test('a step that fails waits for its look, whose find is not sent without the shard', async () => {
  const { publisher, published, arrivals, next, find } = open();
  await find(row('first', 1n));
  arrivals[0]?.arrive();
  await settled();
  const step = publisher.step([SHARD], { isLook: true, isPrompt: true });
  next('outbox-forget').reject(new Error('no connection'));
  let isOver = false;
  const failing = expect(step)
    .rejects.toThrow('no connection')
    .finally(() => {
      isOver = true;
    });
  await settled();
  expect(isOver).toBe(false);
  next('outbox-read').resolve([row('second', 2n)]);
  await failing;
  const without = publisher.step([], { isLook: false, isPrompt: true });
  next('outbox-forget').resolve([]);
  await without;
  expect(published).toEqual(['first']);
});

test('a shard is busy while a step looks at it, until what the bus has is forgotten', async () => {
  const { publisher, arrivals, next } = open();
  const step = publisher.step([SHARD], { isLook: true });
  expect(publisher.isBusy(SHARD)).toBe(true);
  next('outbox-read').resolve([row('a', 1n)]);
  await step;
  expect(publisher.isBusy(SHARD)).toBe(true);
  arrivals[0]?.arrive();
  await settled();
  expect(publisher.isBusy(SHARD)).toBe(true);
  // Given up, what is done is forgotten at once, without gathering.
  const last = publisher.step([], { isLook: false });
  next('outbox-forget').resolve([]);
  await last;
  expect(publisher.isBusy(SHARD)).toBe(false);
});

test('a shard that is given up does not wait for a bus that hangs', async () => {
  const { publisher, find } = open();
  await find(row('a', 1n));
  await publisher.step([], { isLook: false });
  expect(publisher.isBusy(SHARD)).toBe(true);
  const now = performance.now;
  performance.now = () => now.call(performance) + 6_000;
  try {
    expect(publisher.isBusy(SHARD)).toBe(false);
  } finally {
    performance.now = now;
  }
});
