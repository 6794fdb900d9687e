import type pg from 'pg';
import type { Logger } from '../../platform/log.ts';
import type { ShardHolder } from '../../platform/shards.ts';
import type { Outcome } from '../sender/outcome.ts';
import { type AttemptOptions, attempt } from './attempt.ts';
import { type Board, type LoadedLane, modeOf, noteRead, standingOf, startOf } from './board.ts';
import { NEW_ENDPOINT } from './endpoint.ts';
import type { Flight, Flights, Held } from './flights.ts';
import { endpointKeyOf, laneKeyOf, shardOf } from './lane.ts';
import { type Due, readDue } from './read-due.ts';
import { createRetrySlots } from './retry-slots.ts';
import { allot, type EndpointRoom, freeFor, freePlaces, type Standing } from './rooms.ts';
import { putOffPause } from './schedule.ts';
import type { EndpointChange, Settled, Settlement } from './settle.ts';
import { createSettler } from './settler.ts';
import type { ShopBytes } from './shop-bytes.ts';

export interface CourierOptions extends AttemptOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly board: Board;
  readonly flights: Flights;
  readonly shards: ShardHolder;
  readonly concurrency: number;
  readonly offsetMs: () => number;
  readonly retryNowMs: () => number;
  /** The circuit of an endpoint closed. */
  readonly onClosed: (endpoint: { shopId: bigint; endpointId: bigint }) => void;
  readonly shopBytes: ShopBytes;
  /** Lanes of a shop that has used its bytes up; to be looked at again after that time. Milliseconds. */
  readonly onWait: (lanes: readonly LoadedLane[], waitMs: number) => Promise<void>;
  /** A request has ended while lanes had more to send. */
  readonly onRoom: () => void;
  /** An attempt could not be made. */
  readonly onPutOff: () => void;
  readonly onSettled: (batch: readonly Settlement[], settled: Settled) => void;
}

/** Takes what is due, sends it, has written down what became of it. */
export interface Courier {
  /** Reads what there is room for, and begins with it. */
  take(): Promise<void>;
  /** Nothing is held against the endpoint any more. */
  reset(endpoint: { shopId: bigint; endpointId: bigint }): void;
  /** For how long the oldest result has not been recorded; 0 when all are. Milliseconds. */
  oldestResultMs(): number;
  /** Resolves when nothing is open and all is written; gives up after these times. Milliseconds. */
  drain(o: { landMs: number; writeMs: number }): Promise<void>;
}

/** Bodies held at once; when endpoints hang, up to twice as many. */
const MAX_BYTES = 32 * 1024 * 1024;
/** Of an endpoint, in a row, whose retries are spread; after more its cap and its circuit bound what is retried. */
const FIRST_FAILURES = 3;

export function createCourier(o: CourierOptions): Courier {
  const { board, flights, shards } = o;
  const open = new Set<Promise<void>>();
  const changes = new Map<string, EndpointChange>();
  const retrySlots = createRetrySlots();
  let hasMore = false;

  const settler = createSettler({
    pool: o.pool,
    logger: o.logger,
    offsetMs: o.offsetMs,
    takeChanges() {
      const taken = [...changes.values()];
      changes.clear();
      return taken;
    },
    onSettled(batch, settled) {
      for (const { due } of batch) {
        const flight = flights.get(due.id);
        if (flight) flights.end(flight);
        const lane = board.lanes.get(laneKeyOf(due));
        if (lane) lane.idleSinceMs = performance.now();
      }
      o.onSettled(batch, settled);
    },
  });

  async function take(): Promise<void> {
    const hungry = await withoutWaiting(board.hungry());
    hasMore = hungry.length > 0;
    if (!hasMore) return;
    const load = flights.load();
    const bytes = freePlaces({ most: MAX_BYTES, ...load.bytes });
    const maxBytes = mapStandings((standing) => freeFor(bytes, standing));
    const given = places(hungry, { held: load.places, maxBytes });
    if (given.size === 0) return;
    const asked = askedOf(given);
    const rows = await read(asked, maxBytes);
    const cameOf = new Map<string, number>();
    const bytesOf = mapStandings(() => 0);
    const waiting = new Set<string>();
    const standings = new Map(asked.map(({ lane, standing }) => [lane.key, standing]));
    for (const row of rows) {
      const key = laneKeyOf(row);
      cameOf.set(key, (cameOf.get(key) ?? 0) + 1);
      bytesOf[standings.get(key) ?? 'failing'] += row.bytes;
      if (!begin(row, key)) waiting.add(key);
    }
    for (const { lane, standing, limit, wakes } of asked) {
      const isFull = cameOf.get(lane.key) === limit;
      const isCut = bytesOf[standing] >= maxBytes[standing];
      if (cameOf.has(lane.key)) board.took(lane, standing);
      lane.isHungry = isFull || isCut || waiting.has(lane.key) || lane.wakes !== wakes;
      lane.idleSinceMs = performance.now();
    }
    hasMore = board.hungry().length > 0;
  }

  /** What a shop has due when its bytes of the minute are used up waits in the table, not here. */
  async function withoutWaiting(lanes: readonly LoadedLane[]): Promise<readonly LoadedLane[]> {
    const waiting = new Set<bigint>();
    // Asked once for each shop: its lanes wait for the same moment, and one statement puts them off.
    for (const [shopId, ofShop] of Map.groupBy(lanes, (lane) => lane.shopId)) {
      const waitMs = o.shopBytes.waitMs(shopId);
      if (waitMs === 0) continue;
      waiting.add(shopId);
      await o.onWait(ofShop, waitMs);
    }
    return lanes.filter(({ shopId }) => !waiting.has(shopId));
  }

  function places(
    hungry: readonly LoadedLane[],
    { held, maxBytes }: { held: Held; maxBytes: Readonly<Record<Standing, number>> },
  ): Map<string, number> {
    const free = freePlaces({ most: o.concurrency, ...held });
    const roomOf = (key: string): EndpointRoom => {
      const room = board.room(key, flights.ofEndpoint(key));
      return maxBytes[room.standing] > 0 ? room : { ...room, free: 0 };
    };
    return allot(hungry, free, { roomOf, turnOf: board.turnOf });
  }

  /** In the order of their turns: when not all can be read, those go first that waited for longest. */
  function askedOf(given: ReadonlyMap<string, number>): Asked[] {
    return [...given].flatMap(([key, limit]) => {
      const lane = board.lanes.get(key);
      if (!lane) return [];
      const { endpointKey, wakes } = lane;
      const { standing } = board.room(endpointKey, flights.ofEndpoint(endpointKey));
      return [{ lane, standing, limit, wakes }];
    });
  }

  function read(
    asked: readonly Asked[],
    maxBytes: Readonly<Record<Standing, number>>,
  ): Promise<Due[]> {
    const now = o.retryNowMs();
    const readings = asked.map(({ lane, standing, limit }) => ({
      shopId: lane.shopId,
      subscriptionId: lane.subscriptionId,
      endpointId: lane.endpointId,
      limit,
      standing,
      mode: modeOf(board.health(lane.endpointKey), now),
      ...startOf(lane),
    }));
    const except = asked.flatMap(({ lane }) => [...flights.ofLane(lane.key)]);
    return readDue(o.pool, readings, { except, maxBytes, offsetMs: o.offsetMs() });
  }

  /** @returns false when it must wait for its shop's bytes. */
  function begin(due: Due, laneKey: string): boolean {
    const lane = board.lanes.get(laneKey);
    const health = lane && board.health(lane.endpointKey);
    // Asked at the last moment: a process that was stopped meanwhile begins nothing.
    const token = shards.tokenOf(due.shard);
    if (!lane || !health || token === undefined || flights.get(due.id)) return true;
    if (!o.shopBytes.take(due.shopId, due.bytes)) return false;
    noteRead(lane, due);
    const { endpointKey } = lane;
    const standing = standingOf(health, flights.ofEndpoint(endpointKey).slow);
    const startedMs = performance.now();
    const flight = flights.begin({ due, laneKey, endpointKey, token, standing, startedMs });
    const leave = board.enter(endpointKey);
    const work = attempt(o, due, token)
      .catch((error: unknown): Settlement => {
        o.logger.error({ err: error, delivery: due.id }, 'attempt could not be made');
        o.onPutOff();
        const pauseMs = putOffPause(o.retryNowMs() - due.queuedAtMs);
        return { due, token, sent: undefined, ended: null, pauseMs };
      })
      .then((settlement) => land(flight, settlement))
      .finally(() => {
        leave();
        open.delete(work);
      });
    open.add(work);
    return true;
  }

  function land(flight: Flight, settlement: Settlement): void {
    flights.land(flight);
    if (settlement.sent) noteHealth(flight, settlement.sent.outcome);
    settler.add(spread(settlement, flight.endpointKey));
    if (hasMore) o.onRoom();
  }

  /** Endpoints that begin to fail at the same time are not tried again at the same time. */
  function spread(settlement: Settlement, endpointKey: string): Settlement {
    const failures = board.health(endpointKey)?.failures ?? 0;
    const isRetried = settlement.sent !== undefined && settlement.ended === null;
    if (!isRetried || failures === 0 || failures > FIRST_FAILURES) return settlement;
    return { ...settlement, pauseMs: retrySlots.take(settlement.pauseMs) };
  }

  function noteHealth({ due, endpointKey, token }: Flight, outcome: Outcome): void {
    const { result, status } = outcome;
    const sign = { result, status, deliveryId: due.id, atMs: o.retryNowMs() };
    const noted = board.note(endpointKey, sign);
    if (!noted) return;
    const { shopId, endpointId, shard } = due;
    changes.set(endpointKey, { shopId, endpointId, shard, token, health: noted.health });
    if (noted.isClosed) o.onClosed({ shopId, endpointId });
  }

  /** What was about to be written of its failures must not come after. */
  function reset({ shopId, endpointId }: { shopId: bigint; endpointId: bigint }): void {
    const endpointKey = endpointKeyOf({ shopId, endpointId });
    const shard = shardOf(endpointId);
    const token = shards.tokenOf(shard);
    if (token === undefined || !board.health(endpointKey)) return;
    board.reset(endpointKey);
    changes.set(endpointKey, { shopId, endpointId, shard, token, health: NEW_ENDPOINT });
  }

  return {
    take,
    reset,
    oldestResultMs: settler.oldestMs,
    async drain({ landMs, writeMs }) {
      await Promise.race([Promise.all(open), after(landMs)]);
      await settler.drain(writeMs);
    },
  };
}

interface Asked {
  readonly lane: LoadedLane;
  readonly standing: Standing;
  readonly limit: number;
  /** How often it had been told that something is due. */
  readonly wakes: number;
}

function mapStandings(of: (standing: Standing) => number): Record<Standing, number> {
  return { trusted: of('trusted'), new: of('new'), slow: of('slow'), failing: of('failing') };
}

function after(ms: number): Promise<void> {
  return new Promise((done) => {
    setTimeout(done, ms).unref();
  });
}
