import { describe, expect, test } from '@jest/globals';
import { createOffsetTracker } from './kafka-offsets.ts';

describe('offset tracker', () => {
  const received = (...offsets: bigint[]) => {
    const tracker = createOffsetTracker();
    for (const offset of offsets) tracker.begin('t', 0, offset);
    return tracker;
  };
  const due = (tracker: ReturnType<typeof createOffsetTracker>) =>
    tracker.due().map(({ offset }) => offset);

  test('commits only over records without a gap', () => {
    const tracker = received(5n, 6n, 8n);
    expect(due(tracker)).toEqual(['5']);
    tracker.end('t', 0, 6n);
    tracker.end('t', 0, 8n);
    expect(due(tracker)).toEqual([]);
    tracker.end('t', 0, 5n);
    expect(due(tracker)).toEqual(['9']);
    expect(due(tracker)).toEqual([]);
  });

  test('a commit that failed is due again', () => {
    const tracker = received(0n);
    tracker.end('t', 0, 0n);
    expect(due(tracker)).toEqual(['1']);
    tracker.redo();
    expect(due(tracker)).toEqual(['1']);
  });

  test('counts what is open, by partition', () => {
    const tracker = received(1n, 2n);
    tracker.begin('t', 1, 1n);
    tracker.end('t', 0, 1n);
    expect([tracker.open('t', 0), tracker.open('t', 1)]).toEqual([1, 1]);
    tracker.clear();
    expect([tracker.open('t', 0), tracker.open('t', 1)]).toEqual([0, 0]);
  });
});
