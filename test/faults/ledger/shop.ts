import { Code, ConnectError } from '@connectrpc/connect';
import { LOCAL_ACTOR } from '../../../deploy/local/clients.ts';
import { DestinationType } from '../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { newestActive } from '../../../services/contract/versions.ts';
import { inBatches } from '../in-batches.ts';
import type { System } from '../system/system.ts';
import { insist } from './insist.ts';

/** A subscription at a path of the sink. */
export interface Subscribed {
  readonly id: bigint;
  readonly trigger: string;
  readonly path: string;
  /** The address, usually a path at the sink. */
  readonly url: string;
}

/** A shop of one trial, with its subscriptions; no other trial uses it. */
export interface TrialShop {
  readonly id: number;
  readonly currency: 'GBP';
  readonly destinationId: number;
  readonly subscriptions: readonly Subscribed[];
  readonly paths: ReadonlySet<string>;
  /** Deletes its subscriptions and their arrivals in the sink. */
  close(): Promise<void>;
}

/** A shop has up to a hundred subscriptions: not all are made at once. */
const AT_ONCE = 10;
const CURRENCY = 'GBP';
let opened = 0;

/** Number of subscriptions for each trigger. Each has its own address. */
export type Wanted = Readonly<Record<string, number>>;

export interface ShopOptions {
  /** A shop of the gateway; by default a new one that only the services know. */
  readonly shopId?: number;
  /** The address of a path; by default at the sink. */
  readonly urlOf?: (path: string) => string;
}

/** Makes a shop's destination and subscriptions by RPC. Shops themselves are the gateway's affair. */
export async function openShop(
  system: System,
  wanted: Wanted,
  o: ShopOptions = {},
): Promise<TrialShop> {
  opened += 1;
  const trial = opened;
  const id = o.shopId ?? 1_000_000 + trial;
  const urlOf = o.urlOf ?? system.sink.urlOf;
  const shop = { shopId: BigInt(id), actor: LOCAL_ACTOR };
  // The same calls that the gateway makes for a new shop.
  const { services } = system;
  await insist(system, 'setting the currency', (options) =>
    services.returns.updateSettings({ ...shop, settings: { currency: CURRENCY } }, options),
  );
  const version = newestActive(new Date());
  await insist(system, 'setting the version', (options) =>
    services.webhooks.setPayloadVersion({ ...shop, version }, options),
  );
  const warehouse = {
    ...shop,
    idempotencyKey: `faults-${trial}`,
    name: 'Warehouse',
    type: DestinationType.WAREHOUSE,
    address: { address1: '1 Sample Street', city: 'London', zip: 'N1 1AA', countryCode: 'GB' },
  };
  const { destination } = await insist(system, 'making a destination', (options) =>
    services.destinations.createDestination(warehouse, options),
  );
  const planned = Object.entries(wanted).flatMap(([trigger, count]) =>
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
  const subscriptions = await inBatches(planned, AT_ONCE, make);
  await system.sink.flush();
  const paths = new Set(subscriptions.map(({ path }) => path));
  return {
    id,
    currency: CURRENCY,
    destinationId: Number(destination?.id ?? 0n),
    subscriptions,
    paths,
    async close() {
      await inBatches(subscriptions, AT_ONCE, ({ id: subscriptionId }) =>
        insist(system, 'deleting a subscription', (options) =>
          services.webhooks
            .deleteSubscription({ ...shop, subscriptionId }, options)
            .catch(unlessGone),
        ),
      );
      system.sink.book.forget(paths);
    },
  };
}

/**
 * An unanswered creation may have succeeded. Each subscription has its own address, so an existing one with that
 * address is the result.
 */
async function subscribe(
  system: System,
  wanted: { shopId: bigint; actor: typeof LOCAL_ACTOR; trigger: string; url: string },
): Promise<{ readonly id: bigint; readonly secret: string }> {
  const { webhooks } = system.services;
  const { shopId, actor, url } = wanted;
  let isRepeat = false;
  return insist(system, 'making a subscription', async (options) => {
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
    const answer = await webhooks.createSubscription({ ...wanted, topic: 'return' }, options);
    return { id: answer.subscription?.id ?? 0n, secret: answer.secret };
  });
}

/** A deletion that was not answered may have taken place. */
function unlessGone(error: unknown): void {
  if (!(error instanceof ConnectError && error.code === Code.NotFound)) throw error;
}
