import { create, toBinary } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import {
  DispositionOutcome,
  DispositionSchema,
  type Return,
  ReturnSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { startWorker } from '../child.ts';
import { createBaselineTables } from '../compare/baseline.ts';
import { type Arena, compare, intervalText } from '../compare/compare.ts';
import type { Figure } from '../figure.ts';
import type { HttpLoadMethods } from '../http-load.ts';
import type { Load } from '../load.ts';
import type { ReferenceMethods } from '../reference.ts';
import { atLeast, atMost, type Bench, figure, type Row } from '../row.ts';
import { type BenchShop, makeReturns, makeShop } from '../shop.ts';
import { mostExpensive, resetStatements, statementsSince, sumsOf } from '../statements.ts';
import { absolute, lengths } from './read.ts';

/** Each connection assesses different lines. */
const ITEMS = 30;
/** Each connection assesses different lines. */
const CONNECTIONS = 8;
/** Goal of the throughput, as a ratio to one statement that stores the same rows. */
const BASELINE_GOAL = 0.16;
export const ASSESS = '/api/2026-10/dispositioning/assess';
const PROCESSOR = 'warehouse@example.com';
const NOTE = 'As new, in its box, number {unique}';
/** Loops of the services run a few statements without any request. */
const COUNTED = 40;
/** Loops of the services run a few statements without any request. */
const STATEMENT_NOISE = 1.1;

/** Compares the POST of dispositions with one statement that stores them. */
export const write: Row = {
  name: 'write',
  about: `POST of ${ITEMS} dispositions over REST (gateway → dispositions → returns, with events), against one Express process with one statement that stores the same rows (assessments, newest of each line, what returns keeps, the return's revision, timeline, events); and ${ITEMS} items against one. ${CONNECTIONS} connections.`,
  async run(bench) {
    const { platform } = bench;
    await platform.run(['gateway', 'returns', 'dispositions', 'webhooks']);
    const shop = await makeShop(platform);
    const made = await makeReturns(platform, shop, { count: CONNECTIONS, lines: ITEMS });
    await platform.run(['gateway', 'returns', 'dispositions']);
    await createBaselineTables(platform.admin);
    const reference = startWorker<ReferenceMethods>({
      name: 'reference',
      args: ['test/bench/reference.ts'],
      env: {
        WRITES_URL: platform.urlOf('dispositions'),
        SHOP_ID: String(shop.id),
        SNAPSHOT: Buffer.from(snapshotOf(made[0])).toString('base64'),
        RETURNS_BY_LINE: JSON.stringify(
          made.map((one) => [Number(one.lineItems[0]?.lineItemId), Number(one.id)]),
        ),
      },
    });
    const load = startWorker<HttpLoadMethods>({ name: 'load', args: ['test/bench/http-load.ts'] });
    try {
      const port = await reference.call('listen', undefined);
      const lines = made.map(({ lineItems }) => lineItems.map(({ lineItemId }) => lineItemId));
      const loads = loadsOf(lines, shop, { ours: platform.gatewayUrl, port });
      const arena = { platform, load, beside: [reference], ...lengths(bench) };
      return await measure(arena, loads, bench.note);
    } finally {
      await Promise.all([reference.stop(), load.stop()]);
    }
  },
};

/** The snapshot of an event after all lines were assessed. */
function snapshotOf(made: Return | undefined): Uint8Array {
  if (!made) throw new Error('no return was made');
  const disposition = create(DispositionSchema, {
    outcome: DispositionOutcome.BACK_TO_STOCK,
    returnProcessor: PROCESSOR,
    note: NOTE,
    inspectedAt: timestampFromDate(new Date()),
  });
  const lineItems = made.lineItems.map((line) => ({ ...line, disposition }));
  return toBinary(ReturnSchema, { ...made, lineItems });
}

interface Loads {
  readonly many: Load;
  readonly one: Load;
  /** One statement that stores the same rows. */
  readonly floor: Load;
  /** One statement that stores only the assessments. */
  readonly bare: Load;
}

async function measure(
  arena: Arena,
  { many, one, floor, bare }: Loads,
  note: Bench['note'],
): Promise<Figure[]> {
  const side = (load: Load) => ({ load, connections: CONNECTIONS });
  const toFloor = await compare(arena, side(many), side(floor));
  const toBare = await compare(arena, side(many), side(bare));
  const toOne = await compare(arena, side(many), side(one));
  const slower = { ...toOne.throughput, median: 1 / toOne.throughput.median };
  const statements = {
    many: await statementsOf(arena, many, note),
    one: await statementsOf(arena, one, note),
  };
  return [
    atLeast(BASELINE_GOAL, {
      name: 'throughput, ours to one statement that stores the same rows',
      value: toFloor.throughput.median,
      more: intervalText(toFloor.throughput),
    }),
    figure({
      name: 'throughput, ours to one statement that stores the assessments alone',
      value: toBare.throughput.median,
      more: intervalText(toBare.throughput),
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

/** Statements per request. Requests are sequential. */
async function statementsOf({ platform }: Arena, load: Load, note: Bench['note']): Promise<number> {
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
    if (!answer.ok) throw new Error(`a POST responded with ${answer.status}`);
  }
  const statements = await statementsSince(platform.admin);
  for (const line of mostExpensive(statements)) note(line);
  return sumsOf(statements).calls / COUNTED;
}

function loadsOf(
  lines: readonly (readonly bigint[])[],
  shop: BenchShop,
  at: { readonly ours: string; readonly port: number },
): Loads {
  const load = (origin: string, path: string, items: number): Load => ({
    origin,
    headers: shop.headers,
    lists: lines.map((ids) => [{ method: 'POST', path, body: assessmentsOf(ids.slice(0, items)) }]),
  });
  return {
    many: load(at.ours, ASSESS, ITEMS),
    one: load(at.ours, ASSESS, 1),
    floor: load(`http://127.0.0.1:${at.port}`, '/assess', ITEMS),
    bare: load(`http://127.0.0.1:${at.port}`, '/assess-bare', ITEMS),
  };
}

/** Assessments of lines. The notes differ, because an assessment that is equal to the last one is not recorded again. */
export function assessmentsOf(ids: readonly bigint[]): string {
  const items = ids.map((id) => ({
    line_item_id: Number(id),
    disposition_outcome: 'back_to_stock',
    return_processor: PROCESSOR,
    note: NOTE,
  }));
  return JSON.stringify({ items });
}
