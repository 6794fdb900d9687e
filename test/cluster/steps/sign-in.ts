import { createHash, randomBytes } from 'node:crypto';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { z } from 'zod';
import { Browser } from '../../kit/oauth/browser.ts';
import { demoShop } from '../demo.ts';
import { DEV } from '../kubectl.ts';
import { localAddress } from '../local-address.ts';
import { devUrl, type Trial } from '../trial.ts';

/** The public addresses of the dev overlay. */
const GATEWAY = 'http://localhost:8080';
const CLIENT_ID = 'rms-mcp';
/** Of a well-known assistant; nothing is sent there. */
const REDIRECT = 'https://claude.ai/api/mcp/auth_callback';
const tokens = z.object({ access_token: z.string() });

interface Person {
  readonly email: string;
  readonly password: string;
}

/** A person signs an assistant in through the pages, and the assistant calls a tool. */
export async function signIn(trial: Trial): Promise<void> {
  const { check } = trial;
  const shop = await demoShop();
  const owner = shop.users.find(({ name }) => name === 'owner');
  if (!owner) throw new Error('the demo has no owner');
  // The overlay's public addresses on this machine. Policies let only the gateway reach the identity provider.
  const gateway = new URL(await devUrl(trial));
  const addresses = [
    await localAddress(8080, { host: gateway.hostname, port: Number(gateway.port || 80) }),
    await DEV.forward('service/identity', 8090, 8090),
  ];
  try {
    const token = await tokenOf(owner);
    check('the owner of the demo shop signs an assistant in', token !== '');
    const text = await callTool(token);
    check('the assistant calls get_shop_context', text.includes(`"id":${shop.id}`));
  } finally {
    for (const address of addresses) address.stop();
  }
}

/** Goes through the pages of the gateway and of the identity provider, and redeems the code. */
async function tokenOf({ email, password }: Person): Promise<string> {
  const verifier = randomBytes(32).toString('base64url');
  const url = new URL(`${GATEWAY}/oauth/authorize`);
  url.search = new URLSearchParams({
    response_type: 'code',
    client_id: CLIENT_ID,
    redirect_uri: REDIRECT,
    state: randomBytes(8).toString('hex'),
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  }).toString();
  const browser = new Browser();
  let shown = await browser.open(url, REDIRECT);
  for (const [field, values] of [
    ['email', { email }],
    ['password', { email, password }],
    ['consent', {}],
  ] as const) {
    if (shown.text.includes(`name="${field}"`))
      shown = await browser.submit(shown, values, REDIRECT);
  }
  const code = shown.url.searchParams.get('code');
  if (code === null) throw new Error(`no code at ${shown.url}: ${shown.text}`);
  const body = new URLSearchParams({
    grant_type: 'authorization_code',
    client_id: CLIENT_ID,
    redirect_uri: REDIRECT,
    code,
    code_verifier: verifier,
  });
  const response = await fetch(`${GATEWAY}/oauth/token`, { method: 'POST', body });
  return tokens.parse(await response.json()).access_token;
}

async function callTool(token: string): Promise<string> {
  const client = new Client({ name: 'cluster', version: '1.0.0' });
  const headers = { Authorization: `Bearer ${token}` };
  const transport = new StreamableHTTPClientTransport(new URL(`${GATEWAY}/mcp`), {
    requestInit: { headers },
  });
  await client.connect(transport);
  try {
    const result = await client.callTool({ name: 'get_shop_context', arguments: {} });
    return JSON.stringify(result.structuredContent);
  } finally {
    await client.close();
  }
}
