import { startWorker } from '../child.ts';
import { type Arena, compare, intervalText } from '../compare.ts';
import type { HttpLoadMethods, Load } from '../http-load.ts';
import type { Platform } from '../platform.ts';
import type { ReferenceMethods } from '../reference.ts';
import { atLeast, atMost, type Figure, type Row } from '../row.ts';
import { type BenchShop, makeReturns, makeShop } from '../shop.ts';
import { resetStatements, statementsSince, sumsOf } from '../statements.ts';
import { absolute, lengths } from './read.ts';

/** What one call may hold. */
const ITEMS = 30;
/** Each assesses lines of its own. */
const CONNECTIONS = 8;
/** Requests over which statements are counted. */
const COUNTED = 40;
/** Loops of the services run a statement now and then, whatever is asked. */
const STATEMENT_NOISE = 1.1;

/** POST of dispositions against one statement that stores them. */
export const write: Row = {
  name: 'write',
  about: `POST of ${ITEMS} dispositions over REST (gateway → dispositions → returns, with events), against one Express process with one insert statement; and ${ITEMS} items against one. ${CONNECTIONS} connections.`,
  async run(bench) {
    const { platform } = bench;
    await platform.run(['gateway', 'returns', 'dispositions', 'webhooks']);
    const shop = await makeShop(platform);
    const made = await makeReturns(platform, shop, { count: CONNECTIONS, lines: ITEMS });
    await platform.run(['gateway', 'returns', 'dispositions']);
    await makeTable(platform);
    const reference = startWorker<ReferenceMethods>({
      name: 'reference',
      args: ['test/bench/reference.ts'],
      env: { WRITES_URL: platform.urlOf('dispositions'), SHOP_ID: String(shop.id) },
    });
    const load = startWorker<HttpLoadMethods>({ name: 'load', args: ['test/bench/http-load.ts'] });
    try {
      const port = await reference.call('listen', undefined);
      const lines = made.map(({ lineItems }) => lineItems.map(({ lineItemId }) => lineItemId));
      const loads = loadsOf(lines, shop, { ours: platform.gatewayUrl, port });
      const arena = { platform, load, beside: [reference], ...lengths(bench) };
      return await bench.watch([...platform.processes(), reference], () => measure(arena, loads));
    } finally {
      await Promise.all([reference.stop(), load.stop()]);
    }
  },
};

interface Loads {
  readonly many: Load;
  readonly one: Load;
  readonly floor: Load;
}

async function measure(arena: Arena, { many, one, floor }: Loads): Promise<Figure[]> {
  const side = (load: Load) => ({ load, connections: CONNECTIONS });
  const toFloor = await compare(arena, side(many), side(floor));
  const toOne = await compare(arena, side(many), side(one));
  const slower = { ...toOne.throughput, median: 1 / toOne.throughput.median };
  const statements = {
    many: await statementsOf(arena, many),
    one: await statementsOf(arena, one),
  };
  return [
    atLeast(0.4, {
      name: 'throughput, ours to the floor',
      value: toFloor.throughput.median,
      more: intervalText(toFloor.throughput),
    }),
    ...absolute(toFloor, `${ITEMS} items`),
    atMost(2, { name: `time of ${ITEMS} items to that of one`, value: slower.median }),
    atMost(2, {
      name: `CPU of ${ITEMS} items to that of one`,
      value: toOne.cpu.median,
      more: intervalText(toOne.cpu),
    }),
    atMost(STATEMENT_NOISE, {
      name: `statements of ${ITEMS} items to those of one`,
      value: statements.many / statements.one,
      more: `${statements.many.toFixed(1)} and ${statements.one.toFixed(1)} a request`,
    }),
  ];
}

/** Statements a request, one after another. */
async function statementsOf({ platform }: Arena, load: Load): Promise<number> {
  const request = load.lists[0]?.[0];
  await resetStatements(platform.admin);
  for (let at = 0; at < COUNTED; at += 1) {
    const body = request?.body?.replaceAll('{unique}', `counted ${performance.now()}`) ?? '';
    const answer = await fetch(`${load.origin}${request?.path}`, {
      method: 'POST',
      headers: load.headers,
      body,
    });
    await answer.arrayBuffer();
    if (!answer.ok) throw new Error(`a POST was answered with ${answer.status}`);
  }
  return sumsOf(await statementsSince(platform.admin)).calls / COUNTED;
}

function loadsOf(
  lines: readonly (readonly bigint[])[],
  shop: BenchShop,
  at: { readonly ours: string; readonly port: number },
): Loads {
  const load = (origin: string, path: string, items: number): Load => ({
    origin,
    headers: shop.headers,
    lists: lines.map((ids) => [{ method: 'POST', path, body: bodyOf(ids.slice(0, items)) }]),
  });
  const path = '/api/2026-10/dispositioning/assess';
  return {
    many: load(at.ours, path, ITEMS),
    one: load(at.ours, path, 1),
    floor: load(`http://127.0.0.1:${at.port}`, '/assess', ITEMS),
  };
}

/** A finding equal to the last one is not recorded again: the notes differ. */
function bodyOf(ids: readonly bigint[]): string {
  const items = ids.map((id) => ({
    line_item_id: Number(id),
    disposition_outcome: 'back_to_stock',
    return_processor: 'warehouse@example.com',
    note: 'As new, in its box, number {unique}',
  }));
  return JSON.stringify({ items });
}

/** Where the floor stores: a table like that of the service. */
async function makeTable({ admin }: Platform): Promise<void> {
  await admin.query(
    'create table if not exists dispositions.bench_assessments (like dispositions.inspections including all)',
  );
  await admin.query('grant insert, select on dispositions.bench_assessments to rms_dispositions');
}
