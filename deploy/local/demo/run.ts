import type pg from 'pg';
import type { Clients } from '../clients.ts';
import { commerceControls } from '../control/commerce.ts';
import { startIdentity } from '../identity/start.ts';
import type { Parts } from '../stack.ts';
import { accountsOf } from './people.ts';
import { seedDemo, seedingTime } from './seed.ts';
import { createShops, type SeededShop } from './shops.ts';
import { startSink } from './sink.ts';

export interface Demo {
  /** Empty without the demo. */
  readonly shops: readonly SeededShop[];
}

/** Where the partner's demo app takes the browser back to. */
export const PARTNER_REDIRECT_URI = 'http://127.0.0.1:7777/callback';

/** Starts sign-in, and fills the shops unless the stack starts empty. */
export async function runDemo(
  parts: Parts,
  o: {
    readonly clients: Clients;
    readonly pools: { readonly gateway: pg.Pool; readonly commerce: pg.Pool };
    readonly tell: (text: string) => void;
  },
): Promise<Demo> {
  const { memory, stoppers } = parts;
  const { ports } = memory.memory;
  const sink = await startSink(ports.sink);
  stoppers.push(sink);
  const context = {
    pool: o.pools.gateway,
    clients: o.clients,
    memory,
    seededAt: await seedingTime(memory),
    issuer: parts.authUrl,
    sinkUrl: `http://127.0.0.1:${ports.sink}/webhooks`,
    failProcessing: commerceControls(o.pools.commerce).failProcessing,
    progress: inSteps(o.tell),
  };
  const shopIds = parts.options.demo ? await createShops(context) : [];
  await startSignIn(parts, shopIds);
  return { shops: parts.options.demo ? await seedDemo(context, shopIds) : [] };
}

/** The bundled identity provider, unless the stack was pointed at another. */
async function startSignIn(parts: Parts, shopIds: readonly number[]): Promise<void> {
  if (parts.surroundings.oidcIssuer) return;
  const { ports, partner, signingKey, cookieSecret } = parts.memory.memory;
  const identity = await startIdentity({
    port: ports.identity,
    issuer: parts.authUrl,
    resource: parts.baseUrl,
    partner: { ...partner, redirectUri: PARTNER_REDIRECT_URI },
    accounts: accountsOf(parts.memory, shopIds),
    signingKey,
    cookieSecret,
  });
  await parts.memory.save();
  parts.stoppers.push(identity);
}

/** Tells every fifth of the way once. */
function inSteps(tell: (text: string) => void): (share: number) => void {
  let told = 0;
  return (share) => {
    const step = Math.floor(share * 5);
    if (step > told) tell(`${step * 20} %`);
    told = Math.max(told, step);
  };
}
