import { startCarts } from '../../services/carts/start.ts';
import { startDestinations } from '../../services/destinations/start.ts';
import { startDispositions } from '../../services/dispositions/start.ts';
import { startFraud } from '../../services/fraud/start.ts';
import type { EventBus } from '../../services/platform/bus/event-bus.ts';
import type { EventSignatures } from '../../services/platform/bus/event-signature.ts';
import type { ServiceIdentity } from '../../services/platform/identity.ts';
import { parseKeyring } from '../../services/platform/keyring.ts';
import type { RunningService } from '../../services/platform/service.ts';
import { startReturns } from '../../services/returns/start.ts';
import { startWebhooks } from '../../services/webhooks/start.ts';
import { SERVICE_NAMES, type ServiceName } from './clients.ts';
import type { Database } from './database.ts';
import type { Memory } from './memory.ts';

/** Common options of the services in the local stack. */
export interface LocalServicesOptions {
  readonly memory: Memory;
  readonly database: Database;
  readonly bus: EventBus;
  readonly eventSignatures: EventSignatures;
  readonly identity: ServiceIdentity;
  readonly logLevel: string;
  readonly calendar: Date | undefined;
  /** Ports of the stack itself, to which no webhooks are delivered. */
  readonly ownPorts: readonly number[];
}

export interface LocalServices {
  readonly targets: Readonly<Record<ServiceName, string>>;
  metricsUrlOf(name: ServiceName): string | undefined;
  /** Moves the retry clock of the webhooks service forward, until the service is started again. */
  advanceWebhookClock(seconds: number): void;
  /** Starts a stopped service; false when there is no service with this name. */
  start(name: string): Promise<boolean>;
  stop(name: string): Promise<boolean>;
  stopAll(): Promise<void>;
}

/** Maximum connections of each service; seven pools share one small PostgreSQL. */
const POOL_MAX = 5;
/** High, because test programs may send hundreds of concurrent calls; public requests are bounded by the gateway. */
const MAX_CALLS_IN_FLIGHT = 2_000;

/**
 * Starts the six services in this process, each on its own port.
 *
 * @throws the error of the first service that cannot start; the others are stopped again.
 */
export async function startLocalServices(o: LocalServicesOptions): Promise<LocalServices> {
  const targets = Object.fromEntries(
    SERVICE_NAMES.map((name) => [name, `127.0.0.1:${o.memory.ports[name]}`]),
  ) as Record<ServiceName, string>;
  const common = (name: ServiceName) => ({
    port: o.memory.ports[name],
    metricsPort: o.memory.ports[`${name}-metrics`],
    databaseUrl: o.database.urlOf(name),
    poolMax: POOL_MAX,
    maxCallsInFlight: MAX_CALLS_IN_FLIGHT,
    bus: o.bus,
    eventSignatures: o.eventSignatures,
    identity: o.identity,
    logLevel: o.logLevel,
    logPretty: true,
    reflection: true,
  });
  let webhooks: Awaited<ReturnType<typeof startWebhooks>> | undefined;
  const starters: Record<ServiceName, () => Promise<RunningService>> = {
    destinations: () => startDestinations(common('destinations')),
    returns: () =>
      startReturns({
        ...common('returns'),
        destinationsTarget: targets.destinations,
        fraudTarget: targets.fraud,
      }),
    dispositions: () =>
      startDispositions({ ...common('dispositions'), returnsTarget: targets.returns }),
    fraud: () => startFraud({ ...common('fraud'), returnsTarget: targets.returns }),
    carts: () => startCarts(common('carts')),
    webhooks: async () => {
      webhooks = await startWebhooks({
        ...common('webhooks'),
        returnsTarget: targets.returns,
        allowedOrigins: ['http://127.0.0.1:*'],
        refusedPorts: () => o.ownPorts,
        keyring: parseKeyring(o.memory.keyring),
        today: () => o.calendar ?? new Date(),
      });
      return webhooks;
    },
  };

  const running = new Map<ServiceName, RunningService>();
  const start = async (name: ServiceName) => {
    if (!running.has(name)) running.set(name, await starters[name]());
  };
  const stop = async (name: ServiceName) => {
    const service = running.get(name);
    running.delete(name);
    await service?.stop();
  };
  const stopAll = async () => {
    await Promise.all(SERVICE_NAMES.map(stop));
  };
  const starts = await Promise.allSettled(SERVICE_NAMES.map(start));
  const failed = starts.find((one) => one.status === 'rejected');
  if (failed) {
    await stopAll();
    throw failed.reason;
  }
  const named = (name: string) => SERVICE_NAMES.find((one) => one === name);
  return {
    targets,
    metricsUrlOf: (name) => running.get(name)?.metricsUrl,
    advanceWebhookClock: (seconds) => webhooks?.advanceClock(seconds),
    async start(name) {
      const known = named(name);
      if (known) await start(known);
      return known !== undefined;
    },
    async stop(name) {
      const known = named(name);
      if (known) await stop(known);
      return known !== undefined;
    },
    stopAll,
  };
}
