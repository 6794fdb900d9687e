import { setTimeout as sleep } from 'node:timers/promises';
import { LOCAL_ACTOR } from '../../../deploy/local/clients.ts';
import { inParallel } from '../../../deploy/local/demo/in-parallel.ts';
import type { NodeOptions } from '../../kit/process.ts';
import { startWorker, type Worker } from '../child.ts';
import type { Bench } from '../row.ts';
import type { PublisherMethods } from './publishing.ts';
import type { Arrivals, Receivers, SinkMethods } from './sink.ts';

/** Maximum number of concurrent calls that create subscriptions. */
const PARALLEL = 16;
/** Time limit until deliveries in flight have arrived. Milliseconds. */
const TIMEOUT_MS = 60_000;

/** Both ends of the webhook path: the publisher of events, and the receiver of deliveries. */
export interface Hooks {
  readonly publisher: Worker<PublisherMethods>;
  readonly sink: Worker<SinkMethods>;
  readonly both: readonly [Worker<PublisherMethods>, Worker<SinkMethods>];
  arrivals(): Promise<Arrivals>;
  /**
   * Waits until this many deliveries have arrived since the sink started.
   *
   * @throws Error when they do not arrive in time.
   */
  untilReceived(count: number): Promise<void>;
  stop(): Promise<void>;
}

export interface HookOptions {
  /** Number of subscriptions of each shop. An event has as many deliveries. */
  readonly perShop?: number;
  readonly receivers?: Receivers;
}

/** Starts publisher and sink, and subscribes each shop to `return.closed`. */
export async function startHooks(
  bench: Bench,
  shops: readonly bigint[],
  { perShop = 1, receivers = {} }: HookOptions = {},
): Promise<Hooks> {
  const { platform } = bench;
  const publisher = {
    args: ['test/bench/ends/publisher.ts'],
    env: { DATABASE_URL: platform.urlOf('returns') },
  };
  return startEnds({ publisher, receivers, perShop }, async (origin, sink) => {
    await sink.call('learn', await subscribe(bench, { shops, perShop, origin }));
  });
}

interface EndOptions {
  readonly publisher: Pick<NodeOptions, 'args' | 'env'>;
  readonly receivers: Receivers;
  /** Number of deliveries of an event. */
  readonly perShop: number;
}

/** Starts publisher and sink, and calls `subscribe` with the sink's origin. */
export async function startEnds(
  o: EndOptions,
  subscribe: (origin: string, sink: Worker<SinkMethods>) => Promise<void>,
): Promise<Hooks> {
  const { perShop, receivers } = o;
  const sink = startWorker<SinkMethods>({ name: 'sink', args: ['test/bench/ends/sink.ts'] });
  const publisher = startWorker<PublisherMethods>({ name: 'publisher', ...o.publisher });
  const port = await sink.call('listen', receivers);
  await subscribe(`${receivers.certificate ? 'https' : 'http'}://127.0.0.1:${port}`, sink);
  let received = 0;
  sink.onReceived((count) => {
    received = count;
    publisher.call('received', Math.floor(count / perShop)).catch(() => {});
  });
  return {
    publisher,
    sink,
    both: [publisher, sink],
    arrivals: () => sink.call('arrivals', undefined),
    async untilReceived(count) {
      for (const end = performance.now() + TIMEOUT_MS; received < count; await sleep(20)) {
        if (performance.now() > end) {
          throw new Error(`${count - received} of ${count} deliveries did not arrive`);
        }
      }
    },
    async stop() {
      await Promise.all([sink.stop(), publisher.stop()]);
    },
  };
}

/** Subscribes the paths, and returns their secrets by path. */
async function subscribe(
  { platform }: Bench,
  o: { readonly shops: readonly bigint[]; readonly perShop: number; readonly origin: string },
): Promise<Map<string, string>> {
  const secrets = new Map<string, string>();
  const subscriptions = o.shops.flatMap((shopId) =>
    Array.from({ length: o.perShop }, (_, nth) => ({ shopId, path: `/hooks/${shopId}/${nth}` })),
  );
  await inParallel(subscriptions, PARALLEL, async ({ shopId, path }) => {
    const { secret } = await platform.services.webhooks.createSubscription({
      shopId,
      actor: LOCAL_ACTOR,
      topic: 'return',
      trigger: 'return.closed',
      url: `${o.origin}${path}`,
    });
    secrets.set(path, secret);
  });
  return secrets;
}
