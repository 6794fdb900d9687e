import { describe, expect, test } from '@jest/globals';
import { createOffsetTracker } from './kafka-offsets.ts';

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
