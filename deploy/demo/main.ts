import { once } from 'node:events';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type pg from 'pg';
import { loadConfig } from '../../services/platform/config.ts';
import { runMain } from '../../services/platform/run-main.ts';
import { accountsOf, usersOf } from '../local/demo/people.ts';
import { createDirectory } from '../local/identity/directory.ts';
import {
  PARTNER_APP_NAME,
  PARTNER_REDIRECT_URI,
  referenceClient,
  signInRedirects,
} from '../local/identity/sign-in.ts';
import { createIdentity } from '../local/identity/start.ts';
import { startMailCatcher } from '../local/mails.ts';
import { type MemoryFile, openMemory } from '../local/memory.ts';
import { openAccess } from './access.ts';
import { type DemoConfig, demoShape } from './config.ts';
import type { Contents } from './page.ts';
import { matchesSecretOf } from './received.ts';
import { createReceiver } from './receiver.ts';
import { demoSecret } from './secrets.ts';
import { createDemoShops, fillDemoShops, type SeedParts } from './seed.ts';

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
  const identity = createIdentity(identityOptions(config, memory, access.gatewayPool));
  await listen(createServer(identity), config.HOST, config.IDENTITY_PORT);
  const shops = await fillDemoShops(parts, shopIds);
  const people = { shopIds, signInHere: true, mcpTokens: async () => ({}) };
  contents.json = {
    base_url: config.PUBLIC_BASE_URL,
    auth_url: config.SIGN_IN_ISSUER,
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

function identityOptions(config: DemoConfig, file: MemoryFile, pool: pg.Pool) {
  const { partner, signingKey, cookieSecret } = file.memory;
  return {
    issuer: config.SIGN_IN_ISSUER,
    resource: config.PUBLIC_BASE_URL,
    partner: { ...partner, name: PARTNER_APP_NAME, redirectUri: PARTNER_REDIRECT_URI },
    reference: referenceClient(config.PUBLIC_BASE_URL),
    signIn: {
      clientId: config.SIGN_IN_CLIENT_ID,
      clientSecret: config.SIGN_IN_CLIENT_SECRET,
      redirectUris: signInRedirects(config.PUBLIC_BASE_URL),
    },
    accounts: accountsOf(file),
    directory: createDirectory(pool, config.SIGN_IN_ISSUER),
    signingKey,
    cookieSecret,
  };
}

async function listen(server: ReturnType<typeof createServer>, host: string, port: number) {
  server.listen(port, host);
  await once(server, 'listening');
}
