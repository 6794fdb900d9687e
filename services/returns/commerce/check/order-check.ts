import { randomUUID } from 'node:crypto';
import { Check } from '../../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { type AnsweredOrder, decimalsProblems, problemsOfOrder } from '../http/order.ts';
import { orderAnswer } from '../http/protocol.ts';
import type { CheckRule } from './checks.ts';
import type { CheckSession, Reply } from './session.ts';

export const ORDER_FIND_RULE: CheckRule = {
  check: Check.ORDER_FIND,
  title: 'finds an order by its whole name, or rejects the question',
  run: orderFind,
};

/**
 * Searches for three orders: one that does not exist, the test order, and one whose name is a part of the test order's.
 * An endpoint may reject `order.find`. Returns what is wrong.
 */
async function orderFind(session: CheckSession): Promise<string[]> {
  const unknown = await session.send('order.find', { name: `#check-${randomUUID()}` });
  // The endpoint does not support `order.find`. Then submissions must have all lines. Nothing else depends on it.
  if (unknown.problemAsRefusal() === undefined) return [];
  const problems: string[] = [];
  const nobodys = orderIn(unknown);
  if (typeof nobodys === 'string') problems.push(`a name that no order has: ${nobodys}`);
  else if (nobodys) {
    problems.push(`a name that no order has: found ${nobodys.name}; answer "order": null`);
  }
  const { id, name, mustBeFound } = session.order;
  const order = orderIn(await session.send('order.find', { name }));
  if (typeof order === 'string') return [...problems, `${name}: ${order}`];
  if (order === null) {
    return mustBeFound
      ? [...problems, `${name}: not found; pass an order of your platform as --order-name`]
      : problems;
  }
  if (order.name !== name) problems.push(`${name}: found ${order.name}; compare the whole name`);
  if (mustBeFound && BigInt(order.id) !== id) {
    problems.push(`${name}: its id is ${order.id}, and --order says ${id}`);
  }
  problems.push(...problemsOfLines(order).map((problem) => `${name}: ${problem}`));
  return [...problems, ...(await partOfName(session, order))];
}

function problemsOfLines(order: AnsweredOrder): string[] {
  const { lines } = order;
  const problems: string[] = [];
  if (lines.length === 0) problems.push('it has no lines; answer all lines of the order');
  for (const { line_item_id: id, quantity, returnable, shipped, left, ...line } of lines) {
    if (quantity === 0) problems.push(`line ${id}: quantity is 0; answer the ordered units`);
    for (const [most, of] of [
      [quantity, 'units'],
      [shipped, 'shipped units'],
      [left?.units, 'units in left'],
    ] as const) {
      if (most !== undefined && returnable > most) {
        problems.push(`line ${id}: ${returnable} of ${most} ${of} are returnable`);
      }
    }
    const { unit_price: price } = line;
    problems.push(
      ...decimalsProblems([price?.shop], order.currency),
      ...decimalsProblems([price?.presentment], order.presentment_currency),
    );
  }
  return [...problems, ...problemsOfOrder(order)];
}

/** Searches for a part of the name. An endpoint that searches by prefix would return the goods of another order. */
async function partOfName(session: CheckSession, { name }: AnsweredOrder): Promise<string[]> {
  const part = name.slice(0, -1);
  if (part === '') return [];
  const found = orderIn(await session.send('order.find', { name: part }));
  const isOther = found === null || typeof found === 'string' || found.name === part;
  return isOther ? [] : [`${part}: found ${found.name}; compare the whole name`];
}

/** The order in a reply: null for none, or a text that says what is wrong. */
function orderIn(reply: Reply): AnsweredOrder | null | string {
  const answer = reply.read(orderAnswer);
  return typeof answer === 'string' ? answer : answer.order;
}
