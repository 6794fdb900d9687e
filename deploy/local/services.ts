import { cartsShape } from '../../services/carts/config.ts';
import { startCarts } from '../../services/carts/service.ts';
import { destinationsShape } from '../../services/destinations/config.ts';
import { startDestinations } from '../../services/destinations/service.ts';
import { dispositionsShape } from '../../services/dispositions/config.ts';
import { startDispositions } from '../../services/dispositions/service.ts';
import { fraudShape } from '../../services/fraud/config.ts';
import { startFraud } from '../../services/fraud/service.ts';
import { loadConfig } from '../../services/platform/process/config.ts';
import type { RunningService } from '../../services/platform/process/service.ts';
import {
  forServices,
  forTargets,
  SERVICE_NAMES,
  type ServiceName,
} from '../../services/platform/services.ts';
import { returnsShape } from '../../services/returns/config.ts';
import { startReturns } from '../../services/returns/start.ts';
import { webhooksShape } from '../../services/webhooks/config.ts';
import { type RunningWebhooks, startWebhooks } from '../../services/webhooks/start.ts';
import type { LocalBus } from './event-bus.ts';
import { eventKeyringOf } from './memory.ts';
import type { Plan, Stopper } from './plan.ts';
import type { Database } from './postgres/start.ts';

export interface LocalServices extends Stopper {
  readonly targets: Readonly<Record<ServiceName, string>>;
  metricsUrlOf(name: ServiceName): string | undefined;
  /** Moves the retry clock of the webhooks service forward, until the service is started again. */
  advanceWebhookClock(seconds: number): void;
  /** Starts a stopped service; false when there is no service with this name. */
  startService(name: string): Promise<boolean>;
  stopService(name: string): Promise<boolean>;
}

/** The settings in which all services of the stack differ from a deployment. */
const COMMON = {
  // The pools of all processes share one small PostgreSQL.
  DATABASE_POOL_MAX: '5',
  // High, because test programs may send hundreds of concurrent calls; public requests are bounded by the gateway.
  MAX_CALLS_IN_FLIGHT: '2000',
  LOG_PRETTY: 'true',
  // The services share the bus of the stack.
  KAFKA_BROKERS: 'none:1',
};

interface Backend {
  readonly database: Database;
  readonly bus: LocalBus;
}

/**
 * Starts all services in this process, each on its own port.
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

function targetsOf({ ports }: Plan): Readonly<Record<ServiceName, string>> {
  return forServices((name) => `127.0.0.1:${ports[name]}`);
}

/** How each service is started. */
function startersOf(
  plan: Plan,
  { database, bus: { bus: shareable } }: Backend,
  onWebhooks: (started: RunningWebhooks) => void,
): Record<ServiceName, () => Promise<RunningService>> {
  const { ports } = plan;
  const targets = targetsOf(plan);
  const shared = {
    ...COMMON,
    ...forTargets((name) => targets[name]),
    EVENT_KEYRING: eventKeyringOf(plan.memory),
    SERVICE_TOKEN: plan.memory.memory.serviceToken,
    LOG_LEVEL: plan.externalSystems.logLevel,
  };
  const env = (name: ServiceName) => ({
    ...shared,
    PORT: String(ports[name]),
    METRICS_PORT: String(ports[`${name}-metrics`]),
    DATABASE_URL: database.urlOf(name),
  });
  // A service closes its bus at a stop, and this one is for all.
  const bus = { ...shareable, close: async () => {} };
  const stackPorts = ownPorts(ports);
  return {
    returns() {
      const settings = loadConfig(returnsShape, {
        ...env('returns'),
        COMMERCE_KEYRING: plan.memory.memory.keyring,
        COMMERCE_ALLOWED_ORIGINS: 'http://127.0.0.1:*',
        ...plan.externalSystems.shopifyApp,
      });
      return startReturns({ ...settings, stackPorts: () => stackPorts, bus });
    },
    dispositions: () =>
      startDispositions({ ...loadConfig(dispositionsShape, env('dispositions')), bus }),
    destinations: () =>
      startDestinations({ ...loadConfig(destinationsShape, env('destinations')), bus }),
    fraud: () => startFraud({ ...loadConfig(fraudShape, env('fraud')), bus }),
    carts: () => startCarts({ ...loadConfig(cartsShape, env('carts')), bus }),
    async webhooks() {
      const settings = loadConfig(webhooksShape, {
        ...env('webhooks'),
        WEBHOOK_KEYRING: plan.memory.memory.keyring,
        WEBHOOK_ALLOWED_ORIGINS: 'http://127.0.0.1:*',
      });
      const started = await startWebhooks({
        ...settings,
        API_CALENDAR: plan.options.calendar,
        stackPorts: () => stackPorts,
        bus,
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
