import { describe, expect, test } from '@jest/globals';
import { createBoard } from './board.ts';
import { type EndpointHealth, NEW_ENDPOINT } from './endpoint.ts';
import type { StoredLane } from './lanes.ts';

const DOWN: EndpointHealth = {
  flightCap: 1,
  failures: 10,
  failingSinceMs: 0,
  failed: [],
  circuit: { openedAtMs: 0, heldUntilMs: 30_000 },
};

const laneOf = (n: bigint, health = DOWN): StoredLane => ({
  key: `1:${n}`,
  shopId: 1n,
  subscriptionId: n,
  endpointId: 5n,
  endpointKey: '1:5',
  shard: 5,
  health,
});

const SUCCESS = { result: 'delivered', status: 200, deliveryId: 'd', atMs: 40_000 } as const;

describe('how an endpoint fares', () => {
  test('is remembered while an attempt is open, though its only lane is changed', () => {
    const board = createBoard();
    board.add(laneOf(1n));
    const leave = board.enter('1:5');
    board.remove('1:1');
    expect(board.note('1:5', SUCCESS)).toEqual({ health: NEW_ENDPOINT, isClosed: true });
    board.add(laneOf(1n));
    leave();
    expect(board.health('1:5')).toEqual(NEW_ENDPOINT);
    board.remove('1:1');
    expect(board.health('1:5')).toBeUndefined();
  });

  test('is read anew when its shard was away, whatever an older attempt is about to say', () => {
    const board = createBoard();
    board.add(laneOf(1n));
    const leave = board.enter('1:5');
    board.keepOnly([4]);
    expect(board.lanes.size).toBe(0);
    board.add(laneOf(1n, NEW_ENDPOINT));
    leave();
    expect(board.health('1:5')).toEqual(NEW_ENDPOINT);
  });

  test('is forgotten when a person has seen to it, and its lanes are looked at', () => {
    const board = createBoard();
    board.add(laneOf(1n));
    for (const lane of board.hungry()) lane.isHungry = false;
    board.reset('1:5');
    expect(board.health('1:5')).toEqual(NEW_ENDPOINT);
    expect(board.hungry()).toHaveLength(1);
  });
});

describe('a lane', () => {
  test('that is known with another endpoint is replaced, and read from the beginning', () => {
    const board = createBoard();
    board.add(laneOf(1n));
    for (const lane of board.hungry()) lane.isHungry = false;
    board.add(laneOf(1n));
    expect(board.hungry()).toEqual([]);
    board.add({ ...laneOf(1n, NEW_ENDPOINT), endpointId: 6n, endpointKey: '1:6', shard: 6 });
    expect(board.hungry()).toMatchObject([{ endpointId: 6n, shard: 6 }]);
    expect(board.health('1:5')).toBeUndefined();
    expect(board.health('1:6')).toEqual(NEW_ENDPOINT);
  });
});
