import { Code, ConnectError } from '@connectrpc/connect';
import { LOCAL_ACTOR } from '../../../deploy/local/clients.ts';
import { DestinationType } from '../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { newestActive } from '../../../services/contract/versions.ts';
import { inBatches } from '../in-batches.ts';
import type { System } from '../system/system.ts';
import { repeatCall } from './repeat-call.ts';

/** A subscription to a path of the sink. */
export interface Subscribed {
  readonly id: bigint;
  readonly trigger: string;
  readonly path: string;
  /** The URL, usually of a path of the sink. */
  readonly url: string;
}

/** A shop of one trial, with its subscriptions. No other trial uses it. */
export interface TrialShop {
  readonly id: number;
  readonly currency: 'GBP';
  readonly destinationId: number;
  readonly subscriptions: readonly Subscribed[];
  readonly paths: ReadonlySet<string>;
  /** Deletes the subscriptions, and their requests in the sink. */
  close(): Promise<void>;
}

/** Maximum number of concurrent calls that create subscriptions. */
const PARALLEL = 10;
const CURRENCY = 'GBP';
let opened = 0;

/** Number of subscriptions by trigger. Each has its own URL. */
export type SubscriptionCounts = Readonly<Record<string, number>>;

export interface ShopOptions {
  /** A shop of the gateway. By default a new shop that only the services know. */
  readonly shopId?: number;
  /** The URL of a path. By default at the sink. */
  readonly urlOf?: (path: string) => string;
}

/** Creates the destination and subscriptions of a shop by RPC. The shop itself is created by the gateway. */
export async function openShop(
  system: System,
  counts: SubscriptionCounts,
  o: ShopOptions = {},
): Promise<TrialShop> {
  opened += 1;
  const trial = opened;
  const id = o.shopId ?? 1_000_000 + trial;
  const urlOf = o.urlOf ?? system.sink.urlOf;
  const shop = { shopId: BigInt(id), actor: LOCAL_ACTOR };
  // The calls that the gateway makes for a new shop.
  const { services } = system;
  await repeatCall(system, 'setting the currency', (options) =>
    services.returns.updateSettings({ ...shop, settings: { currency: CURRENCY } }, options),
  );
  const version = newestActive(new Date());
  await repeatCall(system, 'setting the version', (options) =>
    services.webhooks.setPayloadVersion({ ...shop, version }, options),
  );
  const warehouse = {
    ...shop,
    idempotencyKey: `faults-${trial}`,
    name: 'Warehouse',
    type: DestinationType.WAREHOUSE,
    address: { address1: '1 Sample Street', city: 'London', zip: 'N1 1AA', countryCode: 'GB' },
  };
  const { destination } = await repeatCall(system, 'making a destination', (options) =>
    services.destinations.createDestination(warehouse, options),
  );
  const planned = Object.entries(counts).flatMap(([trigger, count]) =>
    Array.from({ length: count }, (_, at) => ({
      trigger,
      path: `/${id}/${trial}/${trigger}/${at}`,
    })),
  );
  const make = async ({ trigger, path }: (typeof planned)[number]): Promise<Subscribed> => {
    const url = urlOf(path);
    const made = await subscribe(system, { ...shop, trigger, url });
    system.sink.learn(path, made.secret);
    return { trigger, path, url, id: made.id };
  };
  const subscriptions = await inBatches(planned, PARALLEL, make);
  await system.sink.flush();
  const paths = new Set(subscriptions.map(({ path }) => path));
  return {
    id,
    currency: CURRENCY,
    destinationId: Number(destination?.id ?? 0n),
    subscriptions,
    paths,
    async close() {
      await inBatches(subscriptions, PARALLEL, ({ id: subscriptionId }) =>
        repeatCall(system, 'deleting a subscription', (options) =>
          services.webhooks
            .deleteSubscription({ ...shop, subscriptionId }, options)
            .catch(unlessGone),
        ),
      );
      system.sink.arrivals.delete(paths);
    },
  };
}

/**
 * Creates a subscription. When there was no response, an existing subscription with the URL is the result, because each
 * subscription has its own URL.
 */
async function subscribe(
  system: System,
  input: { shopId: bigint; actor: typeof LOCAL_ACTOR; trigger: string; url: string },
): Promise<{ readonly id: bigint; readonly secret: string }> {
  const { webhooks } = system.services;
  const { shopId, actor, url } = input;
  let isRepeat = false;
  return repeatCall(system, 'making a subscription', async (options) => {
    if (isRepeat) {
      const { subscriptions } = await webhooks.listSubscriptions({ shopId, actor }, options);
      const id = subscriptions.find((one) => one.url === url)?.id;
      if (id !== undefined) {
        const made = { shopId, actor, subscriptionId: id };
        const { secrets } = await webhooks.revealSecret(made, options);
        return { id, secret: secrets[0]?.value ?? '' };
      }
    }
    isRepeat = true;
    const answer = await webhooks.createSubscription({ ...input, topic: 'return' }, options);
    return { id: answer.subscription?.id ?? 0n, secret: answer.secret };
  });
}

/** Ignores "not found", because a repeated deletion may have succeeded before. */
function unlessGone(error: unknown): void {
  if (!(error instanceof ConnectError && error.code === Code.NotFound)) throw error;
}
