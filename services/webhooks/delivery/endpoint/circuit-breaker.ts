import type { SendResult } from '../../sender/send-result.ts';

/**
 * How many requests to an endpoint may be open, and whether its circuit is open. All times are by the retry clock, in
 * milliseconds.
 */
export interface EndpointHealth {
  /** Maximum number of open requests. The column is `flight_cap`. */
  readonly maxInFlight: number;
  /** Number of failures since the last success, and the time of the first of them. */
  readonly failures: number;
  readonly failingSinceMs: number | null;
  /**
   * The first deliveries that failed since the last success. The list has only as many as are needed to open the
   * circuit.
   */
  readonly failed: readonly string[];
  readonly circuit: Circuit | null;
}

/** An open circuit. The endpoint gets only probes, as in the state that other systems call half-open. */
interface Circuit {
  readonly openedAtMs: number;
  /** The time of the next probe. When the oldest delivery is due earlier, the probe is made then. */
  readonly pausedUntilMs: number;
}

/** Conditions for opening a circuit: this many failures in a row, of this many deliveries, over at least this time. */
const OPEN_FAILURES = 10;
const OPEN_DELIVERIES = 3;
const OPEN_AFTER_MS = 5_000;

/** The pause between two probes: a part of the outage so far, within bounds. */
const PROBE_SHARE = 0.1;
const MIN_PROBE_MS = 30_000;
const MAX_PROBE_MS = 600_000;

/**
 * The first value and the maximum of an endpoint's limit of open requests. The limit has its first value again
 * after the circuit closes, and after the subscription is activated (`queue-changes.ts`).
 */
const START_IN_FLIGHT = 2;
export const MAX_IN_FLIGHT = 8;

export const NEW_ENDPOINT: EndpointHealth = {
  maxInFlight: START_IN_FLIGHT,
  failures: 0,
  failingSinceMs: null,
  failed: [],
  circuit: null,
};

/** The effect of an attempt on the health of its endpoint. */
export interface AttemptEffect {
  readonly kind: SendResult['kind'];
  readonly status: number;
  readonly deliveryId: string;
  /** When the attempt ended, by the retry clock. Milliseconds. */
  readonly atMs: number;
}

/**
 * Returns the health of an endpoint after an attempt. A success closes the circuit; then `queue/queue-loader.ts` sends
 * the backlog. Enough failures in a row open the circuit.
 * Both also change the limit of attempts in flight. Returns the same object when nothing changed.
 */
export function afterAttempt(health: EndpointHealth, effect: AttemptEffect): EndpointHealth {
  return effect.kind === 'delivered' ? afterSuccess(health) : afterFailure(health, effect);
}

function afterSuccess(health: EndpointHealth): EndpointHealth {
  if (health.circuit) return NEW_ENDPOINT;
  if (health.maxInFlight === MAX_IN_FLIGHT && health.failures === 0) return health;
  return { ...NEW_ENDPOINT, maxInFlight: raisedLimit(health.maxInFlight) };
}

function afterFailure(health: EndpointHealth, effect: AttemptEffect): EndpointHealth {
  const failures = health.failures + 1;
  // At the latest the time of this failure, because the database's clock may have been set back since the first
  // failure.
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

/** The maximum number of open requests to an endpoint. It is one probe while its circuit is open. */
export function maxOpen(health: EndpointHealth): number {
  return health.circuit ? 1 : health.maxInFlight;
}

/**
 * Returns the health with the next probe at this time. A probe that is due earlier stays. @param atMs by the retry
 * clock.
 */
export function withProbeAt(health: EndpointHealth, atMs: number): EndpointHealth {
  const { circuit } = health;
  if (!circuit || circuit.pausedUntilMs <= atMs) return health;
  return { ...health, circuit: { ...circuit, pausedUntilMs: atMs } };
}

/** Tolerance for the difference between the clocks of two processes, which is smaller. Milliseconds. */
const TOLERANCE_MS = 2_000;

/**
 * Returns the time of the next probe. A stored time that is further away than any pause shows that the database's clock
 * was set back. Then the probe is due now.
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

/** Returns the limit after a success: one more, up to the maximum. */
function raisedLimit(maxInFlight: number): number {
  return Math.min(maxInFlight + 1, MAX_IN_FLIGHT);
}

/** Returns the limit after a failure. A timeout, a 429 or a 5xx halves it. Other failures do not change it. */
function limitAfterFailure(
  maxInFlight: number,
  { kind, status }: Pick<SendResult, 'kind' | 'status'>,
): number {
  const isOverload = kind === 'timeout' || kind === 'throttled' || status >= 500;
  return isOverload ? Math.max(Math.floor(maxInFlight / 2), 1) : maxInFlight;
}
