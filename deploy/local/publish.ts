import type pg from 'pg';
import type { RunningGateway } from '../../gateway/start.ts';
import { supportedVersions } from '../../services/contract/versions.ts';
import type { Clients } from './clients.ts';
import { commerceControls } from './control/commerce.ts';
import { outboxDepths } from './control/outbox.ts';
import { controlRoutes } from './control/routes.ts';
import { startControl } from './control/server.ts';
import type { Database } from './database.ts';
import { usersOf } from './demo/people.ts';
import { type Demo, PARTNER_REDIRECT_URI } from './demo/run.ts';
import type { LocalBus } from './event-bus.ts';
import { LIMITS } from './gateway-options.ts';
import type { LocalServices } from './services.ts';
import type { Parts } from './stack.ts';
import { keepStackFile } from './stack-contents.ts';
import type { TappedBus } from './tapped-bus.ts';
import { welcome } from './welcome.ts';

/** Everything that runs once the stack is up. */
export interface Running {
  readonly database: Database;
  readonly local: LocalBus;
  readonly tapped: TappedBus;
  readonly services: LocalServices;
  readonly gateway: RunningGateway;
  readonly clients: Clients;
  readonly pools: { readonly commerce: pg.Pool; readonly migrator: pg.Pool };
  readonly demo: Demo;
  readonly baseUrlAt: Readonly<Record<string, string>>;
  /** Since the start. */
  readonly seconds: () => number;
}

/** Makes a running stack findable: control server, stack file, and a few lines for people. */
export async function publish(parts: Parts, running: Running): Promise<void> {
  const { memory } = parts.memory;
  const controlUrl = `http://127.0.0.1:${memory.ports.control}`;
  const control = await startControl({
    port: memory.ports.control,
    token: memory.controlToken,
    routes: controlRoutes(controlsOf(running)),
  });
  parts.stoppers.push(
    control,
    await keepStackFile(parts.options.stack, contentsOf(parts, running, controlUrl)),
  );
  const [shop] = running.demo.shops;
  const [open] = shop?.fixtures.returns.open ?? [];
  console.log(
    welcome({
      baseUrl: parts.baseUrl,
      authUrl: parts.authUrl,
      controlUrl,
      stackFile: parts.options.stack,
      grpc: running.services.targets,
      seconds: running.seconds(),
      ...(shop &&
        open && { demo: { key: shop.api_keys.all, orderName: open.order_name, openId: open.id } }),
    }),
  );
}

function controlsOf(running: Running) {
  const { clients, services, demo } = running;
  return {
    clients,
    shops: demo.shops.map(({ id, currency, fixtures }) => ({
      id,
      currency,
      destinationId: fixtures.destinations.linked,
    })),
    ...commerceControls(running.pools.commerce),
    resetLimits: () => running.gateway.resetLimits(),
    outbox: () => outboxDepths(running.pools.migrator),
    eventsAfter: (position: number) => running.tapped.since(position),
    stopService: (name: string) => services.stop(name),
    startService: (name: string) => services.start(name),
    advanceWebhookClock: (seconds: number) => services.advanceWebhookClock(seconds),
  };
}

function contentsOf(parts: Parts, running: Running, controlUrl: string) {
  const { memory } = parts.memory;
  const calendar = parts.options.calendar ?? parts.startedAt;
  return {
    baseUrl: parts.baseUrl,
    authUrl: parts.authUrl,
    calendar,
    startedAt: parts.startedAt,
    baseUrlAt: running.baseUrlAt,
    grpc: running.services.targets,
    serviceToken: memory.serviceToken,
    databaseUrl: running.database.url,
    kafkaBrokers: running.local.brokers,
    metrics: {
      gateway: running.gateway.metricsUrl,
      returns: running.services.metricsUrlOf('returns'),
      dispositions: running.services.metricsUrlOf('dispositions'),
      destinations: running.services.metricsUrlOf('destinations'),
      fraud: running.services.metricsUrlOf('fraud'),
      carts: running.services.metricsUrlOf('carts'),
      webhooks: running.services.metricsUrlOf('webhooks'),
    },
    controlUrl,
    controlToken: memory.controlToken,
    limits: LIMITS,
    apiVersions: [...supportedVersions(calendar), 'unstable'],
    partner: memory.partner,
    redirectUri: PARTNER_REDIRECT_URI,
    signingKey: memory.signingKey,
    users: usersOf(
      parts.memory,
      running.demo.shops.map(({ id }) => id),
    ),
    shops: running.demo.shops,
  };
}
