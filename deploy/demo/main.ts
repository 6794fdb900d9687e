import { once } from 'node:events';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import express, { type Express, type Request } from 'express';
import { partnerIssuer } from '../../gateway/oauth/partners/address.ts';
import { listShops } from '../../gateway/tenancy/shops.ts';
import { loadConfig } from '../../services/platform/process/config.ts';
import { runMain } from '../../services/platform/process/run-main.ts';
import { PARTNER_REDIRECT_URI } from '../local/demo/apps.ts';
import { accountsOf, usersOf } from '../local/demo/people.ts';
import { signatureHolds } from '../local/demo/receiver.ts';
import { seedDemo } from '../local/demo/seed.ts';
import { createShops, type SeedContext, type SeededShop } from '../local/demo/shops.ts';
import { signInRedirects } from '../local/identity/sign-in.ts';
import { createIdentity } from '../local/identity/start.ts';
import { type CaughtMail, type MailCatcher, startMailCatcher } from '../local/mails.ts';
import { type MemoryFile, openMemory } from '../local/memory.ts';
import { type Access, openAccess } from './access.ts';
import { type DemoConfig, demoSecret, demoShape } from './config.ts';
import { matchesSecretOf, Received, type Webhook } from './received.ts';

const MAX_BODY = '4mb';
/** Number of webhooks, and of mails, on the page. The JSON has all. */
const SHOWN = 100;

interface ReceiverParts {
  readonly contents: Contents;
  /** Tells whether a secret of the demo's webhooks fits. */
  readonly fitsSecret: (fits: (secret: string) => boolean) => Promise<boolean>;
  /** The mails that the mail server beside it has caught. */
  readonly mails: MailCatcher['mails'];
}

/**
 * Accepts webhooks by POST at any path, and shows them and the mails: `/` for people, `/webhooks.json` and
 * `/mails.json?to=` for programs. `/demo.json` has the demo's shops, keys and users.
 */
function createReceiver({ contents, fitsSecret, mails }: ReceiverParts): Express {
  const received = new Received();
  const app = express();
  app.disable('x-powered-by');
  app.get('/', (_req, res) => {
    const shown = { webhooks: received.list(SHOWN), mails: mails().slice(0, SHOWN) };
    res.send(demoPage(contents, shown));
  });
  app.get('/demo.json', (_req, res) => res.json(contents.json));
  app.get('/webhooks.json', (_req, res) => res.json(received.list()));
  app.get('/mails.json', ({ query: { to } }, res) =>
    res.json(mails(typeof to === 'string' ? to : undefined)),
  );
  app.get('/livez', (_req, res) => res.sendStatus(200));
  app.get('/readyz', (_req, res) => res.sendStatus(contents.ready ? 200 : 503));
  app.post(/.*/, express.raw({ type: '*/*', limit: MAX_BODY }), async (req, res) => {
    const body: unknown = req.body;
    const bytes = Buffer.isBuffer(body) ? body : Buffer.alloc(0);
    received.add({
      received_at: new Date().toISOString(),
      path: req.path,
      webhook_id: header(req, 'webhook-id'),
      event_id: header(req, 'x-service-event-id'),
      sequence: header(req, 'x-service-sequence'),
      valid: await fitsSecret((secret) => signatureHolds(req, bytes, secret)),
      payload: parsed(bytes),
    });
    res.sendStatus(204);
  });
  return app;
}

function header(req: Request, name: string): string {
  return req.get(name) ?? '';
}

function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    return null;
  }
}

/** The demo's shops, keys and users as JSON. `ready` is true when the demo data is complete. */
interface Contents {
  ready: boolean;
  json: object;
}

const STYLE = `
  :root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
  body { margin: 2rem auto; width: min(70rem, 94vw); }
  table { border-collapse: collapse; width: 100%; }
  td, th { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #8884; vertical-align: top; }
  pre { overflow: auto; max-height: 20rem; }
`;

/** The page for people: received webhooks and mails, and the shops, keys and users. */
function demoPage(
  contents: Contents,
  {
    webhooks,
    mails,
  }: { readonly webhooks: readonly Webhook[]; readonly mails: readonly CaughtMail[] },
): string {
  const letters = mails.map(
    (one) =>
      `<tr><td>${text(one.at)}<td>${text(one.to)}<td><details><summary>${text(one.subject)}</summary><pre>${text(one.text)}</pre></details>`,
  );
  const rows = webhooks.map(
    (one) =>
      `<tr><td>${text(one.received_at)}<td>${text(one.path)}<td>${text(one.webhook_id)}<td>${one.valid ? 'valid' : 'not valid'}<td><details><summary>payload</summary><pre>${text(JSON.stringify(one.payload, null, 2))}</pre></details>`,
  );
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="5">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Webhooks and mails</title><style>${STYLE}</style></head><body><main>
<h1>Webhooks that arrived</h1>
<p>${rows.length === 0 ? 'None yet. Process a return, and one arrives.' : 'The newest first; <a href="webhooks.json">all as JSON</a>.'}</p>
<table><thead><tr><th>Time<th>Path<th>webhook-id<th>Signature<th>Payload</thead><tbody>${rows.join('\n')}</tbody></table>
<h1>Mails that were caught</h1>
<p>${letters.length === 0 ? 'None yet. Show the secret of a webhook, and one arrives after a minute.' : 'The newest first; <a href="mails.json">all as JSON</a>. None leaves the cluster.'}</p>
<table><thead><tr><th>Time<th>To<th>Mail</thead><tbody>${letters.join('\n')}</tbody></table>
<h1>What there is to try</h1>
<p>${contents.ready ? 'Shops, API keys and people, also as <a href="demo.json">JSON</a>.' : 'The demo data is being created.'}</p>
<pre>${text(JSON.stringify(contents.json, null, 2))}</pre>
</main></body></html>`;
}

function text(value: string): string {
  return value.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

const PAUSE_MS = 1_000;
/** After that many tries the data cannot be completed, because a developer has changed it. */
const MAX_TRIES = 60;

interface SeedParts {
  readonly config: DemoConfig;
  readonly access: Access;
  readonly memory: MemoryFile;
}

/** Creates the shops of `npm start`, when schemas and services are ready. */
function createDemoShops(parts: SeedParts): Promise<readonly number[]> {
  return withRetries(Number.POSITIVE_INFINITY, () => createShops(contextOf(parts, new Date())));
}

/**
 * Fills the shops. A second run sends the same requests with the same idempotency keys, so it only adds a cart.
 *
 * @returns no shops if their data could not be completed.
 */
function fillDemoShops(parts: SeedParts, ids: readonly number[]): Promise<readonly SeededShop[]> {
  return withRetries(MAX_TRIES, async () => {
    const shops = await listShops(parts.access.gatewayPool);
    const first = shops.find(({ id }) => Number(id) === ids[0]);
    return seedDemo(contextOf(parts, first?.createdAt ?? new Date()), ids);
  }).catch(() => []);
}

function contextOf({ config, access, memory }: SeedParts, seededAt: Date): SeedContext {
  return {
    pool: access.gatewayPool,
    clients: access.clients,
    commerce: access.commerce,
    memory,
    seededAt,
    today: new Date(),
    baseUrl: config.PUBLIC_BASE_URL,
    sinkUrl: `${config.RECEIVER_URL}/webhooks`,
    progress: () => {},
  };
}

async function withRetries<T>(tries: number, work: () => Promise<T>): Promise<T> {
  for (let at = 1, last = ''; ; at += 1) {
    try {
      return await work();
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      if (text !== last) process.stdout.write(`demo data: ${text}, retrying\n`);
      last = text;
      if (at >= tries) throw error;
      await sleep(PAUSE_MS);
    }
  }
}

// The additional parts of a development cluster: demo data, the identity provider, a receiver of webhooks and of mails.
await runMain('demo', async () => {
  const config = loadConfig(demoShape);
  const access = openAccess(config);
  const memory = await demoMemory();
  const contents: Contents = { ready: false, json: {} };
  const shopIds: number[] = [];
  const fitsSecret = matchesSecretOf(access.clients, shopIds, config.RECEIVER_URL);
  // The receivers start first, because the demo data causes webhooks and mails.
  const { mails } = await startMailCatcher({ host: config.HOST, port: config.MAIL_PORT });
  const receiver = createReceiver({ contents, fitsSecret, mails });
  await listen(createServer(receiver), config.HOST, config.PORT);

  const parts: SeedParts = { config, access, memory };
  shopIds.push(...(await createDemoShops(parts)));
  const identity = createIdentity(identityOptions(config, memory));
  await listen(createServer(identity), config.HOST, config.IDENTITY_PORT);
  const shops = await fillDemoShops(parts, shopIds);
  const people = { shopIds, signInHere: true, mcpTokens: async () => ({}) };
  contents.json = {
    base_url: config.PUBLIC_BASE_URL,
    auth_url: partnerIssuer(config.PUBLIC_BASE_URL),
    identity_url: config.SIGN_IN_ISSUER,
    receiver_url: config.RECEIVER_URL,
    partner: { ...memory.memory.partner, redirect_uri: PARTNER_REDIRECT_URI },
    users: await usersOf(memory, people),
    shops,
  };
  contents.ready = true;
  process.stdout.write(`demo: ready, ${shops.length} shop(s)\n`);
  // Nothing is stored, so the process may simply exit.
  return { stop: async () => {} };
});

/** Derives secrets from their names, so that they stay the same over restarts. */
async function demoMemory(): Promise<MemoryFile> {
  const { memory } = await openMemory(join(tmpdir(), 'demo'), {});
  memory.partner.clientSecret = demoSecret('partner');
  return { memory, secretOf: demoSecret, save: async () => {} };
}

function identityOptions(config: DemoConfig, file: MemoryFile) {
  const { signingKey, cookieSecret } = file.memory;
  return {
    issuer: config.SIGN_IN_ISSUER,
    signIn: {
      clientId: config.SIGN_IN_CLIENT_ID,
      clientSecret: config.SIGN_IN_CLIENT_SECRET,
      redirectUris: signInRedirects(config.PUBLIC_BASE_URL),
    },
    accounts: accountsOf(file),
    signingKey,
    cookieSecret,
  };
}

async function listen(server: ReturnType<typeof createServer>, host: string, port: number) {
  server.listen(port, host);
  await once(server, 'listening');
}
