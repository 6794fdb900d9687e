import type { Server } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import express from 'express';
import { Webhook } from 'standardwebhooks';
import type { Fault, Is } from './faults.ts';
import { orderOf } from './faulty-orders.ts';

interface Data {
  /** The id in `order.find`. */
  readonly id?: number;
  readonly key?: string;
  readonly kind?: string;
  /** Of `order.find`. */
  readonly name?: string;
  readonly amount: string;
  readonly currency: string;
  readonly due?: string;
  readonly lines?: readonly object[];
  readonly from?: string;
  readonly to?: string;
  readonly cursor?: string;
}

interface Made {
  readonly created_at: string;
  readonly id: number | string;
  /** A restock and a cancellation have neither. */
  readonly amount?: string | number;
  readonly currency?: string;
  readonly due?: string | undefined;
}

/** Small, so that lists have pages. */
const PAGE_SIZE = 5;
/** As in docs/commerce.md. Seconds. */
const BEGINS_WITHIN_S = 30;
/** Longer than a call may take. Milliseconds. */
const TOO_LATE_MS = 8_500;

type Effects = ReturnType<typeof effectsIn>;

/** Returns a function that resolves when it was called a second time with the key. */
function waitsForRepeats(): (key: string) => Promise<void> {
  const calls = new Map<string, PromiseWithResolvers<void>>();
  return (key) => {
    const first = calls.get(key);
    first?.resolve();
    const call = first ?? Promise.withResolvers<void>();
    calls.set(key, call);
    return call.promise;
  };
}

/** The effects of an endpoint, in memory. */
function effectsIn(is: Is) {
  const effects = new Map<string, Made>();
  const untilRepeated = waitsForRepeats();
  let count = 0;

  const make = (kind: string, { amount, currency, due }: Data): Made => {
    count += 1;
    const cents = (Math.floor(Number(amount) * 100) / 100).toFixed(2);
    const exact = is('loses cents') ? cents : amount;
    const padded = is('has two decimals for every currency') ? Number(amount).toFixed(2) : exact;
    const rounded = is('rounds amounts') ? String(Number(amount)) : padded;
    return {
      id: is('has texts as order ids') ? `gid://${kind}/${count}` : count,
      amount: is('answers numbers as amounts') ? Number(amount) : rounded,
      currency: is('answers its own currency') ? 'XTS' : currency,
      ...(!is('knows nothing of what is due') && { due }),
      created_at: new Date().toISOString(),
    };
  };

  const create = async (kind: string, data: Data): Promise<Made> => {
    const name = `${kind} ${data.key}`;
    const known = effects.get(name);
    if (known && !is('forgets keys')) {
      const isOther = known.amount !== data.amount;
      if (!is('compares the request with the key') || !isOther) return known;
    }
    const made = make(kind, data);
    if (is('stores a key after the effect')) await untilRepeated(name);
    effects.set(name, made);
    return made;
  };

  /** A restock or a cancellation, which has no amount. */
  const act = (kind: 'restock' | 'order_cancel', { key }: Data): Made => {
    const name = `${kind} ${key}`;
    const known = effects.get(name);
    const isTwice = is(kind === 'restock' ? 'restocks a key twice' : 'cancels a key twice');
    if (known && !is('forgets keys') && !isTwice) return known;
    count += 1;
    const made = { id: `R-${count}`, created_at: new Date().toISOString() };
    if (kind === 'restock' || !is('forgets cancellations')) effects.set(name, made);
    return made;
  };

  const find = (data: Data): Made | undefined => {
    if (is('finds nothing')) return undefined;
    if (is('finds across kinds')) {
      return [...effects].find(([name]) => name.endsWith(` ${data.key}`))?.[1];
    }
    const name = `${data.kind} ${data.key}`;
    if (is('makes what is searched for') && !effects.has(name)) {
      effects.set(name, make(data.kind ?? '', { ...data, amount: '1.10', currency: 'GBP' }));
    }
    return effects.get(name);
  };

  const list = ({ from = '', to = '', cursor = '' }: Data): object => {
    const isIn = ({ created_at }: Made) =>
      is('lists every time') || (created_at >= from && created_at < to);
    const all = [...effects].filter(([, one]) => isIn(one) && !is('lists nothing'));
    const after = is('repeats its pages') ? 0 : Number(cursor);
    const page = all.slice(after, after + PAGE_SIZE).map(([name, one]) => {
      const [kind, key] = name.split(' ');
      return { ...one, kind, key };
    });
    const next = after + PAGE_SIZE;
    return { effects: page, next_cursor: next < all.length ? String(next) : null };
  };

  return { create, act, find, list, made: () => count };
}

function isVerified(
  secret: string,
  is: Is,
  { body, headers }: { readonly body: string; readonly headers: Record<string, string> },
): boolean {
  if (is('verifies nothing')) return true;
  const signed = is('signs the parsed body') ? JSON.stringify(JSON.parse(body)) : body;
  const sentAt = headers['webhook-timestamp'] ?? '';
  try {
    if (is('ignores the time of the signature')) {
      const at = new Date(Number(sentAt) * 1_000);
      const expected = new Webhook(secret).sign(headers['webhook-id'] ?? '', at, signed);
      return (headers['webhook-signature'] ?? '').split(' ').includes(expected);
    }
    new Webhook(secret).verify(signed, headers);
    const isLate = Date.now() / 1_000 - Number(sentAt) > BEGINS_WITHIN_S;
    if (isLate && !is('works on late requests')) return false;
    return true;
  } catch {
    return false;
  }
}

async function answer(
  body: string,
  is: Is,
  effects: Effects,
): Promise<readonly [status: number, json: object]> {
  const refusal = (message: string) =>
    [422, is('rejects without a reason') ? {} : { error: { message } }] as const;
  if (!body.endsWith('}')) return refusal('the body is not JSON');
  const { type, data } = JSON.parse(body) as { type: string; data: Data };
  if (type === 'effect.list') return [200, effects.list(data)];
  if (type === 'order.find') return orderOf(is, data);
  if (!data.key) return refusal('data.key is required');
  if (type === 'effect.find') {
    const found = effects.find(data);
    if (!found && is('answers a search with 404')) return [404, { error: { message: 'none' } }];
    return [200, { effect: found ?? null }];
  }
  if (type === 'order.cancel') {
    if (is('rejects cancellations')) return refusal('orders are cancelled by hand');
    return [200, { effect: effects.act('order_cancel', data) }];
  }
  const restocks = type === 'inventory.restock' ? 'restock' : undefined;
  const kind = restocks ?? /^(exchange_order|gift_card|refund)\.create$/.exec(type)?.[1];
  if (kind === undefined) {
    return is('fails at unknown types') ? [500, {}] : refusal('unknown type');
  }
  if (kind === 'restock') {
    if (is('rejects restocks')) return refusal('stock is counted by hand');
    const hasLines = (data.lines?.length ?? 0) > 0 || is('restocks no lines');
    return hasLines ? [200, { effect: effects.act(kind, data) }] : refusal('data.lines is empty');
  }
  if (is('answers too late')) await sleep(TOO_LATE_MS);
  const isValid = /^\d+(\.\d+)?$/.test(data.amount) && Number(data.amount) > 0;
  if (!isValid && !is('accepts every amount')) return refusal('data.amount is not valid');
  const made = await effects.create(kind, data);
  return [is('answers 500 after the effect') ? 500 : 200, { effect: made }];
}

/** A merchant's endpoint with one mistake, or without. It keeps its effects in memory. */
export async function startFaultyEndpoint(
  secret: string,
  fault: Fault | undefined,
): Promise<{ readonly url: string; readonly made: () => number; stop(): void }> {
  const is: Is = (one) => fault === one;
  const effects = effectsIn(is);
  const app = express().post('/', express.raw({ type: () => true }), async (request, response) => {
    const body = String(request.body);
    const headers = request.headers as Record<string, string>;
    if (!isVerified(secret, is, { body, headers })) {
      response.status(401).json({ error: { message: 'the signature is not valid' } });
      return;
    }
    const [status, json] = await answer(body, is, effects);
    if (is('answers HTML')) response.status(200).send('<!doctype html><h1>Welcome</h1>');
    else response.status(status).json(json);
  });
  const server = await listening(app.listen(0, '127.0.0.1'));
  return {
    url: `http://127.0.0.1:${portOf(server)}/`,
    made: effects.made,
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}

async function listening(server: Server): Promise<Server> {
  if (!server.listening) await new Promise((resolve) => server.once('listening', resolve));
  return server;
}

function portOf(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}
