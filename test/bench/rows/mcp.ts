import { randomUUID } from 'node:crypto';
import { LOCAL_ACTOR } from '../../../deploy/local/clients.ts';
import { issueAccessToken } from '../../../gateway/oauth/tokens/issue.ts';
import { createOAuthKeys } from '../../../gateway/oauth/tokens/keys.ts';
import { addMember } from '../../../gateway/tenancy/members.ts';
import { createPool } from '../../../services/platform/postgres/postgres.ts';
import { parseKeyring } from '../../../services/platform/security/keyring.ts';
import { startWorker } from '../child.ts';
import { compare, intervalText } from '../compare/compare.ts';
import type { HttpLoadMethods } from '../http-load.ts';
import type { Load } from '../load.ts';
import type { Platform } from '../platform.ts';
import { atMost, type Row } from '../row.ts';
import { type BenchShop, makeReturns, makeShop } from '../shop.ts';
import { absolute, lengths } from './read.ts';

const RETURNS = 200;
const LINES = 3;
const CONNECTIONS = 32;
const CPU_GOAL = 2;

/** Compares the tool `get_return` with the same read over REST. */
export const mcp: Row = {
  name: 'mcp',
  about: `tools/call get_return with every field (${LINES} lines, ${RETURNS} returns in turn) over MCP against GET return details over REST, the same processes. CPU: what serves, PostgreSQL included, the load not.`,
  async run(bench) {
    const { platform } = bench;
    await platform.run(['gateway', 'returns', 'webhooks', 'destinations']);
    const shop = await makeShop(platform);
    const made = await makeReturns(platform, shop, { count: RETURNS, lines: LINES });
    const ids = made.map(({ id }) => id);
    const token = await tokenFor(platform, shop);
    await platform.run(['gateway', 'returns', 'destinations']);
    const load = startWorker<HttpLoadMethods>({ name: 'load', args: ['test/bench/http-load.ts'] });
    try {
      const ours = mcpLoad(ids, platform.gatewayUrl, token);
      const theirs = restLoad(ids, platform.gatewayUrl, shop);
      await requireSameReturn(ours, theirs);
      const arena = { platform, load, beside: [], ...lengths(bench) };
      const side = (one: Load) => ({ load: one, connections: CONNECTIONS });
      const found = await compare(arena, side(ours), side(theirs));
      return [
        atMost(CPU_GOAL, {
          name: 'CPU, the tool to REST',
          value: found.cpu.median,
          more: intervalText(found.cpu),
        }),
        ...absolute(found, `at ${CONNECTIONS} connections (ours: the tool, theirs: REST)`),
      ];
    } finally {
      await load.stop();
    }
  },
};

async function tokenFor(platform: Platform, shop: BenchShop): Promise<string> {
  const pool = createPool(platform.urlOf('gateway'), { max: 1 });
  try {
    const email = `${randomUUID()}@example.com`;
    const by = { actor: LOCAL_ACTOR, source: 'bench' };
    const { userId } = await addMember(pool, { shopId: shop.id, email, role: 'admin', by });
    const keys = createOAuthKeys(pool, parseKeyring(platform.oauthKeyring));
    return await issueAccessToken(pool, keys, {
      userId,
      shopId: shop.id,
      clientId: 'rms-mcp',
      issuer: platform.gatewayUrl,
    });
  } finally {
    await pool.end();
  }
}

function mcpLoad(ids: readonly bigint[], origin: string, token: string): Load {
  const list = ids.map((id) => {
    const params = { name: 'get_return', arguments: { return_id: Number(id), detail: 'full' } };
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });
    return { method: 'POST' as const, path: '/mcp', body };
  });
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  return { origin, headers, lists: [list] };
}

function restLoad(ids: readonly bigint[], origin: string, { headers }: BenchShop): Load {
  const path = '/api/2026-10/warehouse/return/details';
  const list = ids.map((id) => ({ method: 'GET' as const, path: `${path}?return_id=${id}` }));
  return { origin, headers, lists: [list] };
}

async function requireSameReturn(ours: Load, theirs: Load): Promise<void> {
  const read = async ({ origin, headers, lists }: Load) => {
    const { method = 'GET', path = '', body } = lists[0]?.[0] ?? {};
    const answer = await fetch(`${origin}${path}`, { method, headers, ...(body && { body }) });
    return answer.json();
  };
  const [one, other] = await Promise.all([read(ours), read(theirs)]);
  const details = Object(one).result?.structuredContent?.untrusted_details;
  if (JSON.stringify(details) !== JSON.stringify(other)) {
    throw new Error(`the responses differ:\n${JSON.stringify(one)}\n${JSON.stringify(other)}`);
  }
}
