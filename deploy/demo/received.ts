import type { Clients } from '../local/clients.ts';
import { LOCAL_ACTOR } from '../local/clients.ts';

/** A received webhook. */
export interface Webhook {
  readonly received_at: string;
  readonly path: string;
  readonly webhook_id: string;
  readonly event_id: string;
  /** Sequence number among the events of its return. */
  readonly sequence: string;
  /** Whether the signature matches a subscription to this receiver. */
  readonly valid: boolean;
  /** Null after newer payloads have replaced it. */
  payload: unknown;
}

const MAX_WEBHOOKS = 100_000;
const MAX_PAYLOADS = 200;

export class Received {
  readonly #webhooks: Webhook[] = [];

  add(webhook: Webhook): void {
    this.#webhooks.push(webhook);
    if (this.#webhooks.length > MAX_WEBHOOKS) this.#webhooks.shift();
    const old = this.#webhooks.at(-MAX_PAYLOADS - 1);
    if (old) old.payload = null;
  }

  /** Newest first. */
  list(most = MAX_WEBHOOKS): readonly Webhook[] {
    return this.#webhooks.slice(-most).reverse();
  }
}

/**
 * Checks the signature against the secrets of these shops' webhooks to this receiver. It first tries the secrets that it
 * read last. If none matches, it reads all again.
 */
export function matchesSecretOf(clients: Clients, shopIds: readonly number[], receiverUrl: string) {
  let known: readonly string[] = [];
  const ask = async (): Promise<readonly string[]> => {
    const lists = shopIds.map(async (id) => {
      const call = { shopId: BigInt(id), actor: LOCAL_ACTOR };
      const { subscriptions } = await clients.webhooks.listSubscriptions(call);
      const ours = subscriptions.filter(({ url }) => url.startsWith(receiverUrl));
      const answers = ours.map((one) =>
        clients.webhooks.revealSecret({ ...call, subscriptionId: one.id }),
      );
      return (await Promise.all(answers)).flatMap(({ secrets }) => secrets.map((one) => one.value));
    });
    return (await Promise.all(lists)).flat();
  };
  return async (fits: (secret: string) => boolean): Promise<boolean> => {
    if (known.some(fits)) return true;
    known = await ask().catch(() => []);
    return known.some(fits);
  };
}
