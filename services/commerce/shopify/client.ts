import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { AddressNotAllowed, describeFailure } from '../../platform/outbound/failure.ts';
import { jsonOf } from '../../platform/values/text.ts';
import {
  type Answer,
  type CommerceClientOptions,
  createCommerceClient,
  NotConnected,
  pauseOf,
} from '../http/client.ts';
import { CommerceFailure } from '../provider.ts';
import { isShopDomain, textOf } from './answers.ts';

/**
 * The version of the Admin GraphQL API. Shopify serves a version for 12 months. docs/commerce-shopify.md says how to
 * change it.
 */
export const SHOPIFY_API_VERSION = '2026-10';

const USER_AGENT = 'Returns-Management-Service/1 (commerce)';
/** Maximum number of shops for which the rate limit is in memory. */
const MAX_BUCKETS = 1_000;

/** A GraphQL operation, and the schema of its `data`. */
export interface Operation<S extends z.ZodType> {
  /** Name of the operation in `text`. */
  readonly name: string;
  readonly text: string;
  readonly data: S;
}

/** Creates an operation. Its name is in its text. */
export function operation<S extends z.ZodType>(text: string, data: S): Operation<S> {
  const [, name = ''] = /^\s*(?:query|mutation) (\w+)/.exec(text) ?? [];
  return { name, text, data };
}

/** A store, with one token, during one call of the provider. */
export interface StoreSession extends Pick<ShopifyShop, 'codeSecret'> {
  readonly signal: AbortSignal;
  /** Sends one operation, as {@link ShopifyClient.run} does. */
  run<S extends z.ZodType>(
    asked: Operation<S>,
    variables: Readonly<Record<string, unknown>>,
  ): Promise<z.infer<S>>;
}

/** A store, and the offline token that it gave the app. */
export interface ShopifyShop {
  /** Domain of the store, such as `example.myshopify.com`. */
  readonly shopDomain: string;
  readonly accessToken: string;
  /** The secret from which the codes of gift cards are derived. It stays the same when the token is refreshed. */
  readonly codeSecret: string;
}

/** The client of the Admin API. It connects only to public addresses, and respects the rate limit of each shop. */
export interface ShopifyClient {
  /**
   * Sends one operation.
   *
   * @throws CommerceFailure always `passing`, because a request without a valid answer may have had its effect.
   */
  run<S extends z.ZodType>(o: {
    readonly shop: ShopifyShop;
    readonly operation: Operation<S>;
    readonly variables: Readonly<Record<string, unknown>>;
    readonly signal: AbortSignal;
  }): Promise<z.infer<S>>;
  close(): Promise<void>;
}

interface ShopifyClientOptions extends CommerceClientOptions {
  /** Replaces `https://<shop domain>` (tests). */
  readonly origin?: string;
}

/** Shopify does not accept the token: it has expired or was revoked, or the app was removed. */
export class Unauthorized extends CommerceFailure {}

/** The app may not read a part of what was asked for. */
export class AccessDenied extends CommerceFailure {}

const envelope = z.object({
  data: z.unknown().optional(),
  errors: z
    .array(
      z.object({
        message: z.string(),
        extensions: z.object({ code: z.string().optional() }).optional(),
      }),
    )
    .optional(),
  extensions: z
    .object({
      cost: z
        .object({
          requestedQueryCost: z.number(),
          throttleStatus: z.object({
            maximumAvailable: z.number().positive(),
            currentlyAvailable: z.number(),
            restoreRate: z.number().positive(),
          }),
        })
        .optional(),
    })
    .optional(),
});

/** Creates a client. Several shops may share it. Each has its own rate limit. */
export function createShopifyClient(o: ShopifyClientOptions): ShopifyClient {
  const http = createCommerceClient(o);
  const buckets = new Map<string, Bucket>();

  const bucketOf = (shopDomain: string): Bucket => {
    const known = buckets.get(shopDomain);
    if (known) return known;
    const [oldest] = buckets.keys();
    if (buckets.size >= MAX_BUCKETS && oldest !== undefined) buckets.delete(oldest);
    const bucket = createBucket();
    buckets.set(shopDomain, bucket);
    return bucket;
  };

  return {
    close: () => http.close(),
    async run({ shop, operation, variables, signal }) {
      if (!isShopDomain(shop.shopDomain)) {
        throw passing('the shop domain is not valid', { isUnsent: true });
      }
      const bucket = bucketOf(shop.shopDomain);
      await bucket.afford(operation.name, signal);
      const url = `${o.origin ?? `https://${shop.shopDomain}`}/admin/api/${SHOPIFY_API_VERSION}/graphql.json`;
      const headers = {
        'content-type': 'application/json',
        accept: 'application/json',
        'user-agent': USER_AGENT,
        'x-shopify-access-token': shop.accessToken,
      };
      const { name: operationName, text: query } = operation;
      const body = JSON.stringify({ query, operationName, variables });
      const answer = await http.post({ url, headers, body, signal }).catch((error: unknown) => {
        throw notAnswered(error);
      });
      return read(answer, operation, bucket);
    },
  };
}

function read<S extends z.ZodType>(
  answer: Answer,
  { name, data }: Operation<S>,
  bucket: Bucket,
): z.infer<S> {
  const { status } = answer;
  // A store without the app answers 401, a closed store 402, 403, 404 or 423. The merchant can correct all of these, so
  // none is a final failure.
  if (status === 401) throw new Unauthorized('passing', 'Shopify: it answered 401');
  if (status !== 200) {
    throw passing(`it answered ${status}`, { retryAfterMs: pauseOf(answer) });
  }
  const parsed = envelope.safeParse(jsonOf(answer.body));
  if (!parsed.success) throw passing('its answer is not valid');
  const { errors, extensions } = parsed.data;
  if (extensions?.cost) {
    const { requestedQueryCost, throttleStatus } = extensions.cost;
    bucket.record(name, requestedQueryCost, throttleStatus);
  }
  const [error] = errors ?? [];
  if (error) {
    const code = error.extensions?.code;
    if (code === 'ACCESS_DENIED') {
      throw new AccessDenied('passing', `Shopify: ${textOf(`${code}: ${error.message}`)}`);
    }
    const retryAfterMs = code === 'THROTTLED' ? bucket.pauseFor(name) : undefined;
    throw passing(`${code ?? 'error'}: ${error.message}`, { retryAfterMs });
  }
  const content = data.safeParse(parsed.data.data);
  if (content.success) return content.data;
  throw passing(`its answer is not valid: ${content.error.issues[0]?.path.join('.') ?? ''}`);
}

function notAnswered(error: unknown): CommerceFailure {
  const isUnsent = error instanceof NotConnected || error instanceof AddressNotAllowed;
  const cause = error instanceof NotConnected ? error.cause : error;
  return passing(describeFailure(cause), { cause, isUnsent });
}

function passing(
  why: string,
  options?: ConstructorParameters<typeof CommerceFailure>[2],
): CommerceFailure {
  return new CommerceFailure('passing', `Shopify: ${textOf(why)}`, options);
}

/** The rate limit in an answer (`extensions.cost.throttleStatus`): points, and points per second. */
interface ThrottleStatus {
  readonly maximumAvailable: number;
  readonly currentlyAvailable: number;
  readonly restoreRate: number;
}

/** The points that a shop has left by its newest answer, and the points that each operation costs. */
interface Bucket {
  /** Waits until the points are enough for the operation. @throws CommerceFailure when this takes too long. */
  afford(operation: string, signal: AbortSignal): Promise<void>;
  /** Records the cost in an answer. */
  record(operation: string, cost: number, status: ThrottleStatus): void;
  /** Returns the time until the points are enough for the operation. Milliseconds. */
  pauseFor(operation: string): number;
}

/** Maximum wait. A longer wait would use up the deadline of the call. Milliseconds. */
const MAX_WAIT_MS = 2_000;
/** Assumed cost of an operation that was not sent yet. Points. */
const UNKNOWN_COST = 50;

/** Creates the points of a shop. Until the first answer, they count as complete. */
function createBucket(): Bucket {
  const costs = new Map<string, number>();
  let newest: { readonly status: ThrottleStatus; readonly at: number } | undefined;

  const pauseFor = (operation: string): number => {
    if (!newest) return 0;
    const { maximumAvailable, currentlyAvailable, restoreRate } = newest.status;
    const restored = ((performance.now() - newest.at) / 1_000) * restoreRate;
    const available = Math.min(maximumAvailable, currentlyAvailable + restored);
    const cost = Math.min(maximumAvailable, costs.get(operation) ?? UNKNOWN_COST);
    return Math.ceil((Math.max(0, cost - available) / restoreRate) * 1_000);
  };

  return {
    pauseFor,
    async afford(operation, signal) {
      const pause = pauseFor(operation);
      if (pause > MAX_WAIT_MS) {
        const options = { retryAfterMs: pause, isUnsent: true };
        throw new CommerceFailure('passing', "the shop's rate limit is used up", options);
      }
      if (pause > 0) await sleep(pause, undefined, { signal });
    },
    record(operation, cost, status) {
      costs.set(operation, cost);
      newest = { status, at: performance.now() };
    },
  };
}
