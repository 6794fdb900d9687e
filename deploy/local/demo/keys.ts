import type pg from 'pg';
import { newKey } from '../../../gateway/auth/key-format.ts';
import { createApiKey, revokeApiKey } from '../../../gateway/tenancy/api-keys.ts';
import { SCOPES } from '../../../services/contract/scopes.ts';
import { LOCAL_ACTOR } from '../clients.ts';
import type { MemoryFile } from '../memory.ts';

const by = { actor: LOCAL_ACTOR, source: 'npm start' };

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
export async function seedKeys(
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
