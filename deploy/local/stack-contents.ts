import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { type PartnerTokenContext, partnerTokensOf, RENEWAL_MS } from './demo/partner-tokens.ts';
import type { SeededShop } from './demo/shops.ts';
import { removeStackFile, writeStackFile } from './stack-file.ts';

/** The contents of the stack file. Partner tokens are added when it is written. */
export interface StackContents {
  readonly baseUrl: string;
  readonly authUrl: string;
  readonly calendar: Date;
  readonly startedAt: Date;
  readonly baseUrlAt: Readonly<Record<string, string>>;
  readonly grpc: Readonly<Record<string, string>>;
  readonly serviceToken: string;
  readonly databaseUrl: string;
  readonly kafkaBrokers: readonly string[] | null;
  readonly metrics: Readonly<Record<string, string | undefined>>;
  readonly controlUrl: string;
  readonly controlToken: string;
  readonly limits: Readonly<Record<string, number>>;
  readonly apiVersions: readonly string[];
  /** The demo's app; absent when partners sign in at another issuer. */
  readonly partner?: {
    readonly clientId: string;
    readonly clientSecret: string;
    readonly redirectUri: string;
    readonly signingKey: PartnerTokenContext['key'];
  };
  /** The client id and redirect URIs of MCP clients. */
  readonly mcp: { readonly clientId: string; readonly redirectUris: readonly string[] };
  /** Returns the users with their tokens, which are replaced before they expire. */
  readonly users: () => Promise<readonly object[]>;
  readonly shops: readonly SeededShop[];
}

const packageSchema = z.object({ version: z.string() });
const VERSION = packageSchema.parse(
  JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')),
).version;

/** URLs that webhooks may not have, for tests. */
const REFUSED_EXAMPLES = ['http://10.0.0.1/', 'http://169.254.169.254/', 'https://localhost/'];

/** Writes the stack file, and rewrites it before its tokens expire. */
export async function keepStackFile(
  path: string,
  contents: StackContents,
): Promise<{ stop(): Promise<void> }> {
  const write = async () => writeStackFile(path, await stackOf(contents));
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

async function stackOf(c: StackContents): Promise<object> {
  const { partner } = c;
  const oauth = partner && {
    key: partner.signingKey,
    issuer: c.authUrl,
    audience: c.baseUrl,
    clientId: partner.clientId,
  };
  return {
    schema: 1,
    version: VERSION,
    started_at: c.startedAt.toISOString(),
    calendar: c.calendar.toISOString().slice(0, 10),
    pid: process.pid,
    base_url: c.baseUrl,
    auth_url: c.authUrl,
    openapi: Object.fromEntries(
      c.apiVersions.map((version) => [version, `${c.baseUrl}/openapi/${version}.json`]),
    ),
    base_url_at: c.baseUrlAt,
    grpc: { ...c.grpc, token: c.serviceToken },
    database_url: c.databaseUrl,
    kafka_brokers: c.kafkaBrokers,
    metrics: c.metrics,
    control_url: c.controlUrl,
    control_token: c.controlToken,
    client_ip: { header: 'X-Forwarded-For', trusted_from: '127.0.0.1/32' },
    limits: c.limits,
    receivers: { allowed: ['http://127.0.0.1:*'], refused_examples: REFUSED_EXAMPLES },
    ...(partner && {
      partner: {
        client_id: partner.clientId,
        client_secret: partner.clientSecret,
        redirect_uri: partner.redirectUri,
        form: { email: 'email', password: 'password' },
      },
    }),
    mcp: {
      url: `${c.baseUrl}/mcp`,
      client_id: c.mcp.clientId,
      redirect_uris: c.mcp.redirectUris,
      form: { email: 'email', shop: 'shop_id', consent: 'consent' },
    },
    users: await c.users(),
    shops: await Promise.all(
      c.shops.map(async (shop) => ({
        ...shop,
        ...(oauth && { partner_tokens: await partnerTokensOf(oauth, shop.id) }),
      })),
    ),
  };
}
