import { type KeyObject, randomUUID } from 'node:crypto';
import type { z } from 'zod';
import { describeFailure } from '../../platform/outbound/failure.ts';
import { newSecret, sign, signingKeyOf } from '../../platform/outbound/signature.ts';
import { decimalsOf } from '../../platform/values/currencies.ts';
import { MAX_ID } from '../../platform/values/ids.ts';
import { jsonOf, printable } from '../../platform/values/text.ts';
import { type CommerceClient, NotConnected } from '../http/client.ts';
import {
  createdAnswer,
  foundAnswer,
  listAnswer,
  PROTOCOL_VERSION,
  type ProtocolEffect,
  refusalAnswer,
  TYPE_OF,
} from '../http/protocol.ts';
import { CHECK_KEYS, type EffectKind } from '../provider.ts';

/** Time limit of one call during a check. Milliseconds. */
const CALL_MS = 8_000;
/**
 * Age of a signature, in seconds. `old` is more than the signature scheme allows. `late` is more than the 30 s after
 * which an endpoint must not begin to work, with a margin for clocks that differ.
 */
const AGE_S = { old: 3_600, late: 45 } as const;

/** The endpoint to check, with the values that the checks send. */
export interface CheckTarget {
  readonly client: CommerceClient;
  readonly url: string;
  readonly keys: readonly KeyObject[];
  readonly shopId: bigint;
  /** `mustBeFound`: the order really exists at the merchant's platform, so `order.find` must find it. */
  readonly order: { readonly id: bigint; readonly name: string; readonly mustBeFound: boolean };
  readonly currency: string;
  /** Whether the endpoint must restock the shop's goods. */
  readonly mustRestock: boolean;
  /** Ends the check: no more requests are sent. */
  readonly signal?: AbortSignal;
}

/** How a request differs from a valid one. */
export interface Variation {
  readonly signature?: 'missing' | 'wrong' | 'old' | 'late' | 'of another body';
  /** The body; absent for the JSON of the message. */
  readonly body?: string;
  /** Whether the JSON has white space, which some JSON writers add. */
  readonly isSpaced?: boolean;
  /** Aborts the call after this time. Milliseconds. */
  readonly abortAfterMs?: number;
}

/** The answer of one call, as it was received. */
interface Answered {
  /** HTTP status; 0 when there is no answer. */
  readonly status: number;
  readonly body: string;
  /** Why there is no answer; empty when there is one. */
  readonly failure: string;
  readonly tookMs: number;
}

/** The answer of one call, with functions that read its content. */
export interface Reply extends Answered {
  /**
   * Returns the parsed content of a reply with status 200. Returns a text that says what is wrong for any other reply.
   */
  read<S extends z.ZodType>(schema: S): z.infer<S> | string;
  /** Returns the effect that was made, or a text that says what is wrong with the reply. */
  effect(): ProtocolEffect | string;
  /** Reads a reply to `effect.find`. Returns an effect, null for none, or a text that says what is wrong. */
  found(): ProtocolEffect | null | string;
  /**
   * Reads a reply to `effect.list`. Returns a page, or a text that says what is wrong. Undefined when the endpoint does
   * not support lists.
   */
  page(): z.infer<typeof listAnswer> | string | undefined;
  /**
   * Returns what is wrong with a reply that should be a rejection: status 400 or 422, with a reason. Undefined when it
   * is right.
   */
  problemAsRefusal(): string | undefined;
  /** Returns a text which says that the reply is not JSON, and how it begins. */
  problemAsJson(): string;
}

/** Calls an endpoint for checks. */
export interface CheckSession {
  readonly currency: string;
  readonly order: CheckTarget['order'];
  readonly mustRestock: boolean;
  newKey(kind: EffectKind): string;
  send(type: string, data: object, variation?: Variation): Promise<Reply>;
  create(kind: EffectKind, key: string, amount?: string): Promise<Reply>;
  find(kind: EffectKind, key: string): Promise<Reply>;
  list(from: Date, to: Date, cursor: string): Promise<Reply>;
  /** Returns the data of a request for an effect. */
  dataOf(kind: EffectKind, key: string, amount?: string): object;
}

/** The id of the return in test effects. No return has this id, so people recognize test effects. */
const NO_RETURN = Number(MAX_ID);

export function openSession(target: CheckTarget): CheckSession {
  const about = (key: string) => ({
    key,
    return_id: NO_RETURN,
    order: { id: Number(target.order.id), name: target.order.name },
  });
  const usual = amountOf('1', target.currency);
  const dataOf = (kind: EffectKind, key: string, amount = usual): object => {
    if (kind === 'restock') {
      const line = { line_item_id: 1, variant_id: 1, sku: 'CHECK', quantity: 1, location_id: 0 };
      return { ...about(key), lines: [line] };
    }
    if (kind === 'order_cancel') return { ...about(key), exchange_order: { id: 1, name: 'CHECK' } };
    const asked = { ...about(key), amount, currency: target.currency };
    if (kind === 'refund') {
      const line = { line_item_id: 1, sku: 'CHECK', quantity: 1, refund: asked.amount };
      return { ...asked, lines: [{ ...line, shipping: amountOf('0', target.currency, '0') }] };
    }
    if (kind === 'gift_card') return { ...asked, details: {} };
    const variant = { product_id: 1, variant_id: 1, sku: 'CHECK', title: 'Check' };
    const item = { ...variant, price: asked.amount, discount: '0', tax: '0' };
    const paid = { paid_by_return: asked.amount, due: amountOf('0', target.currency, '0') };
    return { ...asked, ...paid, items: [item], details: {} };
  };
  const send = (type: string, data: object, variation: Variation = {}) =>
    call(target, { type, data, variation });
  return {
    currency: target.currency,
    order: target.order,
    mustRestock: target.mustRestock,
    newKey: (kind) => `${CHECK_KEYS}${randomUUID()}:${kind}`,
    send,
    dataOf,
    create: (kind, key, amount) => send(TYPE_OF[kind], dataOf(kind, key, amount)),
    find: (kind, key) => send('effect.find', { ...about(key), kind }),
    list: (from, to, cursor) =>
      send('effect.list', { from: from.toISOString(), to: to.toISOString(), cursor }),
  };
}

async function call(
  { client, url, keys, shopId, signal: ending }: CheckTarget,
  o: { readonly type: string; readonly data: object; readonly variation: Variation },
): Promise<Reply> {
  const { signature, abortAfterMs = CALL_MS } = o.variation;
  const now = new Date();
  const message = {
    type: o.type,
    version: PROTOCOL_VERSION,
    sent_at: now.toISOString(),
    shop_id: Number(shopId),
    sandbox: true,
    data: o.data,
  };
  const text = o.variation.isSpaced
    ? JSON.stringify(message, undefined, 2)
    : JSON.stringify(message);
  const body = o.variation.body ?? text;
  const ageS = signature === 'old' || signature === 'late' ? AGE_S[signature] : 0;
  const timestamp = Math.floor(now.getTime() / 1_000) - ageS;
  const id = `req_${randomUUID()}`;
  const signed = Buffer.from(signature === 'of another body' ? `${body} ` : body);
  const used = signature === 'wrong' ? [signingKeyOf(newSecret())] : keys;
  const late = AbortSignal.timeout(abortAfterMs);
  const signal = ending ? AbortSignal.any([ending, late]) : late;
  const start = performance.now();
  const end = () => Math.round(performance.now() - start);
  try {
    const answer = await client.post({
      url,
      body,
      headers: {
        'content-type': 'application/json',
        'user-agent': 'Returns-Management-Service/1 (commerce check)',
        'webhook-id': id,
        'webhook-timestamp': String(timestamp),
        ...(signature !== 'missing' && {
          'webhook-signature': sign(used, { id, timestamp, body: signed }),
        }),
        ...keyHeader(o.data),
      },
      signal,
    });
    return replyOf({ status: answer.status, body: answer.body, failure: '', tookMs: end() });
  } catch (error) {
    const cause = error instanceof NotConnected ? error.cause : error;
    const failure = late.aborted ? `not within ${abortAfterMs / 1_000} s` : describeFailure(cause);
    return replyOf({ status: 0, body: '', failure, tookMs: end() });
  }
}

function keyHeader(data: object): Record<string, string> {
  return 'key' in data && typeof data.key === 'string' ? { 'idempotency-key': data.key } : {};
}

function replyOf(answered: Answered): Reply {
  return {
    ...answered,
    read: (schema) => readAs(answered, schema),
    effect() {
      const answer = readAs(answered, createdAnswer);
      return typeof answer === 'string' ? answer : answer.effect;
    },
    found: () => foundIn(answered),
    page() {
      if (answered.status === 400 || answered.status === 422) return undefined;
      return readAs(answered, listAnswer);
    },
    problemAsRefusal: () => notARefusal(answered),
    problemAsJson: () => notJson(answered),
  };
}

function readAs<S extends z.ZodType>(answered: Answered, schema: S): z.infer<S> | string {
  const problem = problemOf(answered);
  if (problem) return problem;
  const json = jsonOf(answered.body);
  if (json === undefined) return notJson(answered);
  const parsed = schema.safeParse(json);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  return `its answer is not as documented: ${issue?.path.join('.') || 'the body'}: ${issue?.message}`;
}

function foundIn(answered: Answered): ProtocolEffect | null | string {
  const problem = problemOf(answered);
  if (problem) return `effect.find: ${problem}, with "effect": null when nothing was made`;
  const json = jsonOf(answered.body);
  if (json === undefined) return notJson(answered);
  const parsed = foundAnswer.safeParse(json);
  if (parsed.success) return parsed.data.effect;
  return 'its answer must be {"effect": …}, with null for a key that has no effect';
}

function notARefusal({ status, failure, body }: Answered): string | undefined {
  if (status !== 400 && status !== 422) {
    return `answered ${status || failure}; it must answer 400 or 422, because it will never do this`;
  }
  const hasReason = refusalAnswer.safeParse(jsonOf(body)).success;
  return hasReason ? undefined : 'the rejection has no {"error": {"message": …}} that says why';
}

/** Maximum length of an answer in a text. Characters. */
const SHOWN_MAX = 80;

function notJson({ body }: Answered): string {
  const start = printable(body.slice(0, SHOWN_MAX).replaceAll(/\s+/g, ' '));
  return `its answer is no JSON${start === '' ? ', it is empty' : `: "${start}"`}. Is another program at this address?`;
}

function problemOf({ status, failure, body }: Answered): string | undefined {
  if (status === 0) return `no answer: ${failure}`;
  if (status >= 200 && status < 300) return undefined;
  const refusal = refusalAnswer.safeParse(jsonOf(body));
  const why = refusal.success ? ` ("${refusal.data.error.message.slice(0, 200)}")` : '';
  return `answered ${status}${why}; it must answer 200`;
}

// Amounts and effects, in the form in which checks send and compare them.

/** An amount with all decimals of a currency. With 19 and `9` it is 19.90 in pounds, 19 in yen and 19.900 in dinars. */
export function amountOf(units: string, currency: string, fraction = '10'): string {
  const digits = decimalsOf(currency) ?? 2;
  return digits === 0 ? units : `${units}.${fraction.slice(0, digits).padEnd(digits, '0')}`;
}

/** The content of a reply: an effect, null for none, or a text that says what is wrong. */
type Read = ProtocolEffect | null | string;

export function isEffect(read: Read): boolean {
  return read !== null && typeof read !== 'string';
}

/** Whether both replies have an effect with the same id and amount. The currency is not compared. */
export function isSame(one: Read, other: Read): boolean {
  if (one === null || other === null) return false;
  if (typeof one === 'string' || typeof other === 'string') return false;
  return String(one.id) === String(other.id) && one.amount === other.amount;
}

/** Says how two replies about one key differ, or what is wrong with one of them. */
export function differing(first: Read, second: Read): string {
  if (typeof first === 'string') return `the first request: ${first}`;
  if (typeof second === 'string') return `the next request: ${second}`;
  return `first ${shown(first)}, then ${shown(second)}; one key must have one effect`;
}

/** A reply in words. */
export function shown(read: Read): string {
  if (read === null) return 'no effect';
  if (typeof read === 'string') return read;
  return read.amount === undefined
    ? `effect ${read.id}`
    : `effect ${read.id} of ${read.amount} ${read.currency}`;
}
