import type { Due } from './read-due.ts';
import type { Standing } from './rooms.ts';

/** An attempt that was begun and is not written down yet. */
export interface Flight {
  readonly due: Due;
  readonly laneKey: string;
  readonly endpointKey: string;
  readonly token: bigint;
  readonly standing: Standing;
  /** By the monotonic clock. Milliseconds. */
  readonly startedMs: number;
  isOpen: boolean;
  isSlow: boolean;
}

interface Count {
  open: number;
  slow: number;
}

/** After so long an attempt counts as slow. Milliseconds. */
const SLOW_MS = 1_000;
const MIN_KEPT = 64;

/** What this process has under way: requests that are open, and outcomes that are not written down. */
export interface Flights {
  begin(flight: Omit<Flight, 'isOpen' | 'isSlow'>): Flight;
  /** The request has ended; its outcome is still to be written down. */
  land(flight: Flight): void;
  /** Nothing is left of it. */
  end(flight: Flight): void;
  /** Finds those that have become slow. */
  age(nowMs: number): void;
  /** All, whether open or not yet written down. */
  size(): number;
  /** How many there are, those of a standing being open, and how many bytes of bodies are held. */
  load(): { readonly places: Held; readonly bytes: Held };
  ofEndpoint(key: string): { readonly open: number; readonly slow: number };
  ofLane(key: string): ReadonlySet<string>;
  ofShard(shard: number): number;
  get(deliveryId: string): Flight | undefined;
}

/** In all, and by standing: those that are open for long count as slow. */
export type Held = Readonly<Record<Standing | 'all', number>>;

const NONE: Count = { open: 0, slow: 0 };
const EMPTY: ReadonlySet<string> = new Set();

export function createFlights(): Flights {
  const all = new Map<string, Flight>();
  const endpoints = new Map<string, Count>();
  const lanes = new Map<string, Set<string>>();
  const shards = new Map<number, number>();
  const places: Record<Standing, number> = { trusted: 0, new: 0, slow: 0, failing: 0 };
  const bytes = { ...places, all: 0 };
  /** In the order of their beginnings; those that ended are passed over. */
  let young: Flight[] = [];
  let open = 0;

  const countOf = (key: string): Count => {
    const known = endpoints.get(key);
    if (known) return known;
    const fresh = { open: 0, slow: 0 };
    endpoints.set(key, fresh);
    return fresh;
  };
  const standingOf = (flight: Flight): Standing => (flight.isSlow ? 'slow' : flight.standing);

  function land(flight: Flight): void {
    if (!flight.isOpen) return;
    flight.isOpen = false;
    open -= 1;
    places[standingOf(flight)] -= 1;
    const count = countOf(flight.endpointKey);
    count.open -= 1;
    if (flight.isSlow) count.slow -= 1;
    if (count.open === 0) endpoints.delete(flight.endpointKey);
    // One that stays open must not keep the bodies of all that came and went after it.
    if (young.length > MIN_KEPT && young.length > 2 * open)
      young = young.filter((one) => one.isOpen);
  }

  return {
    begin(given) {
      const flight: Flight = { ...given, isOpen: true, isSlow: false };
      const { due, laneKey, endpointKey } = flight;
      all.set(due.id, flight);
      countOf(endpointKey).open += 1;
      const lane = lanes.get(laneKey);
      if (lane) lane.add(due.id);
      else lanes.set(laneKey, new Set([due.id]));
      shards.set(due.shard, (shards.get(due.shard) ?? 0) + 1);
      places[flight.standing] += 1;
      open += 1;
      bytes[flight.standing] += due.bytes;
      bytes.all += due.bytes;
      young.push(flight);
      return flight;
    },
    land,
    end(flight) {
      land(flight);
      const { due, laneKey } = flight;
      if (!all.delete(due.id)) return;
      bytes[standingOf(flight)] -= due.bytes;
      bytes.all -= due.bytes;
      const lane = lanes.get(laneKey);
      lane?.delete(due.id);
      if (lane?.size === 0) lanes.delete(laneKey);
      const left = (shards.get(due.shard) ?? 1) - 1;
      if (left === 0) shards.delete(due.shard);
      else shards.set(due.shard, left);
    },
    age(nowMs) {
      let passed = 0;
      for (const flight of young) {
        if (flight.isOpen && nowMs - flight.startedMs < SLOW_MS) break;
        passed += 1;
        if (!flight.isOpen) continue;
        places[standingOf(flight)] -= 1;
        bytes[standingOf(flight)] -= flight.due.bytes;
        flight.isSlow = true;
        places.slow += 1;
        bytes.slow += flight.due.bytes;
        countOf(flight.endpointKey).slow += 1;
      }
      if (passed > 0) young = young.slice(passed);
    },
    size: () => all.size,
    load: () => ({ places: { ...places, all: all.size }, bytes }),
    ofEndpoint: (key) => endpoints.get(key) ?? NONE,
    ofLane: (key) => lanes.get(key) ?? EMPTY,
    ofShard: (shard) => shards.get(shard) ?? 0,
    get: (id) => all.get(id),
  };
}
