import { describe, expect, test } from '@jest/globals';
import type { WaitingEvent } from './store.ts';
import { OutboxWindow } from './window.ts';

const MAX_PER_KEY = 250;

function eventsOf(key: string, from: number, count: number, bytes = 10): WaitingEvent[] {
  return Array.from({ length: count }, (_, n) => ({
    shopId: 1n,
    day: '2026-11-21',
    position: BigInt(from + n),
    shard: 0,
    bytes,
    record: { key, value: new Uint8Array(), headers: {} },
  }));
}

describe('outbox window', () => {
  const open = () => {
    const window = new OutboxWindow();
    window.keep([0]);
    const take = (events: WaitingEvent[], after?: bigint, isLeft = false) => {
      const next = after === undefined ? undefined : { shard: 0, after, snapshot: '1:9:' };
      return window.take([{ shard: 0, events, next, isLeft }]);
    };
    const lane = (key: string) => {
      const found = window.lanes.get(key);
      if (!found) throw new Error(`nothing of ${key} is held`);
      return found;
    };
    return { window, take, lane };
  };
  const cursorOf = (window: OutboxWindow) => window.request([0]).cursors[0]?.after;

  test('a full page is followed by the next, the end of a shard by its beginning', () => {
    const { window, take } = open();
    expect(take(eventsOf('a', 1, 3), 3n)).toBe(true);
    expect(cursorOf(window)).toBe(3n);
    expect(take(eventsOf('a', 4, 1))).toBe(false);
    expect(cursorOf(window)).toBe(0n);
    expect(window.request([0]).exceptPositions).toEqual([1n, 2n, 3n, 4n]);
  });

  test('of a key with a large backlog some is held; nothing behind the rest overtakes it', () => {
    const { window, take, lane } = open();
    take([...eventsOf('hot', 1, MAX_PER_KEY + 5), ...eventsOf('cold', 900, 1)], 900n);
    expect(lane('hot').waiting).toHaveLength(MAX_PER_KEY);
    expect(lane('cold').waiting).toHaveLength(1);
    window.begin(lane('hot'), MAX_PER_KEY);
    window.accept(lane('hot'));
    expect(window.request([0]).exceptKeys).toEqual(['hot']);
    take(eventsOf('hot', 950, 1));
    expect(window.lanes.has('hot')).toBe(false);
    // From the beginning again, and in order.
    take(eventsOf('hot', MAX_PER_KEY + 1, 5));
    expect(lane('hot').waiting[0]?.position).toBe(BigInt(MAX_PER_KEY + 1));
  });

  test('a pass keeps to the moment at which it began, and what it left calls for another', () => {
    const { window, take } = open();
    expect(window.request([0]).cursors[0]?.snapshot).toBeUndefined();
    take(eventsOf('a', 1, 3), 3n);
    expect(window.request([0]).cursors[0]?.snapshot).toBe('1:9:');
    expect(take([], undefined, true)).toBe(true);
    expect(window.request([0]).cursors[0]).toEqual({ shard: 0, after: 0n, snapshot: undefined });
  });

  test('what was refused is the next of its key again', () => {
    const { window, take, lane } = open();
    take(eventsOf('a', 1, 3));
    window.begin(lane('a'), 2);
    window.refuse(lane('a'), 0);
    expect(lane('a').waiting.map(({ position }) => position)).toEqual([1n, 2n, 3n]);
  });

  test('counts as held until its pointer is deleted', () => {
    const { window, take, lane } = open();
    take(eventsOf('a', 1, 1));
    window.begin(lane('a'), 1);
    window.accept(lane('a'));
    expect([window.isEmpty(), window.done().length]).toEqual([false, 1]);
    window.forget(1);
    expect([window.isEmpty(), window.done().length]).toEqual([true, 0]);
  });

  test('a shard is busy while another relay would publish something of it again', () => {
    const { window, take, lane } = open();
    take(eventsOf('a', 1, 2));
    expect(window.isBusy(0)).toBe(false);
    window.begin(lane('a'), 1);
    expect([window.isBusy(0), window.isBusy(1)]).toEqual([true, false]);
    window.accept(lane('a'));
    expect(window.isBusy(0)).toBe(true);
    window.forget(1);
    expect(window.isBusy(0)).toBe(false);
  });

  test('a shard that is lost is forgotten, but for what is on its way', () => {
    const { window, take, lane } = open();
    take([...eventsOf('sent', 1, 2), ...eventsOf('waiting', 3, 2)]);
    const sent = lane('sent');
    window.begin(sent, 1);
    window.keep([]);
    expect([...window.lanes.keys()]).toEqual(['sent']);
    window.refuse(sent, 0);
    expect(window.isEmpty()).toBe(true);
  });

  test('large events fill it', () => {
    const { window, take } = open();
    take(eventsOf('a', 1, 16, 1024 * 1024));
    expect(window.hasRoom()).toBe(false);
  });
});
