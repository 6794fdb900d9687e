import type pg from 'pg';
import { newKey } from '../../../gateway/auth/key-format.ts';
import { partnerIssuer } from '../../../gateway/oauth/partners/address.ts';
import { createApiKey, revokeApiKey } from '../../../gateway/tenancy/api-keys.ts';
import { installApp } from '../../../gateway/tenancy/installations.ts';
import { createPartnerApp } from '../../../gateway/tenancy/partner-apps.ts';
import { createShop } from '../../../gateway/tenancy/shops.ts';
import { DestinationType } from '../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { SCOPES } from '../../../services/contract/scopes.ts';
import { newestActive, supportedVersions } from '../../../services/contract/versions.ts';
import { type Clients, LOCAL_ACTOR } from '../clients.ts';
import type { MemoryFile } from '../memory.ts';
import { demoApps } from './apps.ts';
import {
  FIXTURE_NAMES,
  type FixtureContext,
  type FixtureName,
  makeFixture,
  type Ref,
} from './fixtures.ts';
import { inParallel } from './in-parallel.ts';
import { emailOf, FOUNDER, SECOND_FOUNDER_EMAIL } from './people.ts';
import type { DemoShop } from './submission.ts';

const SHOPS = [
  { name: 'Demo Shop', currency: 'GBP', ownerEmail: emailOf(FOUNDER), payloadVersion: '2026-07' },
  {
    name: 'Second Demo Shop',
    currency: 'EUR',
    ownerEmail: SECOND_FOUNDER_EMAIL,
    payloadVersion: '2026-10',
  },
] as const;

/** Number of fixtures of each kind in the first shop; 1 if not listed. */
const POOLS: Partial<Record<FixtureName, number>> = {
  open: 20,
  flagged: 3,
  closed: 3,
  instant_refund: 2,
  exchange: 3,
  gift_card: 2,
  fails: 3,
  two_currencies: 2,
  graded: 2,
};

/** The same of the second shop. */
const SECOND_POOLS: typeof POOLS = { open: 5 };

/** Number of returns that exist only for their lines, and the number of lines of each. */
const LINE_RETURNS = 4;
const LINES_EACH = 16;

/** Number of fixtures that are created concurrently. */
const PARALLEL = 8;

export interface SeedContext extends Omit<FixtureContext, 'shop'> {
  readonly pool: pg.Pool;
  readonly memory: MemoryFile;
  /** The date of the version calendar. */
  readonly today: Date;
  /** The public address of the gateway. */
  readonly baseUrl: string;
  /** URL of the demo's own subscription. */
  readonly sinkUrl: string;
  /** Called with the completed share, from 0 to 1. */
  readonly progress: (share: number) => void;
}

export type SeededShop = Awaited<ReturnType<typeof seedShop>>;

const by = { actor: LOCAL_ACTOR, source: 'npm start' };

/** Registers the demo's apps, and creates the shops with their founders. Safe to run again. */
export async function createShops(context: SeedContext): Promise<number[]> {
  for (const app of demoApps(context.baseUrl, context.memory.memory)) {
    await createPartnerApp(context.pool, app);
  }
  const ids: number[] = [];
  for (const shop of SHOPS) {
    const payloadVersion = payloadVersionAt(context.today, shop.payloadVersion);
    const { id } = await createShop(context.pool, context.clients, { ...shop, payloadVersion, by });
    ids.push(Number(id));
  }
  return ids;
}

/** The preferred payload version of a demo shop. If the calendar does not support it, the newest active version. */
export function payloadVersionAt(today: Date, preferred: string): string {
  return supportedVersions(today).includes(preferred) ? preferred : newestActive(today);
}

/** Fills one shop using only RPCs, and returns its part of the stack file. Safe to run again without duplicates. */
export async function seedShop(context: SeedContext, shopId: number, first: boolean) {
  const { name, currency } = SHOPS[first ? 0 : 1];
  const call = { shopId: BigInt(shopId), actor: LOCAL_ACTOR };
  const { clientId } = context.memory.memory.partner;
  const issuer = partnerIssuer(context.baseUrl);
  await installApp(context.pool, { ...call, issuer, clientId, by });
  const [destinations, webhook, cart] = await Promise.all([
    seedDestinations(context.clients, shopId),
    seedWebhook(context, shopId),
    context.clients.carts.createCart({ ...call, entries: [{ variantId: 50_001n }] }),
  ]);
  const shop: DemoShop = { id: shopId, currency, destinationId: destinations.linked };
  const [{ returns, lines }, keys] = await Promise.all([
    seedReturns({ ...context, shop }, first, context.progress),
    seedKeys(context.pool, context.memory, shopId),
  ]);
  const { version } = await context.clients.webhooks.getPayloadVersion(call);
  return {
    id: shopId,
    name,
    currency,
    payload_version: version,
    api_keys: keys,
    fixtures: {
      returns,
      line_items: lines,
      destinations,
      webhooks: [webhook],
      carts: [cart.cart?.token ?? ''],
    },
  };
}

async function seedDestinations(clients: Clients, shopId: number) {
  const call = { shopId: BigInt(shopId), actor: LOCAL_ACTOR };
  const create = async (name: string, type: DestinationType) => {
    const { destination } = await clients.destinations.createDestination({
      ...call,
      idempotencyKey: `demo:${name}`,
      name,
      type,
      address: {
        address1: '1 Sample Street',
        city: 'London',
        zip: 'N1 1AA',
        countryCode: 'GB',
        phone: '+44 20 7946 0000',
      },
    });
    return destination?.id ?? 0n;
  };
  const linked = await create('Main warehouse', DestinationType.WAREHOUSE);
  await clients.destinations.linkLocation({
    ...call,
    destinationId: linked,
    providerLocationId: 1_000_000_000_001n,
  });
  const unlinked = await create('Overflow warehouse', DestinationType.WAREHOUSE);
  const donation = await create('Donation centre', DestinationType.DONATE);
  return { linked: Number(linked), unlinked: Number(unlinked), donation: Number(donation) };
}

async function seedWebhook(context: SeedContext, shopId: number) {
  const { webhooks } = context.clients;
  const call = { shopId: BigInt(shopId), actor: LOCAL_ACTOR };
  const preferred = { topic: 'return', trigger: 'return.closed' };
  const { subscriptions } = await webhooks.listSubscriptions(call);
  const known = subscriptions.find(({ url }) => url === context.sinkUrl);
  if (known) {
    const { secrets } = await webhooks.revealSecret({ ...call, subscriptionId: known.id });
    return { id: Number(known.id), ...preferred, secret: secrets[0]?.value ?? '' };
  }
  const made = await webhooks.createSubscription({ ...call, ...preferred, url: context.sinkUrl });
  return { id: Number(made.subscription?.id), ...preferred, secret: made.secret };
}

interface Task {
  readonly name: FixtureName;
  readonly nth: number;
}

async function seedReturns(
  context: FixtureContext,
  first: boolean,
  progress: (share: number) => void,
): Promise<{ returns: Record<string, Ref[]>; lines: number[] }> {
  const pools = first ? POOLS : SECOND_POOLS;
  const tasks: Task[] = FIXTURE_NAMES.flatMap((name) =>
    Array.from({ length: pools[name] ?? 1 }, (_, nth) => ({ name, nth })),
  );
  const total = tasks.length + LINE_RETURNS;
  const made = new Map<string, Ref[]>(FIXTURE_NAMES.map((name) => [name, []]));
  const withLines: Ref[] = [];
  let done = 0;
  const identity = (at: number) => ({
    key: `demo:${context.shop.id}:${at}`,
    // Smaller than the random serials of new fixtures.
    serial: context.shop.id * 10_000 + at,
  });
  const makeOne = async (at: number) => {
    const task = tasks[at];
    if (task) {
      const ref = await makeFixture(context, task.name, identity(at));
      // By its number, because concurrent fixtures complete in any order.
      const refs = made.get(task.name);
      if (refs) refs[task.nth] = ref;
    } else {
      withLines.push(await makeFixture(context, 'open', { ...identity(at), lines: LINES_EACH }));
    }
    done += 1;
    progress(done / total);
  };
  // Alone, so that it has the first ids. The examples of the OpenAPI documents are about it.
  await makeOne(0);
  const others = Array.from({ length: total - 1 }, (_, at) => at + 1);
  await inParallel(others, PARALLEL, makeOne);
  return {
    returns: Object.fromEntries(made),
    lines: withLines.flatMap((ref) => [...ref.line_item_ids]),
  };
}

/** REST requests per minute of the key `limited`. */
const LIMITED_PER_MINUTE = 5;

interface KeyKind {
  readonly name: string;
  readonly scopes: readonly string[];
  readonly restPerMinute?: number;
  readonly expiresAt?: Date;
  readonly revoked?: boolean;
}

const KINDS: readonly KeyKind[] = [
  { name: 'all', scopes: SCOPES },
  ...SCOPES.map((scope) => ({ name: scope, scopes: [scope] })),
  { name: 'none', scopes: [] },
  { name: 'limited', scopes: ['returns'], restPerMinute: LIMITED_PER_MINUTE },
  { name: 'revoked', scopes: SCOPES, revoked: true },
  { name: 'expired', scopes: SCOPES, expiresAt: new Date('2026-01-01T00:00:00Z') },
];

/** Creates one API key of each kind for a shop, and returns them by name. They are the same after a restart. */
async function seedKeys(
  pool: pg.Pool,
  memory: MemoryFile,
  shopId: number,
): Promise<{ all: string } & Record<string, string>> {
  const keys: Record<string, string> = {};
  for (const { name, scopes, revoked, ...limits } of KINDS) {
    const text = memory.secretOf(`key:${shopId}:${name}`, () => newKey().text);
    keys[name] = text;
    const shop = { shopId: BigInt(shopId), by };
    await createApiKey(pool, { ...shop, ...limits, scopes, text, description: `Demo: ${name}` });
    if (revoked) await revokeApiKey(pool, { ...shop, keyId: text });
  }
  return { all: '', ...keys };
}
