import { afterEach, describe, expect, test } from '@jest/globals';
import { advanceClock, restoreClock } from '../../../test/kit/clock.ts';
import { hasCaughtUp } from './kafka-progress.ts';
import type { PartitionProgress } from './kafka-topics.ts';

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

describe('a group has caught up', () => {
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
