import { addedJitter } from '../../../platform/process/backoff.ts';
import type { NetworkLimit, NetworkLimited } from '../../sender/network-limit.ts';
import { endpointKeyOf } from '../queue/queue-ref.ts';

interface Endpoint {
  readonly shopId: bigint;
  readonly endpointId: bigint;
}

export interface HoldOptions {
  readonly limit: Pick<NetworkLimit, 'onProven' | 'waitMs'>;
  /** Called when an endpoint no longer has to wait. */
  readonly onReleased: (endpoint: Endpoint) => void;
}

/** Maximum number of endpoints that are remembered. */
const MAX_HELD = 20_000;

/**
 * The endpoints whose deliveries wait, because their receiver has never answered 2xx and is at its limit. The
 * whole endpoint waits, so that nothing is read and rejected again and again, and no small delivery overtakes a large
 * one.
 */
export class NetworkHolds {
  readonly #limit: HoldOptions['limit'];
  readonly #held = new Map<string, Endpoint & Pick<NetworkLimited, 'limit' | 'network'>>();

  constructor({ limit, onReleased }: HoldOptions) {
    this.#limit = limit;
    limit.onProven((network) => {
      for (const [key, held] of this.#held) {
        if (held.network !== network) continue;
        this.#held.delete(key);
        onReleased(held);
      }
    });
  }

  hold({ shopId, endpointId }: Endpoint, { network, limit }: NetworkLimited): void {
    if (this.#held.size >= MAX_HELD) this.#held.clear();
    this.#held.set(endpointKeyOf({ shopId, endpointId }), { shopId, endpointId, network, limit });
  }

  /**
   * How long the deliveries of an endpoint must wait; 0 when they may be tried. The time is partly random, so that each
   * endpoint of a network is sometimes the first. Milliseconds.
   */
  waitMs(endpointKey: string): number {
    const held = this.#held.get(endpointKey);
    if (!held) return 0;
    const waitMs = this.#limit.waitMs(held.limit);
    if (waitMs === 0) this.#held.delete(endpointKey);
    return addedJitter(waitMs);
  }
}
