import type pg from 'pg';
import type { ShardHolder } from '../../platform/shards.ts';
import type { Announcement } from './announce.ts';
import { type Board, type LoadedLane, MAX_LANES, rouse } from './board.ts';
import type { Flights } from './flights.ts';
import { endpointKeyOf, type LaneRef, laneKeyOf, shardOf } from './lane.ts';
import { createLaneParker } from './lane-parker.ts';
import { findLanes, findNextReady, findReadyLanes, wakeLanesOf } from './lanes.ts';
import type { RetryClock } from './retry-clock.ts';

export interface LaneKeeperOptions {
  readonly pool: pg.Pool;
  readonly clock: RetryClock;
  readonly board: Board;
  readonly flights: Flights;
  readonly shards: ShardHolder;
  /** A person has seen to an endpoint. */
  readonly onReset: (endpoint: { shopId: bigint; endpointId: bigint }) => void;
  /** There is work for a step. */
  readonly onWork: () => void;
}

/** Loads lanes that have become ready, and lets go of those that have nothing due. */
export interface LaneKeeper {
  /** Lets go of lanes whose shard is lost, loads those that are ready. */
  load(): Promise<void>;
  /** Lets go of lanes that are idle, or in the way of others. Says when the next step is due by itself. Milliseconds. */
  park(): Promise<number>;
  /** Lets go of lanes that must wait. Milliseconds. */
  postpone(lanes: readonly LoadedLane[], pauseMs: number): Promise<void>;
  hear(announcement: Announcement): void;
  /** The circuit of an endpoint closed: what was held back is due. */
  release(endpoint: { shopId: bigint; endpointId: bigint }): void;
  /** The retry clock, as the database keeps it. */
  retryNowMs(): number;
}

/** In case a notification was lost. */
const POLL_MS = 5_000;
const PARK_EVERY_MS = 100;

export function createLaneKeeper(o: LaneKeeperOptions): LaneKeeper {
  const { board, shards } = o;
  const heard = new Map<string, LaneRef>();
  /** Endpoints whose circuit closed, and whose lanes are still to be told. */
  const released = new Map<string, { shopId: bigint; endpointId: bigint }>();
  let heldBefore = '';
  let scanAtMs = 0;
  let parkAtMs = 0;
  /** From the monotonic clock to the database's; its own until it was asked. */
  let skewMs = Date.now() - performance.now();

  const retryNowMs = (): number => performance.now() + skewMs + o.clock.offsetMs();
  const parker = createLaneParker({
    ...o,
    retryNowMs,
    onReadyAt: scanBy,
    onMaybeReady: () => {
      scanAtMs = Math.min(scanAtMs, performance.now() + PARK_EVERY_MS);
    },
  });

  function letGo(held: readonly number[]): void {
    const now = held.toSorted((a, b) => a - b).join();
    if (now === heldBefore) return;
    heldBefore = now;
    scanAtMs = 0;
    board.keepOnly(held);
  }

  async function scan(held: readonly number[]): Promise<void> {
    const asked = performance.now();
    const offsetMs = o.clock.offsetMs();
    scanAtMs = asked + POLL_MS;
    // First who called: the others may be many, and wait for something else.
    if (heard.size > 0) await loadHeard(held);
    // Before those that are ready are looked for: one that becomes so between the two is found by both.
    const { nowMs, nextMs } = await findNextReady(o.pool, { shards: held, offsetMs });
    skewMs = nowMs - offsetMs - performance.now();
    if (nextMs !== null) scanBy(nextMs);
    const limit = MAX_LANES - board.lanes.size;
    if (limit > 0) {
      const except = [...board.lanes.values()];
      const found = await findReadyLanes(o.pool, { shards: held, except, limit, offsetMs });
      found.forEach(board.add);
      if (found.length === limit) scanAtMs = Math.min(scanAtMs, asked + PARK_EVERY_MS);
    }
  }

  /** @param retryMs by the retry clock. */
  function scanBy(retryMs: number): void {
    scanAtMs = Math.min(scanAtMs, performance.now() + Math.max(0, retryMs - retryNowMs()) + 1);
  }

  async function loadHeard(held: readonly number[]): Promise<void> {
    const limit = MAX_LANES - board.lanes.size;
    if (limit <= 0) return;
    const lanes = [...heard.values()].slice(0, limit);
    for (const lane of lanes) heard.delete(laneKeyOf(lane));
    const offsetMs = o.clock.offsetMs();
    const found = await findLanes(o.pool, lanes, { shards: held, limit, offsetMs });
    found.forEach(board.add);
  }

  /** In a step, so that none of them is parked at the same time for what was so until now. */
  async function wakeReleased(): Promise<void> {
    for (const [key, endpoint] of [...released]) {
      if (await wakeLanesOf(o.pool, endpoint, o.clock.offsetMs())) continue;
      released.delete(key);
    }
    scanAtMs = 0;
  }

  function hearOf(key: string): void {
    const [shop = '', subscription = ''] = key.split(':');
    if (heard.size >= MAX_LANES) scanAtMs = 0;
    else heard.set(key, { shopId: BigInt(shop), subscriptionId: BigInt(subscription) });
  }

  return {
    retryNowMs,
    async load() {
      const held = shards.held();
      letGo(held);
      if (released.size > 0) await wakeReleased();
      if (held.length === 0) return;
      if (performance.now() >= scanAtMs) await scan(held);
      else if (heard.size > 0) await loadHeard(held);
    },
    async park() {
      const now = performance.now();
      if (now >= parkAtMs && board.lanes.size > 0) {
        await parker.parkIdle();
        await parker.makeRoom();
        parkAtMs = performance.now() + PARK_EVERY_MS;
      }
      if (heard.size > 0 || board.hungry().length > 0) return PARK_EVERY_MS / 4;
      const isBusy = board.lanes.size > 0 || released.size > 0;
      const untilPark = isBusy ? PARK_EVERY_MS : POLL_MS;
      return Math.max(0, Math.min(scanAtMs - performance.now(), untilPark));
    },
    postpone: parker.postpone,
    hear({ keys, isChange, reset }) {
      if (reset) {
        if (shards.tokenOf(shardOf(reset.endpointId)) === undefined) return;
        o.onReset(reset);
        released.set(endpointKeyOf(reset), reset);
        o.onWork();
        return;
      }
      if (keys.length === 0) {
        scanAtMs = 0;
        for (const lane of board.lanes.values()) rouse(lane);
      }
      for (const key of keys) {
        const lane = board.lanes.get(key);
        if (lane && isChange) board.remove(key);
        if (lane && !isChange) rouse(lane);
        else hearOf(key);
      }
      o.onWork();
    },
    release(endpoint) {
      released.set(endpointKeyOf(endpoint), endpoint);
      o.onWork();
    },
  };
}
