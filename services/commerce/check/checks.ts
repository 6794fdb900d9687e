import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Check } from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { invalidField } from '../../platform/values/errors.ts';
import { jsonOf } from '../../platform/values/text.ts';
import { type AnsweredOrder, decimalsProblems, doubtsOf, problemsOfOrder } from '../http/order.ts';
import { orderAnswer, TYPE_OF } from '../http/protocol.ts';
import { type EffectKind, problemOfKind } from '../provider.ts';
import {
  amountOf,
  type CheckSession,
  type CheckTarget,
  differing,
  isEffect,
  isSame,
  openSession,
  type Reply,
  shown,
  type Variation,
} from './session.ts';

/** One check of an endpoint. `run` returns what is wrong. */
interface CheckRule {
  readonly check: Check;
  readonly title: string;
  readonly run: (session: CheckSession) => Promise<string[]>;
}

/** The kinds of effect that every endpoint must make. */
const KINDS: readonly EffectKind[] = ['exchange_order', 'gift_card', 'refund'];
const CONCURRENT = 5;
/**
 * When this check stops to wait for the answer of a request. Usually the endpoint has received the request by then.
 * Milliseconds.
 */
const LOST_AFTER_MS = 30;
/** Maximum time until an effect whose answer was lost is found. Milliseconds. */
const APPEARS_MS = 5_000;
const APPEARS_EVERY_MS = 250;
/** Time limit for every answer. Milliseconds. */
const IN_TIME_MS = 8_000;
const TIMED_CALLS = 10;
/**
 * `effect.list` is asked for the effects of this time before and after the effect to find, because clocks differ.
 * Milliseconds.
 */
const LISTED_WITHIN_MS = 600_000;
const MAX_PAGES = 50;

/** All checks of `commerce check`. */
export const CHECK_RULES: readonly CheckRule[] = [
  { check: Check.CONNECTION, title: 'answers a signed request', run: connection },
  { check: Check.SIGNATURES, title: 'rejects requests that we did not sign', run: signatures },
  { check: Check.EFFECTS, title: 'makes each kind of effect', run: effects },
  { check: Check.REPEATS, title: 'makes nothing again for a repeated key', run: repeats },
  { check: Check.CONCURRENCY, title: 'makes one effect for concurrent requests', run: concurrency },
  { check: Check.SEARCH, title: 'finds what it made, and only that', run: search },
  { check: Check.LOST_ANSWERS, title: 'knows an effect whose answer was lost', run: lostAnswers },
  { check: Check.ERRORS, title: 'rejects invalid requests with a reason', run: errors },
  { check: Check.LIST, title: 'lists what it made', run: list },
  { check: Check.RESTOCK, title: 'returns goods to stock once, or rejects it', run: restock },
  { check: Check.TIMING, title: 'answers in time', run: timing },
  { check: Check.MONEY, title: 'keeps amounts exactly', run: money },
  { check: Check.ORDER_CANCEL, title: 'cancels an order once, or rejects it', run: orderCancel },
  {
    check: Check.ORDER_FIND,
    title: 'finds an order by its whole name, or rejects the question',
    run: orderFind,
  },
];

/** Runs one check of an endpoint. When the endpoint does not answer, this is what is wrong. */
export async function checkEndpoint(target: CheckTarget, check: Check) {
  const rule = CHECK_RULES.find((one) => one.check === check);
  if (!rule) throw invalidField('check', 'is unknown');
  return { title: rule.title, problems: [...new Set(await rule.run(openSession(target)))] };
}

async function connection(session: CheckSession): Promise<string[]> {
  const reply = await session.find('refund', session.newKey('refund'));
  if (reply.status === 401 || reply.status === 403) {
    const found = reply.found();
    return [
      `${typeof found === 'string' ? found : reply.status}. It rejects our signature: does it have the secret of this connection? Rotate the secret to get a new one`,
    ];
  }
  if (reply.status === 0) {
    return [`no answer: ${reply.failure}. Is it running, and is the address right?`];
  }
  if (jsonOf(reply.body) !== undefined) return [];
  return [
    `answered ${reply.status}, and ${reply.problemAsJson()} The address of the connection must be that of your endpoint itself, with its path; redirects are not followed`,
  ];
}

/** Names of signatures of another time. */
const AGES: ReadonlyMap<string, string> = new Map([
  ['old', 'an hour old'],
  ['late', '45 s old (begin no work on a request that is older than 30 s)'],
]);

async function signatures(session: CheckSession): Promise<string[]> {
  const problems: string[] = [];
  for (const signature of ['missing', 'wrong', 'old', 'late', 'of another body'] as const) {
    const key = session.newKey('refund');
    const reply = await session.send(TYPE_OF.refund, session.dataOf('refund', key), { signature });
    const text = `a signature that is ${AGES.get(signature) ?? signature}`;
    if (reply.status < 400 || reply.status > 499) {
      problems.push(`${text}: answered ${reply.status || reply.failure}; it must answer 401`);
    }
    if (isEffect((await session.find('refund', key)).found())) {
      problems.push(`${text}: it made the refund`);
    }
  }
  const key = session.newKey('refund');
  const data = session.dataOf('refund', key);
  const spaced = (await session.send(TYPE_OF.refund, data, { isSpaced: true })).effect();
  if (typeof spaced === 'string') {
    problems.push(
      `JSON with white space: ${spaced}. Verify the signature over the bytes of the body, before you parse them`,
    );
  }
  return problems;
}

async function effects(session: CheckSession): Promise<string[]> {
  const problems: string[] = [];
  for (const kind of KINDS) {
    const key = session.newKey(kind);
    const made = (await session.create(kind, key)).effect();
    if (typeof made === 'string') {
      const isMade = isEffect((await session.find(kind, key)).found());
      problems.push(`${kind}: ${made}${isMade ? '. It was made all the same: say so' : ''}`);
    } else {
      const problem = problemOfKind(kind, made);
      if (problem) problems.push(`${kind}: ${problem}`);
    }
  }
  return problems;
}

async function repeats(session: CheckSession): Promise<string[]> {
  const problems: string[] = [];
  for (const kind of KINDS) {
    const key = session.newKey(kind);
    const first = (await session.create(kind, key)).effect();
    const second = (await session.create(kind, key)).effect();
    if (!isSame(first, second)) problems.push(`${kind}: ${differing(first, second)}`);
    const changed = await session.create(kind, key, amountOf('2', session.currency));
    const third = changed.effect();
    if (changed.problemAsRefusal() !== undefined && !isSame(first, third)) {
      problems.push(`${kind}, repeated with another amount: ${differing(first, third)}`);
    }
  }
  return problems;
}

async function concurrency(session: CheckSession): Promise<string[]> {
  const key = session.newKey('refund');
  const replies = await Promise.all(
    Array.from({ length: CONCURRENT }, () => session.create('refund', key)),
  );
  // Ignore these replies: an endpoint may reject a key that it is working on.
  const made = replies
    .filter(({ status }) => status !== 409 && status !== 425)
    .map((reply) => reply.effect());
  if (made.length === 0) return ['every concurrent request was rejected; one of them must be done'];
  const failures = new Set(made.filter((one) => typeof one === 'string'));
  const ids = new Set(made.flatMap((one) => (typeof one === 'string' ? [] : [String(one.id)])));
  const problems = [...failures].map(
    (failure) =>
      `one of ${CONCURRENT} requests with one key: ${failure}, or 409 while it is at work`,
  );
  if (ids.size < 2) return problems;
  return [
    ...problems,
    `${CONCURRENT} concurrent requests with one key were answered with the effects ${[...ids].join(', ')}; keep the key in a table with a unique constraint, written in the transaction that makes the effect`,
  ];
}

async function search(session: CheckSession): Promise<string[]> {
  const problems: string[] = [];
  for (const kind of KINDS) {
    const key = session.newKey(kind);
    const before = (await session.find(kind, key)).found();
    if (before !== null) problems.push(`${kind}: a key that was never used: ${shown(before)}`);
    const made = (await session.create(kind, key)).effect();
    const found = (await session.find(kind, key)).found();
    if (!isSame(made, found)) problems.push(`${kind}: ${differing(made, found)}`);
    const other = kind === 'refund' ? 'gift_card' : 'refund';
    const crossed = (await session.find(other, key)).found();
    if (isEffect(crossed))
      problems.push(`${kind}: its key also finds a ${other}; search by kind and key`);
  }
  return problems;
}

async function lostAnswers(session: CheckSession): Promise<string[]> {
  const key = session.newKey('refund');
  const lost: Variation = { abortAfterMs: LOST_AFTER_MS };
  await session.send(TYPE_OF.refund, session.dataOf('refund', key), lost);
  const deadline = performance.now() + APPEARS_MS;
  let found = (await session.find('refund', key)).found();
  while (found === null && performance.now() < deadline) {
    await sleep(APPEARS_EVERY_MS);
    found = (await session.find('refund', key)).found();
  }
  if (typeof found === 'string') return [found];
  const again = (await session.create('refund', key)).effect();
  // The endpoint may never have received the first request. Then the second request made the effect.
  return found === null || isSame(found, again) ? [] : [differing(found, again)];
}

async function errors(session: CheckSession): Promise<string[]> {
  const key = session.newKey('refund');
  const valid = session.dataOf('refund', key);
  const cases: readonly (readonly [string, Promise<Reply>])[] = [
    ['an unknown type', session.send('unknown.create', valid)],
    ['a negative amount', session.send(TYPE_OF.refund, { ...valid, amount: '-1.00' })],
    ['an amount that is no number', session.send(TYPE_OF.refund, { ...valid, amount: 'many' })],
    ['no key', session.send(TYPE_OF.refund, { ...valid, key: undefined })],
  ];
  const problems: string[] = [];
  // The endpoint's library for signatures may parse the body first. So any rejection is right.
  const broken = await session.send(TYPE_OF.refund, valid, { body: '{"type":' });
  if (broken.status < 400 || broken.status > 499) {
    problems.push(
      `a body that is not JSON: answered ${broken.status || broken.failure}; it must answer 400`,
    );
  }
  for (const [name, sending] of cases) {
    const problem = (await sending).problemAsRefusal();
    if (problem) problems.push(`${name}: ${problem}`);
  }
  if (isEffect((await session.find('refund', key)).found())) {
    problems.push('it made an effect for an invalid request');
  }
  return problems;
}

async function list(session: CheckSession): Promise<string[]> {
  const key = session.newKey('refund');
  const made = (await session.create('refund', key)).effect();
  if (typeof made === 'string') return [made];
  const [from, to] = [-LISTED_WITHIN_MS, LISTED_WITHIN_MS].map((ms) => new Date(Date.now() + ms));
  const later = new Date(Date.now() + 3 * LISTED_WITHIN_MS);
  if (!from || !to) return [];
  let [cursor, isListed] = ['', false];
  for (let pages = 0; pages < MAX_PAGES; pages += 1) {
    const page = (await session.list(from, to, cursor)).page();
    // `effect.list` is optional for an endpoint.
    if (page === undefined) return [];
    if (typeof page === 'string') return [page];
    isListed ||= page.effects.some((one) => one.key === key && one.kind === 'refund');
    cursor = page.next_cursor ?? '';
    if (cursor === '') break;
  }
  if (cursor !== '') return ['its pages do not end; next_cursor must be null on the last one'];
  const none = (await session.list(to, later, '')).page();
  const isEmpty = typeof none === 'object' && none.effects.length === 0;
  return [
    ...(isListed ? [] : ['the refund that it has just made is not in the list of this time']),
    ...(isEmpty ? [] : ['a period in the future must have no effects; use `from` and `to`']),
  ];
}

/** Requests a restock. An endpoint may reject it, unless the shop's setting requires it. Returns what is wrong. */
async function restock(session: CheckSession): Promise<string[]> {
  const key = session.newKey('restock');
  const before = (await session.find('restock', key)).found();
  const reply = await session.create('restock', key);
  // Unless the shop's setting requires restocks, an endpoint may leave them to the merchant.
  if (!session.mustRestock && reply.problemAsRefusal() === undefined) return [];
  const made = reply.effect();
  if (typeof made === 'string') return [made];
  const problems: string[] = [];
  if (before !== null) problems.push(`a key that was never used: ${shown(before)}`);
  const again = (await session.create('restock', key)).effect();
  if (!isSame(made, again)) problems.push(differing(made, again));
  const found = (await session.find('restock', key)).found();
  if (!isSame(made, found)) problems.push(differing(made, found));
  const crossed = (await session.find('refund', key)).found();
  if (isEffect(crossed)) problems.push('its key also finds a refund; search by kind and key');
  const nothing = { ...session.dataOf('restock', session.newKey('restock')), lines: [] };
  const problem = (await session.send(TYPE_OF.restock, nothing)).problemAsRefusal();
  return problem ? [...problems, `no lines: ${problem}`] : problems;
}

async function timing(session: CheckSession): Promise<string[]> {
  const replies: Reply[] = [];
  for (let n = 0; n < TIMED_CALLS; n += 1) {
    replies.push(await session.create('refund', session.newKey('refund')));
  }
  const slow = replies.filter(({ tookMs }) => tookMs > IN_TIME_MS);
  if (slow.length === 0) return [];
  return [
    `${slow.length} of ${TIMED_CALLS} requests were not answered within ${IN_TIME_MS / 1_000} s; make the effect first, and do the rest afterwards`,
  ];
}

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
  return [...problems, ...(await byId(session, order)), ...(await partOfName(session, order))];
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
  return [...problems, ...problemsOfOrder(order), ...doubtsOf(order)];
}

/** Searches by id, which an endpoint may reject or not find. It must not find another order. */
async function byId(session: CheckSession, { id, name }: AnsweredOrder): Promise<string[]> {
  const reply = await session.send('order.find', { id });
  if (reply.problemAsRefusal() === undefined) return [];
  const found = orderIn(reply);
  if (typeof found === 'string') return [`${name}, by its id ${id}: ${found}`];
  if (found === null || (found.id === id && found.name === name)) return [];
  return [`${name}: its id ${id} finds the order ${found.name} with the id ${found.id}`];
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

/** Makes an exchange order and cancels it. An endpoint may reject the cancellation. Returns what is wrong. */
async function orderCancel(session: CheckSession): Promise<string[]> {
  const order = (await session.create('exchange_order', session.newKey('exchange_order'))).effect();
  if (typeof order === 'string') return [order];
  const key = session.newKey('order_cancel');
  const before = (await session.find('order_cancel', key)).found();
  const dataOf = (id: unknown) => ({
    ...session.dataOf('order_cancel', key),
    exchange_order: { id, name: order.name ?? '' },
  });
  const reply = await session.send(TYPE_OF.order_cancel, dataOf(order.id));
  // Accept a rejection: some platforms cannot cancel orders, and then a person cancels them.
  if (reply.problemAsRefusal() === undefined) return [];
  const made = reply.effect();
  if (typeof made === 'string') return [made];
  const problems: string[] = [];
  if (before !== null) problems.push(`a key that was never used: ${shown(before)}`);
  const again = (await session.send(TYPE_OF.order_cancel, dataOf(order.id))).effect();
  if (!isSame(made, again)) problems.push(differing(made, again));
  const found = (await session.find('order_cancel', key)).found();
  if (!isSame(made, found)) problems.push(differing(made, found));
  const crossed = (await session.find('exchange_order', key)).found();
  if (isEffect(crossed)) problems.push('its key also finds an order; search by kind and key');
  return problems;
}

/** Amounts that find mistakes: zeros at the end must stay, and binary floating point cannot represent these numbers. */
const AMOUNTS = [
  ['1', '10'],
  ['19', '99'],
  ['4', '35'],
  ['8', '20'],
  ['12345', '67'],
] as const;
/**
 * Amounts in currencies with no decimals and with three. Shoppers may pay in another currency than that of the shop.
 */
const OTHER_DECIMALS = [
  { amount: '1550', currency: 'JPY' },
  { amount: '4.125', currency: 'KWD' },
] as const;

async function money(session: CheckSession): Promise<string[]> {
  const own = AMOUNTS.map(([units, fraction]) => ({
    amount: amountOf(units, session.currency, fraction),
    currency: session.currency,
  }));
  const others = OTHER_DECIMALS.filter(({ currency }) => currency !== session.currency);
  const problems: string[] = [];
  for (const { amount, currency } of [...own, ...others]) {
    const data = { ...session.dataOf('refund', session.newKey('refund'), amount), currency };
    const reply = await session.send(TYPE_OF.refund, data);
    // Accept a rejection: a platform may sell only in the currency of the shop.
    if (currency !== session.currency && reply.problemAsRefusal() === undefined) continue;
    const made = reply.effect();
    if (typeof made === 'string') problems.push(`${amount} ${currency}: ${made}`);
    else if (made.amount !== amount || made.currency !== currency) {
      problems.push(
        `requested were ${amount} ${currency}, answered ${made.amount} ${made.currency}; use decimals, not floating point, with the decimals and the currency of the request`,
      );
    }
  }
  return [...problems, ...(await upsell(session))];
}

/** Requests an exchange order that the returned goods do not pay completely. An endpoint may reject it. */
async function upsell(session: CheckSession): Promise<string[]> {
  const { currency } = session;
  const key = session.newKey('exchange_order');
  const [amount, paid, due] = ['15', '10', '5'].map((units) => amountOf(units, currency, '0'));
  const data = { ...session.dataOf('exchange_order', key, amount), paid_by_return: paid, due };
  const reply = await session.send(TYPE_OF.exchange_order, data);
  if (reply.problemAsRefusal() === undefined) {
    const isMade = isEffect((await session.find('exchange_order', key)).found());
    return isMade ? ['it rejected an exchange order with `due`, and made it all the same'] : [];
  }
  const made = reply.effect();
  const found = (await session.find('exchange_order', key)).found();
  const asks = (one: typeof found) => isEffect(one) && Object(one).due === due;
  if (asks(made) && asks(found)) return [];
  if (typeof made === 'string') return [`an exchange order with \`due\`: ${made}`];
  return [
    `the shopper must still pay ${due} of an exchange order of ${amount} ${currency}, and the answer, or that to effect.find, has no \`due\` of ${due}. Ask the shopper for it and answer it, or reject the request with 422; do not make the order as paid`,
  ];
}
