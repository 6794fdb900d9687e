import { startCarts } from '../../services/carts/start.ts';
import { startDestinations } from '../../services/destinations/start.ts';
import { startDispositions } from '../../services/dispositions/start.ts';
import { startFraud } from '../../services/fraud/start.ts';
import { newEventSignatures } from '../../services/platform/bus/event-signature.ts';
import { staticIdentity } from '../../services/platform/identity.ts';
import { parseKeyring } from '../../services/platform/keyring.ts';
import type { RunningService } from '../../services/platform/service.ts';
import { startReturns } from '../../services/returns/start.ts';
import { type RunningWebhooks, startWebhooks } from '../../services/webhooks/start.ts';
import { SERVICE_NAMES, type ServiceName } from './clients.ts';
import type { LocalBus } from './event-bus.ts';
import { eventKeyringOf } from './memory.ts';
import type { Plan, Stopper } from './plan.ts';
import type { Database } from './postgres/database.ts';

export interface LocalServices extends Stopper {
  readonly targets: Readonly<Record<ServiceName, string>>;
  metricsUrlOf(name: ServiceName): string | undefined;
  /** Moves the retry clock of the webhooks service forward, until the service is started again. */
  advanceWebhookClock(seconds: number): void;
  /** Starts a stopped service; false when there is no service with this name. */
  startService(name: string): Promise<boolean>;
  stopService(name: string): Promise<boolean>;
}

/** Maximum connections of each service; seven pools share one small PostgreSQL. */
const POOL_MAX = 5;
/** High, because test programs may send hundreds of concurrent calls; public requests are bounded by the gateway. */
const MAX_CALLS_IN_FLIGHT = 2_000;

interface Backend {
  readonly database: Database;
  readonly bus: LocalBus;
}

/**
 * Starts the six services in this process, each on its own port.
 *
 * @throws the error of the first service that cannot start; the others are stopped again.
 */
export async function startServices(plan: Plan, backend: Backend): Promise<LocalServices> {
  const targets = targetsOf(plan);
  let webhooks: RunningWebhooks | undefined;
  const starters = startersOf(plan, backend, (started) => {
    webhooks = started;
  });
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
  const ifKnown = async (name: string, act: (known: ServiceName) => Promise<void>) => {
    const known = SERVICE_NAMES.find((one) => one === name);
    if (known) await act(known);
    return known !== undefined;
  };
  return {
    targets,
    metricsUrlOf: (name) => running.get(name)?.metricsUrl,
    advanceWebhookClock: (seconds) => webhooks?.advanceClock(seconds),
    startService: (name) => ifKnown(name, start),
    stopService: (name) => ifKnown(name, stop),
    stop: stopAll,
  };
}

function targetsOf({ ports }: Plan): Record<ServiceName, string> {
  const target = (name: ServiceName) => [name, `127.0.0.1:${ports[name]}`];
  return Object.fromEntries(SERVICE_NAMES.map(target)) as Record<ServiceName, string>;
}

/** How each service is started. */
function startersOf(
  plan: Plan,
  { database, bus }: Backend,
  onWebhooks: (started: RunningWebhooks) => void,
): Record<ServiceName, () => Promise<RunningService>> {
  const { ports } = plan;
  const targets = targetsOf(plan);
  const shared = {
    poolMax: POOL_MAX,
    maxCallsInFlight: MAX_CALLS_IN_FLIGHT,
    bus: bus.bus,
    eventSignatures: newEventSignatures(eventKeyringOf(plan.memory)),
    identity: staticIdentity(plan.memory.memory.serviceToken),
    logLevel: plan.externalSystems.logLevel,
    logPretty: true,
    reflection: true,
  };
  const common = (name: ServiceName) => ({
    ...shared,
    port: ports[name],
    metricsPort: ports[`${name}-metrics`],
    databaseUrl: database.urlOf(name),
  });
  const returnsTarget = targets.returns;
  const refusedPorts = ownPorts(ports);
  return {
    returns: () =>
      startReturns({
        ...common('returns'),
        destinationsTarget: targets.destinations,
        fraudTarget: targets.fraud,
      }),
    dispositions: () => startDispositions({ ...common('dispositions'), returnsTarget }),
    destinations: () => startDestinations(common('destinations')),
    fraud: () => startFraud({ ...common('fraud'), returnsTarget }),
    carts: () => startCarts(common('carts')),
    async webhooks() {
      const started = await startWebhooks({
        ...common('webhooks'),
        returnsTarget,
        allowedOrigins: ['http://127.0.0.1:*'],
        refusedPorts: () => refusedPorts,
        keyring: parseKeyring(plan.memory.memory.keyring),
        today: () => plan.options.calendar ?? new Date(),
      });
      onWebhooks(started);
      return started;
    },
  };
}

/** The ports of the stack, to which no webhooks are delivered, except the port of the sink. */
function ownPorts(ports: Plan['ports']): number[] {
  return Object.entries(ports)
    .filter(([name]) => name !== 'sink')
    .map(([, port]) => port);
}
