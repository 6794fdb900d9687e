import type { AttemptOutcome } from '../../sender/outcome.ts';
import {
  limitAfterFailure,
  MAX_IN_FLIGHT,
  raisedLimit,
  START_IN_FLIGHT,
} from './in-flight-limit.ts';

/** How many attempts an endpoint may have in flight, and whether its circuit is open. Times by the retry clock, ms. */
export interface EndpointHealth {
  /** See `in-flight-limit.ts`. Stored as `flight_cap`. */
  readonly maxInFlight: number;
  /** Failures since the last success, and when the first of them was. */
  readonly failures: number;
  readonly failingSinceMs: number | null;
  /** The first deliveries that failed since then. Contains only as many as are necessary to open the circuit. */
  readonly failed: readonly string[];
  readonly circuit: Circuit | null;
}

/** An open circuit. Only probes are sent to the endpoint, as in the state that others call half-open. */
export interface Circuit {
  readonly openedAtMs: number;
  /** When the next probe is due, unless the oldest delivery is due earlier. */
  readonly pausedUntilMs: number;
}

/** A circuit opens after this many failures in a row, of this many deliveries, over at least this time. */
const OPEN_FAILURES = 10;
const OPEN_DELIVERIES = 3;
const OPEN_AFTER_MS = 5_000;

/** The pause between two probes is a tenth of the outage, within these bounds. */
const PROBE_SHARE = 0.1;
const MIN_PROBE_MS = 30_000;
const MAX_PROBE_MS = 600_000;

export const NEW_ENDPOINT: EndpointHealth = {
  maxInFlight: START_IN_FLIGHT,
  failures: 0,
  failingSinceMs: null,
  failed: [],
  circuit: null,
};

/** The effect of an attempt on the health of its endpoint. */
export interface AttemptEffect {
  readonly result: AttemptOutcome['result'];
  readonly status: number;
  readonly deliveryId: string;
  /** By the retry clock. Milliseconds. */
  readonly atMs: number;
}

/**
 * Returns the health of an endpoint after an attempt. A success closes the circuit, and enough failures in a row open it.
 * Both also change the limit of attempts in flight. Returns the same object when the health did not change.
 */
export function afterAttempt(health: EndpointHealth, effect: AttemptEffect): EndpointHealth {
  return effect.result === 'delivered' ? afterSuccess(health) : afterFailure(health, effect);
}

function afterSuccess(health: EndpointHealth): EndpointHealth {
  if (health.circuit) return NEW_ENDPOINT;
  if (health.maxInFlight === MAX_IN_FLIGHT && health.failures === 0) return health;
  return { ...NEW_ENDPOINT, maxInFlight: raisedLimit(health.maxInFlight) };
}

function afterFailure(health: EndpointHealth, effect: AttemptEffect): EndpointHealth {
  const failures = health.failures + 1;
  // The time is never later than this failure, even if the database's clock was set back in between.
  const failingSinceMs = Math.min(health.failingSinceMs ?? effect.atMs, effect.atMs);
  const failed =
    health.failed.length >= OPEN_DELIVERIES || health.failed.includes(effect.deliveryId)
      ? health.failed
      : [...health.failed, effect.deliveryId];
  const isDown =
    failures >= OPEN_FAILURES &&
    failed.length >= OPEN_DELIVERIES &&
    effect.atMs - failingSinceMs >= OPEN_AFTER_MS;
  return {
    maxInFlight: limitAfterFailure(health.maxInFlight, effect),
    failures,
    failingSinceMs,
    failed,
    circuit: health.circuit || isDown ? paused(health.circuit, effect) : null,
  };
}

function paused(circuit: Circuit | null, { atMs }: AttemptEffect): Circuit {
  const openedAtMs = Math.min(circuit?.openedAtMs ?? atMs, atMs);
  return { openedAtMs, pausedUntilMs: atMs + probePause(atMs - openedAtMs) };
}

/** The maximum number of open requests of an endpoint: one probe while its circuit is open. */
export function maxOpen(health: EndpointHealth): number {
  return health.circuit ? 1 : health.maxInFlight;
}

/** The same health with the next probe at this time, unless it is earlier. @param atMs by the retry clock. */
export function withProbeAt(health: EndpointHealth, atMs: number): EndpointHealth {
  const { circuit } = health;
  if (!circuit || circuit.pausedUntilMs <= atMs) return health;
  return { ...health, circuit: { ...circuit, pausedUntilMs: atMs } };
}

/** Tolerance that is greater than the difference between the clocks of two processes. Milliseconds. */
const TOLERANCE_MS = 2_000;

/**
 * Returns the time of the next probe. If the stored time is further away than any pause, the database's clock was set
 * back, and the probe is due.
 *
 * @param nowMs by the retry clock.
 */
export function pausedUntil({ openedAtMs, pausedUntilMs }: Circuit, nowMs: number): number {
  const longestMs = probePause(nowMs - openedAtMs) + TOLERANCE_MS;
  return pausedUntilMs - nowMs <= longestMs ? pausedUntilMs : nowMs;
}

/** Returns the pause between two probes of an open circuit. Milliseconds. */
export function probePause(openForMs: number): number {
  return Math.min(Math.max(openForMs * PROBE_SHARE, MIN_PROBE_MS), MAX_PROBE_MS);
}
