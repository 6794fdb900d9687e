import { createRequire } from 'node:module';
import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { advanceClock, restoreClock, stopClock } from '../../../test/kit/clock.ts';
import { until } from '../../../test/kit/until.ts';
import type { ReceivedRecord } from '../bus/event-bus.ts';
import { createLogger } from '../telemetry/log.ts';
import { hasCaughtUp } from './kafka.ts';
import { keepMembership } from './membership.ts';
import { RecordBatches } from './record-batches.ts';
import { createSessionTime, isSessionRejection } from './session-time.ts';
import { createOffsetTracker, skipStaleBatches } from './subscription.ts';
import type { PartitionProgress } from './topics.ts';

describe('calls of the handler', () => {
  function pending(key: string) {
    const record: ReceivedRecord = {
      topic: 'events',
      key,
      position: key,
      value: new Uint8Array(1),
      headers: {},
    };
    return { record, done: () => {} };
  }

  /** A `RecordBatches` whose calls last until the test ends them, and the keys of each call. */
  function batchesOf(parallelAfterMs: number, gatherMs = 0) {
    const calls: { keys: string[]; end: () => void }[] = [];
    const batches = new RecordBatches({
      parallelAfterMs,
      gatherMs,
      handle: (records) =>
        new Promise((end) => {
          calls.push({ keys: records.map(({ key }) => key), end });
        }),
    });
    const keys = () => calls.map((call) => call.keys);
    return { batches, calls, keys };
  }

  afterEach(() => {
    jest.restoreAllMocks();
    restoreClock();
  });

  test('wait a moment for records that arrive in parts, and start immediately after another call', async () => {
    const { batches, calls, keys } = batchesOf(60_000, 5);
    // The moment does not pass between the two, however long this takes.
    stopClock();
    for (const key of ['a', 'b']) batches.push([pending(key)]);
    expect(keys()).toEqual([]);
    restoreClock();
    await until(() => calls.length === 1);
    batches.push([pending('c')]);
    expect(keys()).toEqual([['a', 'b']]);
    calls[0]?.end();
    await until(() => calls.length === 2);
    expect(keys()).toEqual([['a', 'b'], ['c']]);
  });

  test('are one while it is new: later records are collected for the next call', async () => {
    const { batches, calls, keys } = batchesOf(60_000);
    for (const key of ['a', 'b', 'c']) batches.push([pending(key)]);
    expect(keys()).toEqual([['a']]);
    calls[0]?.end();
    await until(() => calls.length === 2);
    expect(keys()).toEqual([['a'], ['b', 'c']]);
    calls[1]?.end();
    expect(await batches.stop()).toEqual([]);
  });

  test('run in parallel when one is slow, and later calls do not wait for it', async () => {
    const { batches, calls, keys } = batchesOf(50);
    // The first call counts as new, however long this takes.
    const clock = jest.spyOn(performance, 'now').mockReturnValue(performance.now());
    for (const key of ['a', 'b']) batches.push([pending(key)]);
    expect(keys()).toEqual([['a']]);
    clock.mockRestore();
    await until(() => calls.length === 2);
    calls[1]?.end();
    await until(() => batches.bytes() === 1);
    batches.push([pending('c')]);
    expect(keys()).toEqual([['a'], ['b'], ['c']]);
    calls[0]?.end();
    calls[2]?.end();
    await batches.stop();
  });
});

describe('offset tracker', () => {
  /** A tracker with received offsets, and the functions that complete them. */
  const received = (...offsets: bigint[]) => {
    const tracker = createOffsetTracker();
    const ends = offsets.map((offset) => tracker.begin('t', 0, offset));
    return { tracker, end: (index: number) => ends[index]?.() };
  };
  const due = (tracker: ReturnType<typeof createOffsetTracker>) =>
    tracker.due().map(({ offset }) => offset);

  test('commits only over records without a gap', () => {
    const { tracker, end } = received(5n, 6n, 8n);
    expect(due(tracker)).toEqual(['5']);
    end(1);
    end(2);
    expect(due(tracker)).toEqual([]);
    end(0);
    expect(due(tracker)).toEqual(['9']);
    expect(due(tracker)).toEqual([]);
  });

  test('a failed commit is due again', () => {
    const { tracker, end } = received(0n);
    end(0);
    expect(due(tracker)).toEqual(['1']);
    tracker.redo();
    expect(due(tracker)).toEqual(['1']);
  });

  test('a partition without a record has nothing due, also after a failed commit', () => {
    const { tracker, end } = received(7n);
    end(0);
    tracker.clear();
    expect(tracker.open('t', 0)).toBe(0);
    tracker.redo();
    expect(due(tracker)).toEqual([]);
  });

  test('counts open records by partition', () => {
    const { tracker, end } = received(1n, 2n);
    tracker.begin('t', 1, 1n);
    end(0);
    expect([tracker.open('t', 0), tracker.open('t', 1)]).toEqual([1, 1]);
    tracker.clear();
    expect([tracker.open('t', 0), tracker.open('t', 1)]).toEqual([0, 0]);
  });

  test('a record received later at a lower offset blocks the commit', () => {
    const { tracker, end } = received(100n, 101n, 102n);
    for (const index of [0, 1, 2]) end(index);
    tracker.begin('t', 0, 103n);
    expect(due(tracker)).toEqual(['103']);
    const endLower = tracker.begin('t', 0, 101n);
    expect(due(tracker)).toEqual(['101']);
    endLower();
    expect(due(tracker)).toEqual(['102']);
  });

  test('a record received twice is open until both are completed', () => {
    const { tracker, end } = received(7n, 7n);
    end(0);
    expect(due(tracker)).toEqual(['7']);
    end(1);
    expect(due(tracker)).toEqual(['8']);
  });

  test('a record received before a rebalance completes no record received after it', () => {
    const { tracker, end } = received(0n, 1n);
    tracker.clear();
    const endAgain = [0n, 1n].map((offset) => tracker.begin('t', 0, offset));
    end(0);
    end(1);
    expect(tracker.due()).toEqual([]);
    for (const again of endAgain) again();
    expect(due(tracker)).toEqual(['2']);
  });
});

describe('a group has caught up', () => {
  type Offsets = readonly [start: bigint, end: bigint, committed: bigint];

  /** A topic that returns the next offsets at each query; the last ones repeat. */
  function ask(...answers: readonly (readonly Offsets[])[]) {
    const stopping = new AbortController();
    let nth = 0;
    const progressOf = async (): Promise<PartitionProgress[]> => {
      const answer = answers[Math.min(nth, answers.length - 1)] ?? [];
      nth += 1;
      // The test needs no further responses.
      if (nth >= answers.length) stopping.abort();
      return answer.map(([start, end, committed], partition) => {
        return { partition, start, end, committed };
      });
    };
    return hasCaughtUp({ progressOf }, { group: 'g', topic: 't', signal: stopping.signal });
  }

  afterEach(restoreClock);

  test('when each partition is committed to its end, or is empty', async () => {
    expect(
      await ask([
        [0n, 5n, 5n],
        [0n, 0n, -1n],
      ]),
    ).toBe(true);
  });

  test('not while one partition has uncommitted records', async () => {
    expect(
      await ask([
        [0n, 5n, 5n],
        [0n, 3n, 2n],
      ]),
    ).toBe(false);
    expect(await ask([[0n, 3n, -1n]])).toBe(false);
  });

  test('when it reached the end at the time of the call, although more records have arrived since', async () => {
    expect(await ask([[0n, 5n, 2n]], [[0n, 9n, 4n]], [[0n, 12n, 6n]])).toBe(true);
    expect(await ask([[0n, 5n, 2n]], [[0n, 9n, 4n]])).toBe(false);
  });

  test('when the records before the end no longer exist', async () => {
    expect(await ask([[8n, 8n, 3n]])).toBe(true);
    expect(await ask([[6n, 8n, 3n]])).toBe(false);
  });

  test('not when it does not get there in ten seconds', async () => {
    let asked = 0;
    const progressOf = async (): Promise<PartitionProgress[]> => {
      asked += 1;
      advanceClock(6_000);
      return [{ partition: 0, start: 0n, end: 5n, committed: 2n }];
    };
    const { signal } = new AbortController();
    expect(await hasCaughtUp({ progressOf }, { group: 'g', topic: 't', signal })).toBe(false);
    expect(asked).toBe(3);
  });

  test('not by an offset of a topic that was created again', async () => {
    expect(await ask([[0n, 60n, 5_000n]])).toBe(false);
  });
});

const TOPIC = 't';
const FETCHED = '200';

/** The library's own member of a group, whose broker has records from offset 200. The test calls it after a join. */
function member() {
  skipStaleBatches();
  const require = createRequire(import.meta.url);
  const ConsumerGroup = require('kafkajs/src/consumer/consumerGroup.js');
  const Runner = require('kafkajs/src/consumer/runner.js');
  const received: string[] = [];
  const resolved: string[] = [];
  let onFetch = () => {};
  const nothing = () => {};
  const logger = { namespace: () => logger, debug: nothing, info: nothing, error: nothing };
  const messages = [{ offset: FETCHED }];
  const partitions = [{ partition: 0, highWatermark: '300', messages, abortedTransactions: [] }];
  const fetch = async () => {
    onFetch();
    return { responses: [{ topicName: TOPIC, partitions }] };
  };
  const emitter = { emit: nothing };
  const group = new ConsumerGroup({
    logger,
    instrumentationEmitter: emitter,
    retry: {},
    topics: [TOPIC],
    cluster: {
      refreshMetadataIfNecessary: nothing,
      findTopicPartitionMetadata: () => [{ partitionId: 0, leader: 1 }],
      findBroker: () => ({ fetch }),
    },
  });
  const join = () => {
    group.offsetManager = {
      resolveOffsets: nothing,
      committedOffsets: () => ({ [TOPIC]: { 0: FETCHED } }),
      nextOffset: () => FETCHED,
      resolveOffset: ({ offset }: { offset: string }) => resolved.push(offset),
    };
  };
  group.subscriptionState.assign([{ topic: TOPIC, partitions: [0] }]);
  join();
  const runner = new Runner({
    logger,
    consumerGroup: group,
    instrumentationEmitter: emitter,
    concurrency: 1,
    autoCommit: false,
    eachBatchAutoResolve: false,
    eachBatch: async ({ batch, resolveOffset }: EachBatch) => {
      received.push(batch.firstOffset());
      resolveOffset(batch.lastOffset());
    },
  });
  runner.running = true;
  return {
    received,
    resolved,
    join,
    joinWhileFetching: () => {
      onFetch = join;
    },
    fetch: (): Promise<object[]> => runner.fetch(1),
    handle: (batch: object | undefined): Promise<void> => runner.handleBatch(batch),
  };
}

interface EachBatch {
  readonly batch: { firstOffset(): string; lastOffset(): string };
  readonly resolveOffset: (offset: string) => void;
}

describe('batches of a consumer that joins its group again', () => {
  test('are received when it did not join', async () => {
    const it = member();
    const [batch] = await it.fetch();
    await it.handle(batch);
    expect(it.received).toEqual([FETCHED]);
    expect(it.resolved).toEqual([FETCHED]);
  });

  test('are skipped and change no offset when they were fetched before', async () => {
    const it = member();
    const [stale] = await it.fetch();
    expect(stale).toBeDefined();
    it.join();
    await it.handle(stale);
    expect([it.received, it.resolved]).toEqual([[], []]);
    const [again] = await it.fetch();
    await it.handle(again);
    expect(it.received).toEqual([FETCHED]);
  });

  test('are dropped when it joined while they were being fetched', async () => {
    const it = member();
    it.joinWhileFetching();
    expect(await it.fetch()).toEqual([]);
  });
});

test('the library still has the two methods to replace, and they are replaced once', () => {
  const group = createRequire(import.meta.url)('kafkajs/src/consumer/consumerGroup.js');
  const { heartbeat, joinAndSync } = group.prototype;
  keepMembership();
  const replaced = { ...methods(group) };
  expect(replaced.heartbeat).not.toBe(heartbeat);
  expect(replaced.joinAndSync).not.toBe(joinAndSync);
  keepMembership();
  expect(methods(group)).toEqual(replaced);
});

function methods(group: { prototype: { heartbeat: unknown; joinAndSync: unknown } }) {
  const { heartbeat, joinAndSync } = group.prototype;
  return { heartbeat, joinAndSync };
}

function sessionTime() {
  const lines: string[] = [];
  const destination = { write: (line: string) => lines.push(line) };
  const logger = createLogger({ service: 'test', level: 'warn', destination });
  return { lines, time: createSessionTime(logger) };
}

describe('session time', () => {
  test('is short until brokers reject that, which is logged once', () => {
    const { time, lines } = sessionTime();
    const tried = time.ms();
    expect(tried).toBe(2_000);
    // Two listeners of one process.
    expect([time.rejected(tried), time.rejected(tried)]).toEqual([true, true]);
    expect(time.ms()).toBe(6_000);
    expect(time.rejected(6_000)).toBe(false);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain('group.min.session.timeout.ms=2000');
  });

  test('a rejection is recognised by its type, also as a cause', () => {
    const refusal = Object.assign(new Error('no'), { type: 'INVALID_SESSION_TIMEOUT' });
    expect(isSessionRejection(new Error('outer', { cause: refusal }))).toBe(true);
    expect(isSessionRejection(new Error('other'))).toBe(false);
  });
});
