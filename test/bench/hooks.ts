import { setTimeout as sleep } from 'node:timers/promises';
import { LOCAL_ACTOR } from '../../deploy/local/clients.ts';
import { inParallel } from '../../deploy/local/demo/in-parallel.ts';
import { startWorker, type Worker } from './child.ts';
import type { PublisherMethods } from './publisher.ts';
import type { Bench } from './row.ts';
import type { Arrivals, SinkMethods } from './sink.ts';

/** Subscriptions made at the same time. */
const PARALLEL = 16;
/** How long what is on its way may take to arrive. Milliseconds. */
const PATIENCE_MS = 60_000;

/** Both ends of the webhook path: who appends events, and who gets the deliveries. */
export interface Hooks {
  readonly publisher: Worker<PublisherMethods>;
  readonly sink: Worker<SinkMethods>;
  readonly both: readonly [Worker<PublisherMethods>, Worker<SinkMethods>];
  arrivals(): Promise<Arrivals>;
  /** Waits until so many have arrived since the sink began. @throws when they do not. */
  untilReceived(count: number): Promise<void>;
  stop(): Promise<void>;
}

/** Starts publisher and sink, and subscribes each shop to `return.closed` at an address of its own. */
export async function startHooks(bench: Bench, shops: readonly bigint[]): Promise<Hooks> {
  const { platform } = bench;
  const sink = startWorker<SinkMethods>({ name: 'sink', args: ['test/bench/sink.ts'] });
  const publisher = startWorker<PublisherMethods>({
    name: 'publisher',
    args: ['test/bench/publisher.ts'],
    env: { DATABASE_URL: platform.urlOf('returns') },
  });
  const port = await sink.call('listen', undefined);
  await sink.call('learn', await subscribe(bench, shops, `http://127.0.0.1:${port}`));
  let received = 0;
  sink.onTold((count) => {
    received = count;
    publisher.call('received', count).catch(() => {});
  });
  return {
    publisher,
    sink,
    both: [publisher, sink],
    arrivals: () => sink.call('arrivals', undefined),
    async untilReceived(count) {
      for (const end = performance.now() + PATIENCE_MS; received < count; await sleep(20)) {
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

/** Answers the secrets by path. */
async function subscribe(
  { platform }: Bench,
  shops: readonly bigint[],
  origin: string,
): Promise<Map<string, string>> {
  const secrets = new Map<string, string>();
  await inParallel(shops, PARALLEL, async (shopId) => {
    const path = `/hooks/${shopId}`;
    const { secret } = await platform.services.webhooks.createSubscription({
      shopId,
      actor: LOCAL_ACTOR,
      topic: 'return',
      trigger: 'return.closed',
      url: `${origin}${path}`,
    });
    secrets.set(path, secret);
  });
  return secrets;
}
