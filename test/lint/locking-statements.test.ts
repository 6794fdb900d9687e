import { globSync, readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';

// After a statement with a row lock has waited for another transaction, PostgreSQL checks its conditions again: with
// the new version of the locked row, and the old rows of all other tables. If the other transaction changed what the
// condition compares, the statement finds no row, although the row exists. So a locking statement reads one table only.

/** Locking statements that read more, by file and a part of their text, and why no change hides a row that is due. */
const ALLOWED: readonly (readonly [file: string, part: string, reason: string])[] = [
  ['gateway/tenancy/grants.ts', 'where (shop_id, user_id) in (', 'both columns never change'],
  ['gateway/tenancy/partner-grants.ts', 'unnest(waiting_scopes)', 'reads one table'],
  [
    'services/dispositions/store.ts',
    'SELECT_CURRENT',
    'a left join; then reads what changed again',
  ],
  [
    'services/platform/leases/shard-leases.ts',
    'leases process',
    'a process that renewed its row is alive',
  ],
  ['services/platform/leases/shard-leases.ts', 'join dead on', 'a lease with a new owner stays'],
  [
    'services/platform/leases/shard-leases.ts',
    'input.token',
    'a lease with a new token is not ours',
  ],
  ['services/returns/inbound/lock-order.ts', 'and order_id = (', 'ids never change'],
  ['services/commerce/shopify-app/receive-webhook.ts', 'isChange ?', 'reads one table'],
  ['services/returns/processing/effect-store.ts', '{connectedTo(', 'reads one table'],
  ['services/returns/processing/process.ts', '{RETURN} for update', 'reads one table'],
  ['services/returns/store/line-owners.ts', 'from owned', 'a line item keeps its return'],
  ['services/webhooks/delivery/queue/requeue.ts', 'in (', 'a delivery keeps its subscription'],
  [
    'services/webhooks/delivery/queue/requeue.ts',
    'join payloads p',
    'a delivery keeps its payload',
  ],
  ['services/webhooks/fan-out/fan-out.ts', 'input.trigger', 'a new trigger is for later events'],
  ['services/webhooks/jobs/claim.ts', 'readPart(tx, claim', 'ids never change'],
  ['services/webhooks/log/methods.ts', 'from deliveries', 'a delivery keeps its subscription'],
];

/** A clause that waits for locks. With `skip locked` a statement does not wait. */
const LOCK = /\bfor (?:no key update|update|key share|share)\b(?!(?: of \w+)?\s+skip locked)/g;
const COMMENT = /^\s*(?:\/\/|\/?\*).*$/gm;

/** The statement of a locking clause, from its `select`; undefined when its text is not written before the clause. */
function statementBefore(source: string, end: number): string | undefined {
  let depth = 0;
  for (let at = end - 1; at >= 0 && depth >= 0; at -= 1) {
    if (source[at] === ')') depth += 1;
    if (source[at] === '(') depth -= 1;
    if (source[at] === '`') return undefined;
    if (depth === 0 && /^select\b/.test(source.slice(at, at + 7))) return source.slice(at, end);
  }
  return undefined;
}

/** Whether the statement reads one table, with its own columns and bound values. */
function readsOneTable(statement: string): boolean {
  const [, from = ''] = statement.match(/\bfrom\b(.*?)(?:\bwhere\b|$)/s) ?? [];
  return (
    !from.includes(',') && !/\bjoin\b/.test(statement) && !/\bselect\b/.test(statement.slice(6))
  );
}

const statements = globSync(['services/**/*.ts', 'gateway/**/*.ts'])
  .filter((file) => !file.endsWith('.test.ts'))
  .flatMap((file) => {
    const source = readFileSync(file, 'utf8').replaceAll(COMMENT, '');
    return [...source.matchAll(LOCK)].map(({ index }) => ({
      file,
      text: statementBefore(source, index) ?? source.slice(index - 60, index + 20),
      isVisible: statementBefore(source, index) !== undefined,
    }));
  });

const others = statements.filter((one) => !one.isVisible || !readsOneTable(one.text));

test('a statement that waits for row locks reads one table, so that it finds a row that changed in the meantime', () => {
  const isAllowed = (of: { file: string; text: string }) =>
    ALLOWED.some(([file, part]) => of.file === file && of.text.includes(part));
  expect(others.filter((one) => !isAllowed(one))).toEqual([]);
});

test('each exception is a statement of the code', () => {
  const unused = ALLOWED.filter(
    ([file, part]) => !others.some((one) => one.file === file && one.text.includes(part)),
  );
  expect(unused).toEqual([]);
});
