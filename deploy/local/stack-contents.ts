import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { createOAuthKeys } from '../../gateway/oauth/keys.ts';
import { supportedVersions } from '../../services/contract/versions.ts';
import { parseKeyring } from '../../services/platform/keyring.ts';
import { SERVICE_NAMES } from './clients.ts';
import { createMcpTokens } from './demo/mcp-tokens.ts';
import { partnerTokensOf, RENEWAL_MS } from './demo/partner-tokens.ts';
import { usersOf } from './demo/people.ts';
import { MCP_CLIENT } from './gateway.ts';
import { PARTNER_REDIRECT_URI } from './identity/sign-in.ts';
import { oauthKeyringOf } from './memory.ts';
import type { Plan, Stopper } from './plan.ts';
import type { Running } from './running.ts';
import { removeStackFile, writeStackFile } from './stack-file.ts';

const packageSchema = z.object({ version: z.string() });
const VERSION = packageSchema.parse(
  JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')),
).version;

/** URLs that webhooks may not have, for tests. */
const REFUSED_EXAMPLES = ['http://10.0.0.1/', 'http://169.254.169.254/', 'https://localhost/'];

/** Writes the stack file, and rewrites it before its tokens expire. */
export async function keepStackFile(
  plan: Plan,
  running: Running,
  controlUrl: string,
): Promise<Stopper> {
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
    ...(signsInHere(plan) && { partner: partnerOf(plan) }),
    mcp: {
      url: `${baseUrl}/mcp`,
      client_id: MCP_CLIENT.clientId,
      redirect_uris: MCP_CLIENT.redirectUris,
      form: { email: 'email', shop: 'shop_id', consent: 'consent', access: 'access' },
    },
  };
}

/** Whether partners and users sign in at the bundled identity provider. Another issuer has neither our app nor our key. */
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
  const { partner, signingKey } = plan.memory.memory;
  const { gateway } = access.pools;
  const signInHere = signsInHere(plan);
  const shopIds = shops.map(({ id }) => id);
  const mcpTokens = createMcpTokens({
    pool: gateway,
    keys: createOAuthKeys(gateway, parseKeyring(oauthKeyringOf(plan.memory))),
    issuer: plan.baseUrl,
    clientId: MCP_CLIENT.clientId,
  });
  const issued = {
    key: signingKey,
    issuer: plan.authUrl,
    audience: plan.baseUrl,
    clientId: partner.clientId,
  };
  return async () => ({
    users: await usersOf(plan.memory, { shopIds, signInHere, mcpTokens }),
    shops: await Promise.all(
      shops.map(async (shop) => ({
        ...shop,
        ...(signInHere && { partner_tokens: await partnerTokensOf(issued, shop.id) }),
      })),
    ),
  });
}
