import { readFileSync } from 'node:fs';
import { styleText } from 'node:util';
import { z } from 'zod';
import { createOAuthKeys } from '../../gateway/oauth/tokens/keys.ts';
import { newestActive, supportedVersions } from '../../services/contract/versions.ts';
import { parseKeyring } from '../../services/platform/security/keyring.ts';
import { SERVICE_NAMES } from '../../services/platform/services.ts';
import { startControl } from './control.ts';
import { PARTNER_REDIRECT_URI } from './demo/apps.ts';
import { accountsOf, usersOf } from './demo/people.ts';
import { startSink } from './demo/receiver.ts';
import { seedContextOf, seedDemo } from './demo/seed.ts';
import { createShops } from './demo/shops.ts';
import { createMcpTokens, partnerTokensOf, RENEWAL_MS } from './demo/tokens.ts';
import { startBus } from './event-bus.ts';
import { MCP_CLIENT, startLocalGateway } from './gateway.ts';
import { startSignIn } from './identity/sign-in.ts';
import { startMailCatcher } from './mails.ts';
import { oauthKeyringOf } from './memory.ts';
import type { Plan, Stopper } from './plan.ts';
import type { Database } from './postgres/start.ts';
import { openAccess, type Running } from './running.ts';
import { startServices } from './services.ts';
import { removeStackFile, writeStackFile } from './stack-file.ts';
import { step } from './step.ts';

/**
 * Starts everything that needs the database, writes the stack file, and prints how to use the stack.
 *
 * @param keep called with each started part, so that it is stopped at the end, in reverse order.
 */
export async function startParts(
  plan: Plan,
  database: Database,
  keep: <P extends Stopper>(part: P) => P,
): Promise<void> {
  const { kafka, demo } = plan.options;
  const bus = await step(kafka ? 'Kafka' : 'Event bus', async (report) =>
    keep(await startBus(plan, report)),
  );
  const services = await step('Services', async () =>
    keep(await startServices(plan, { database, bus })),
  );
  const mails = keep(await startMailCatcher());
  const gateway = await step('Gateway', async () =>
    keep(await startLocalGateway(plan, { database, services, bus, mails })),
  );
  const access = keep(openAccess(plan, { database, services }));
  const shops = await step(demo ? 'Demo data' : 'Sign-in', async (report) => {
    keep(await startSink(plan.ports.sink));
    const seeding = await seedContextOf(plan, access, report);
    const shopIds = demo ? await createShops(seeding) : [];
    keep(await startSignIn(plan, accountsOf(plan.memory)));
    return demo ? seedDemo(seeding, shopIds) : [];
  });
  const running = { database, bus, services, gateway, access, shops, mails };
  const control = keep(await startControl(plan, running));
  keep(await keepStackFile(plan, running, control.url));
  console.log(welcome(plan, running, control.url));
}

const packageSchema = z.object({ version: z.string() });
const VERSION = packageSchema.parse(
  JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')),
).version;

/** URLs that webhooks may not have, for tests. */
const REFUSED_EXAMPLES = ['http://10.0.0.1/', 'http://169.254.169.254/', 'https://localhost/'];

/** Writes the stack file, and rewrites it before its tokens expire. */
async function keepStackFile(plan: Plan, running: Running, controlUrl: string): Promise<Stopper> {
  const path = plan.options.stack;
  const system = systemOf(plan, running, controlUrl);
  const tokens = tokensOf(plan, running);
  const write = async () => writeStackFile(path, { ...system, ...(await tokens()) });
  await write();
  const renewal = setInterval(() => {
    // A full disk must not end the stack; the next interval tries again.
    write().catch((error: Error) => console.error(`stack file: ${error.message}`));
  }, RENEWAL_MS);
  renewal.unref();
  return {
    async stop() {
      clearInterval(renewal);
      await removeStackFile(path);
    },
  };
}

/** The fields that stay the same: addresses, limits, and clients for sign-in. */
function systemOf(plan: Plan, { database, bus, services, gateway }: Running, controlUrl: string) {
  const { baseUrl, today } = plan;
  const { serviceToken, controlToken } = plan.memory.memory;
  const versions = [...supportedVersions(today), 'unstable'];
  const metrics = SERVICE_NAMES.map((name) => [name, services.metricsUrlOf(name)]);
  return {
    schema: 1,
    version: VERSION,
    started_at: plan.startedAt.toISOString(),
    calendar: today.toISOString().slice(0, 10),
    pid: process.pid,
    base_url: baseUrl,
    auth_url: plan.authUrl,
    identity_url: plan.identityUrl,
    portal_url: `${baseUrl}/portal`,
    openapi: Object.fromEntries(
      versions.map((version) => [version, `${baseUrl}/openapi/${version}.json`]),
    ),
    base_url_at: gateway.baseUrlAt,
    grpc: { ...services.targets, token: serviceToken },
    database_url: database.url,
    kafka_brokers: bus.brokers,
    metrics: { gateway: gateway.metricsUrl, ...Object.fromEntries(metrics) },
    control_url: controlUrl,
    control_token: controlToken,
    client_ip: { header: 'X-Forwarded-For', trusted_from: '127.0.0.1/32' },
    limits: gateway.limits,
    receivers: { allowed: ['http://127.0.0.1:*'], refused_examples: REFUSED_EXAMPLES },
    ...(plan.options.demo && { partner: partnerOf(plan) }),
    mcp: {
      url: `${baseUrl}/mcp`,
      client_id: MCP_CLIENT.clientId,
      redirect_uris: MCP_CLIENT.redirectUris,
      form: { email: 'email', shop: 'shop_id', consent: 'consent', access: 'access' },
    },
  };
}

/** Whether people sign in at the bundled identity provider. */
function signsInHere(plan: Plan): boolean {
  return plan.externalSystems.oidcIssuer === undefined;
}

function partnerOf({ memory }: Plan) {
  const { clientId, clientSecret } = memory.memory.partner;
  return {
    client_id: clientId,
    client_secret: clientSecret,
    redirect_uri: PARTNER_REDIRECT_URI,
    form: { email: 'email', password: 'password', shop: 'shop_id', consent: 'consent' },
  };
}

/** Returns users and shops with valid tokens, which are replaced before they expire. */
function tokensOf(plan: Plan, { access, shops }: Running): () => Promise<object> {
  const { partner } = plan.memory.memory;
  const { gateway } = access.pools;
  const keyring = parseKeyring(oauthKeyringOf(plan.memory));
  const signInHere = signsInHere(plan);
  const shopIds = shops.map(({ id }) => id);
  const mcpTokens = createMcpTokens({
    pool: gateway,
    keys: createOAuthKeys(gateway, keyring),
    issuer: plan.baseUrl,
    clientId: MCP_CLIENT.clientId,
  });
  const issued = {
    pool: gateway,
    keys: createOAuthKeys(gateway, keyring, 'partner_keys'),
    baseUrl: plan.baseUrl,
    clientId: partner.clientId,
  };
  return async () => ({
    users: await usersOf(plan.memory, { shopIds, signInHere, mcpTokens }),
    shops: await Promise.all(
      shops.map(async (shop) => ({
        ...shop,
        partner_tokens: await partnerTokensOf(issued, shop.id),
      })),
    ),
  });
}

/** The text that is printed when the stack is ready: addresses, a key of the demo, and three example calls. */
function welcome(plan: Plan, { services, shops }: Running, controlUrl: string): string {
  const { baseUrl, startedAt } = plan;
  const seconds = (Date.now() - startedAt.getTime()) / 1000;
  const title = (text: string) => styleText('bold', text);
  const targets = Object.entries(services.targets).map(([name, target]) => `${name} ${target}`);
  const lines = [
    `${title('Ready')} after ${seconds.toFixed(1)} s. Ctrl-C stops everything.`,
    '',
    `REST and docs     ${baseUrl}  ${baseUrl}/docs`,
    `Portal            ${baseUrl}/portal  (people and passwords: users in ${plan.options.stack})`,
    `Assistants (MCP)  ${baseUrl}/mcp`,
    `Partners' apps    ${plan.authUrl}`,
    `Sign-in           ${plan.identityUrl}`,
    `gRPC              ${targets.slice(0, 3).join(', ')}`,
    `                  ${targets.slice(3).join(', ')}`,
    `Control server    ${controlUrl}`,
    `Everything else    ${plan.options.stack}`,
  ];
  const [shop] = shops;
  const [open] = shop?.fixtures.returns.open ?? [];
  if (!shop || !open) return lines.join('\n');
  const key = shop.api_keys.all;
  const header = `-H 'X-Authorization: ${key}'`;
  const api = `${baseUrl}/api/${newestActive(plan.today)}`;
  return [
    ...lines,
    '',
    `API key of shop 1 ${key}`,
    '',
    title('Try it:'),
    `curl -s ${header} '${api}/warehouse/return/details?order_name=${encodeURIComponent(open.order_name)}'`,
    `curl -s ${header} -X POST '${api}/warehouse/return/${open.id}/process'`,
    `curl -s ${header} '${api}/webhooks'`,
  ].join('\n');
}
