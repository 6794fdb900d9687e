import { randomUUID } from 'node:crypto';
import { LOCAL_ACTOR } from '../../deploy/local/clients.ts';
import { inParallel } from '../../deploy/local/demo/in-parallel.ts';
import { submission } from '../../deploy/local/demo/submission.ts';
import { createApiKey } from '../../gateway/tenancy/api-keys.ts';
import { createShop } from '../../gateway/tenancy/shops.ts';
import type { Return } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { SCOPES } from '../../services/contract/scopes.ts';
import { createPool } from '../../services/platform/postgres/postgres.ts';
import type { Platform } from './platform.ts';

const PARALLEL = 8;
/** Ids of the gateway's shops start at 1, and are created first. Ids of shops for webhook rows start far above them. */
export const FIRST_FREE_SHOP = 1_000_001n;

export interface BenchShop {
  readonly id: bigint;
  /** Headers of requests to the REST API. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Creates a shop with an API key. Needs gateway, returns and webhooks. */
export async function makeShop(platform: Platform): Promise<BenchShop> {
  const pool = createPool(platform.urlOf('gateway'), { max: 1 });
  const by = { actor: LOCAL_ACTOR, source: 'bench' };
  try {
    const { id } = await createShop(pool, platform.services, {
      name: `Bench ${randomUUID()}`,
      currency: 'GBP',
      ownerEmail: 'bench@example.com',
      payloadVersion: '2026-10',
      by,
    });
    const key = { shopId: id, scopes: SCOPES, description: 'bench', by };
    const { text } = await createApiKey(pool, { ...key, restPerMinute: 1_000_000 });
    return { id, headers: { 'X-Authorization': text, 'content-type': 'application/json' } };
  } finally {
    await pool.end();
  }
}

/** Submits returns like shoppers. Needs returns. */
export async function makeReturns(
  platform: Platform,
  shop: BenchShop,
  o: { readonly count: number; readonly lines: number },
): Promise<Return[]> {
  const made: Return[] = [];
  const serials = Array.from({ length: o.count }, (_, at) => at + 1);
  await inParallel(serials, PARALLEL, async (serial) => {
    const demo = { id: Number(shop.id), currency: 'GBP', destinationId: 0 };
    const options = { key: randomUUID(), serial: o.lines * 10_000 + serial, lines: o.lines };
    const answer = await platform.services.returns.submitReturn(submission(demo, options));
    if (answer.return) made.push(answer.return);
  });
  return made;
}
