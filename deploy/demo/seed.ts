import { setTimeout as sleep } from 'node:timers/promises';
import { listShops } from '../../gateway/tenancy/shops.ts';
import { seedDemo } from '../local/demo/seed.ts';
import { createShops, type SeedContext, type SeededShop } from '../local/demo/shops.ts';
import type { MemoryFile } from '../local/memory.ts';
import type { Access } from './access.ts';
import type { DemoConfig } from './config.ts';

const PAUSE_MS = 1_000;
/** After that many tries the data cannot be completed, because a developer has changed it. */
const MAX_TRIES = 60;

export interface SeedParts {
  readonly config: DemoConfig;
  readonly access: Access;
  readonly memory: MemoryFile;
}

/** Creates the shops of `npm start`, when schemas and services are ready. */
export function createDemoShops(parts: SeedParts): Promise<readonly number[]> {
  return withRetries(Number.POSITIVE_INFINITY, () => createShops(contextOf(parts, new Date())));
}

/**
 * Fills the shops. A second run sends the same requests with the same idempotency keys, so it only adds a cart.
 *
 * @returns no shops if their data could not be completed.
 */
export function fillDemoShops(
  parts: SeedParts,
  ids: readonly number[],
): Promise<readonly SeededShop[]> {
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
    issuer: config.SIGN_IN_ISSUER,
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
