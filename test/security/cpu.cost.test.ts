import { beforeAll, describe, expect, test } from '@jest/globals';
import { BYTES_PER_POINT } from '../../gateway/auth/body-charge.ts';
import { MCP_METHODS } from '../../gateway/mcp/http/message.ts';
import { TOOLS } from '../../gateway/mcp/tools.ts';
import { NOTE_MAX } from '../../services/contract/limits.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import type { Received, Sent } from '../kit/gateway/rest-client.ts';
import { longText } from '../kit/gateway/tool-calls.ts';
import { journeyForTests } from '../kit/journeys/journey.ts';
import {
  COSTLY_PARAMETERS,
  costlyObjects,
  costlyRequests,
  FILLINGS,
  MESSAGE_FILLINGS,
} from '../kit/security/costly-requests.ts';
import { cpuOfRequest, median } from '../kit/security/cpu.ts';

/**
 * Maximum CPU of a request as a multiple of a small read, in gateway and services together.
 *
 * A small read costs its caller one point of the rate limit, and 64 KiB of a body cost one point, too. So the rule is: no
 * request costs more than 20 reads, except one whose body pays more points, which may cost one read for each. A limit of
 * 20 for all would forbid valid requests and protect nobody: a caller who spends a whole minute on large bodies costs no
 * more than one who spends it on reads. Gradings of thirty lines with all texts at their maximum (3.9 MB, seven of the
 * cases here together with the tool for dispositions) need 30 to 50 reads and pay 61 points. Their cost is that of the
 * bytes, which several processes parse and store. The number of statements does not grow with the lines or their returns
 * (\`test/journeys/statements.test.ts\`).
 */
const READS_MAX = 20;
const limitOf = ({ json, raw }: Pick<Sent, 'json' | 'raw'>): number => {
  const body = typeof raw === 'string' ? raw : JSON.stringify(json ?? null);
  return Math.max(READS_MAX, Math.ceil(Buffer.byteLength(body) / BYTES_PER_POINT));
};
const ROUNDS = 3;
/** Number of tries. Other load on the machine makes some rounds more expensive, but not all. */
const TRIES = 3;
const READS = 20;
const REQUESTS = 4;

const journey = journeyForTests();
beforeAll(async () => {
  for (let warm = 0; warm < 200; warm += 1) await read();
});

const read = () => journey.send(costlyRequests(journey.stack.shop).getReturnDetails());

/** The CPU of a request as a multiple of a read: the minimum of some tries, each the median of its rounds. */
async function readsOf(send: () => Promise<Received>, limit: number): Promise<number> {
  await send();
  // Less than half of the limit needs no second try.
  const first = await roundOf(send);
  if (first <= limit / 2) return first;
  const tries: number[] = [];
  while (tries.length < TRIES && !(Math.min(...tries) <= limit)) {
    const rounds: number[] = [];
    while (rounds.length < ROUNDS) rounds.push(await roundOf(send));
    tries.push(median(rounds));
  }
  return Math.min(...tries);
}

async function roundOf(send: () => Promise<Received>): Promise<number> {
  const metricsUrl = journey.stack.file.metrics.gateway ?? '';
  await journey.stack.control('POST', '/limits/reset');
  const one = await cpuOfRequest(metricsUrl, READS, read);
  return (await cpuOfRequest(metricsUrl, REQUESTS, send)) / one;
}

/** The request with an additional field in its body, which the gateway ignores. */
function filled({ json, ...sent }: Sent, filling: string): Sent {
  const body = JSON.stringify(json);
  const comma = body === '{}' ? '' : ',';
  const raw = `${body.slice(0, -1)}${comma}"unknown":${filling}}`;
  return { ...sent, raw, headers: { 'content-type': 'application/json' } };
}

/** Operations whose body is valid with an unknown field of any content. */
const FILLABLE = OPERATIONS.filter(
  ({ id, body }) => body && !['assessDispositions', 'processReturn'].includes(id),
).map(({ id }) => id);

describe('the CPU of an operation of the REST API', () => {
  test.each(OPERATIONS.map(({ id }) => id))('%s', async (id) => {
    const request = () => costlyRequests(journey.stack.shop)[id]();
    const send = () => journey.send(request());
    expect([413, 415, 429, 500, 503]).not.toContain((await send()).status);
    const limit = limitOf(request());
    expect(await readsOf(send, limit)).toBeLessThanOrEqual(limit);
  });

  test.each(
    FILLABLE.flatMap((id) => Object.keys(FILLINGS).map((filling) => [id, filling] as const)),
  )('%s with %s', async (id, filling) => {
    const requests = costlyRequests(journey.stack.shop);
    // A full cart fills a body without a filling.
    const json = id === 'createCart' ? { cart: [1] } : requests[id]().json;
    const request = filled({ ...requests[id](), json }, FILLINGS[filling] ?? '');
    const send = () => journey.send(request);
    expect([400, 413, 415, 429, 500, 503]).not.toContain((await send()).status);
    const limit = limitOf(request);
    expect(await readsOf(send, limit)).toBeLessThanOrEqual(limit);
  });

  test('of the largest body is at most one read for each point of the rate limit', async () => {
    const ids = journey.stack.shop.fixtures.line_items.slice(0, 30);
    const { path } = costlyRequests(journey.stack.shop).assessDispositions();
    const headers = { 'content-type': 'application/json' };
    let points = 0;
    const send = () => {
      const note = longText(9) + '\\ud83d\\ude00'.repeat(NOTE_MAX - 9);
      const items = ids.map((id) => `{"line_item_id":${id},"note":"${note}"}`);
      const raw = `{"items":[${items.join(',')}]}`;
      points = Math.ceil(raw.length / BYTES_PER_POINT);
      return journey.send({ path, raw, headers });
    };
    expect((await send()).status).toBe(200);
    expect(await readsOf(send, points)).toBeLessThanOrEqual(points);
  });
});

describe('the CPU of a method of /mcp', () => {
  const call = (method: string, params: object) => {
    const owner = journey.stack.file.users.find(({ name }) => name === 'owner');
    const token = owner?.mcp_tokens[String(journey.stack.shop.id)] ?? '';
    const raw = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` };
    return () => journey.send({ path: '/mcp', key: null, raw, headers });
  };

  test.each(
    [...MCP_METHODS].flatMap((method) =>
      Object.keys(MESSAGE_FILLINGS).map((filling) => [method, filling] as const),
    ),
  )('%s with %s', async (method, filling) => {
    const params =
      method === 'tools/call' ? { name: 'get_shop_context' } : COSTLY_PARAMETERS[method];
    const send = call(method, { ...params, _meta: MESSAGE_FILLINGS[filling] });
    expect([413, 415, 429, 500, 503]).not.toContain((await send()).status);
    expect(await readsOf(send, READS_MAX)).toBeLessThanOrEqual(READS_MAX);
  });

  test.each(TOOLS)('tools/call $name', async ({ name, costly }) => {
    const args = () => costly(costlyObjects(journey.stack.shop));
    const send = () => call('tools/call', { name, arguments: args() })();
    const { status, text } = await send();
    expect(status).toBe(200);
    // Otherwise the rejection is measured, not the tool.
    expect(text).not.toContain('Invalid arguments');
    const limit = limitOf({ json: args() });
    expect(await readsOf(send, limit)).toBeLessThanOrEqual(limit);
  });
});
