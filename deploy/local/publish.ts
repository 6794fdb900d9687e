import { createOAuthKeys } from '../../gateway/oauth/keys.ts';
import { newestActive, supportedVersions } from '../../services/contract/versions.ts';
import { parseKeyring } from '../../services/platform/keyring.ts';
import { commerceControls } from './control/commerce.ts';
import { outboxDepths } from './control/outbox.ts';
import { controlRoutes } from './control/routes.ts';
import { startControl } from './control/server.ts';
import { createMcpTokens } from './demo/mcp-tokens.ts';
import { usersOf } from './demo/people.ts';
import { PARTNER_REDIRECT_URI } from './demo/run.ts';
import { LIMITS, MCP_CLIENT } from './gateway-options.ts';
import { oauthKeyringOf } from './memory.ts';
import type { Plan, Running } from './parts.ts';
import { keepStackFile } from './stack-contents.ts';
import { welcome } from './welcome.ts';

/** Starts the control server, writes the stack file and prints the welcome text. */
export async function publish(plan: Plan, running: Running): Promise<void> {
  const { memory } = plan.memory;
  const controlUrl = `http://127.0.0.1:${memory.ports.control}`;
  const control = await startControl({
    port: memory.ports.control,
    token: memory.controlToken,
    routes: controlRoutes(controlsOf(running)),
  });
  plan.stoppers.push(
    control,
    await keepStackFile(plan.options.stack, contentsOf(plan, running, controlUrl)),
  );
  const [shop] = running.shops;
  const [open] = shop?.fixtures.returns.open ?? [];
  console.log(
    welcome({
      baseUrl: plan.baseUrl,
      authUrl: plan.authUrl,
      controlUrl,
      stackFile: plan.options.stack,
      grpc: running.services.targets,
      version: newestActive(calendarOf(plan)),
      seconds: (Date.now() - plan.startedAt.getTime()) / 1000,
      ...(shop &&
        open && { demo: { key: shop.api_keys.all, orderName: open.order_name, openId: open.id } }),
    }),
  );
}

function calendarOf(plan: Plan): Date {
  return plan.options.calendar ?? plan.startedAt;
}

function controlsOf(running: Running) {
  const { clients, services, shops } = running;
  return {
    clients,
    shops: shops.map(({ id, currency, fixtures }) => ({
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

function contentsOf(plan: Plan, running: Running, controlUrl: string) {
  const { memory } = plan.memory;
  const calendar = calendarOf(plan);
  const signInHere = plan.externalSystems.oidcIssuer === undefined;
  const shopIds = running.shops.map(({ id }) => id);
  const mcpTokens = createMcpTokens({
    pool: running.pools.gateway,
    keys: createOAuthKeys(running.pools.gateway, parseKeyring(oauthKeyringOf(plan.memory))),
    issuer: plan.baseUrl,
    clientId: MCP_CLIENT.clientId,
  });
  return {
    baseUrl: plan.baseUrl,
    authUrl: plan.authUrl,
    calendar,
    startedAt: plan.startedAt,
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
    // Another issuer has neither our app nor our key, and its users have other passwords.
    ...(signInHere && {
      partner: {
        ...memory.partner,
        redirectUri: PARTNER_REDIRECT_URI,
        signingKey: memory.signingKey,
      },
    }),
    mcp: MCP_CLIENT,
    users: () => usersOf(plan.memory, { shopIds, signInHere, mcpTokens }),
    shops: running.shops,
  };
}
