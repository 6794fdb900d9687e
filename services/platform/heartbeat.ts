import { LeaseLost } from './lease-lost.ts';
import type { Logger } from './log.ts';
import { startLoop, type Worker } from './worker.ts';

export interface HeartbeatOptions<L> {
  /** Its name in logs. */
  readonly name: string;
  readonly logger: Logger;
  readonly leaseMs: number;
  /** Renews leases. Returns those that are lost. */
  readonly renew: (leases: readonly L[]) => Promise<readonly L[]>;
}

export interface Heartbeat<L> {
  /**
   * Renews the leases while the work runs. The signal of the work aborts when `signal` aborts, or with LeaseLost when
   * one of the leases is lost.
   */
  during<T>(
    leases: readonly L[],
    o: { readonly signal?: AbortSignal; readonly work: (signal: AbortSignal) => Promise<T> },
  ): Promise<T>;
}

/** Renewals in the time of one lease, so that a failed one does not lose it. */
const BEATS = 4;

/** Renews all leases of a process that are in use with one statement. Rests while none is. */
export function createHeartbeat<L>({
  name,
  logger,
  leaseMs,
  renew,
}: HeartbeatOptions<L>): Heartbeat<L> {
  const held = new Map<L, AbortController>();
  let beating: Worker | undefined;

  async function beat(): Promise<'idle'> {
    for (const lease of await renew([...held.keys()])) held.get(lease)?.abort(new LeaseLost(name));
    return 'idle';
  }

  return {
    async during(leases, { signal, work }) {
      const lost = new AbortController();
      for (const lease of leases) held.set(lease, lost);
      const everyMs = leaseMs / BEATS;
      beating ??= startLoop({ name, logger, idleMs: everyMs, delayMs: everyMs, step: beat });
      try {
        return await work(signal ? AbortSignal.any([signal, lost.signal]) : lost.signal);
      } finally {
        for (const lease of leases) held.delete(lease);
        if (held.size === 0) {
          const last = beating;
          beating = undefined;
          await last?.stop();
        }
      }
    },
  };
}
