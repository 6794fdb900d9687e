import { createRequire } from 'node:module';
import { describe, expect, test } from '@jest/globals';
import { skipStaleBatches } from './kafka-stale-batches.ts';

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
