import type pg from 'pg';
import { type Board, type LoadedLane, MAX_LANES, parkingOf, rouse } from './board.ts';
import type { Flights } from './flights.ts';
import { parkLanes, putBack } from './lanes.ts';
import type { RetryClock } from './retry-clock.ts';

export interface LaneParkerOptions {
  readonly pool: pg.Pool;
  readonly clock: RetryClock;
  readonly board: Board;
  readonly flights: Flights;
  /** The retry clock, as the database keeps it. */
  readonly retryNowMs: () => number;
  /** A lane that was let go of is ready then, by the retry clock. */
  readonly onReadyAt: (retryMs: number) => void;
  /** Lanes that were let go of may be ready already. */
  readonly onMaybeReady: () => void;
}

/** Lets go of lanes, so that others have their turn; the keeper finds them again when they are ready. */
export interface LaneParker {
  /** Parks lanes that have had nothing due for a while. */
  parkIdle(): Promise<void>;
  /** Where there are more lanes than can be looked after: puts those back that come to nothing. */
  makeRoom(): Promise<void>;
  /** Lets go of lanes that have something due and must wait. Milliseconds. */
  postpone(lanes: readonly LoadedLane[], pauseMs: number): Promise<void>;
}

/** How long a lane is kept though nothing is due: busy ones need not be parked and found again. */
const IDLE_MS = 2_500;
const IDLE_HELD_MS = 100;
const IDLE_CROWDED_MS = 10;
const MAX_PARKED_AT_ONCE = 500;
/** When there are more lanes than can be looked after: how long one stays that comes to nothing, and how many go at once. */
const STAY_MS = 1_000;
const MAX_PUT_BACK_AT_ONCE = 250;

export function createLaneParker(o: LaneParkerOptions): LaneParker {
  const { board, flights } = o;

  function isIdle(lane: LoadedLane, now: number): boolean {
    if (lane.isHungry || flights.ofLane(lane.key).size > 0) return false;
    const isHeld = board.health(lane.endpointKey)?.circuit !== null;
    const isCrowded = board.lanes.size > MAX_LANES / 2;
    const patience = isCrowded ? IDLE_CROWDED_MS : isHeld ? IDLE_HELD_MS : IDLE_MS;
    return now - lane.idleSinceMs >= patience;
  }

  /** @param readyMs by the retry clock; null for never, undefined when the lane is not what it was. */
  function settleParked(lane: LoadedLane, readyMs: number | null | undefined): void {
    // It was told meanwhile that something is due.
    if (lane.isHungry && readyMs !== undefined) return;
    if (readyMs === null) board.remove(lane.key);
    else if (readyMs === undefined) {
      board.remove(lane.key);
      o.onMaybeReady();
    } else if (readyMs > o.retryNowMs()) {
      board.remove(lane.key);
      o.onReadyAt(readyMs);
    } else {
      lane.readWholeAtMs = Number.NEGATIVE_INFINITY;
      lane.idleSinceMs = performance.now();
      rouse(lane);
    }
  }

  return {
    async parkIdle() {
      const now = performance.now();
      const idle: LoadedLane[] = [];
      for (const lane of board.lanes.values()) {
        if (isIdle(lane, now)) idle.push(lane);
        if (idle.length === MAX_PARKED_AT_ONCE) break;
      }
      if (idle.length === 0) return;
      const parkings = idle.map((lane) => parkingOf(lane, board.health(lane.endpointKey)));
      const ready = await parkLanes(o.pool, parkings);
      for (const lane of idle) settleParked(lane, ready.get(lane.key));
    },
    async postpone(lanes, pauseMs) {
      for (const lane of lanes) lane.isHungry = false;
      // One with attempts in flight is asked again when it has been idle for a while.
      const free = lanes.filter((lane) => flights.ofLane(lane.key).size === 0);
      if (free.length === 0) return;
      await putBack(o.pool, free, { offsetMs: o.clock.offsetMs(), pauseMs });
      // Those that were notified in the meantime are asked again.
      for (const lane of free) if (!lane.isHungry) board.remove(lane.key);
      o.onReadyAt(o.retryNowMs() + pauseMs);
    },
    // Hanging endpoints by the thousand must not keep away those that answer: who had no turn for a
    // while goes, and comes again after the others.
    async makeRoom() {
      if (board.lanes.size < MAX_LANES) return;
      const before = performance.now() - STAY_MS;
      const late: LoadedLane[] = [];
      for (const lane of board.lanes.values()) {
        if (lane.loadedAtMs > before || flights.ofLane(lane.key).size > 0) continue;
        late.push(lane);
        if (late.length === MAX_PUT_BACK_AT_ONCE) break;
      }
      if (late.length === 0) return;
      await putBack(o.pool, late, { offsetMs: o.clock.offsetMs() });
      for (const lane of late) board.remove(lane.key);
      o.onMaybeReady();
    },
  };
}
