import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { graphql, Kind, parse, type SelectionSetNode } from 'graphql';
import { listenOnLoopback } from '../../../../deploy/local/loopback.ts';
import { SHOPIFY_API_VERSION } from '../../../../services/commerce/shopify/client.ts';
import { resolversOf, schema } from './resolvers.ts';
import type { Shop } from './shop.ts';

/** How a request fails. `after` means that it had its effect. */
export type Fault =
  | '401'
  | '429'
  | 'throttled'
  | '500 before'
  | '500 after'
  | 'lost before'
  | 'lost after'
  | 'late'
  | 'late answer'
  | 'duplicate';

export interface ShopifyServerOptions {
  readonly shop: Shop;
  readonly token: string;
  /** The fault of the next request; by default none fails. */
  readonly fault?: (operation: string) => Fault | undefined;
  /** How late the search shows what was made. Milliseconds. */
  readonly lagMs?: number;
  /** Whether `@idempotent` has no effect. */
  readonly forgets?: boolean;
  /** The points of the rate limit, and how many are restored in a second. */
  readonly points?: { readonly maximum: number; readonly restoreRate: number };
}

export interface ShopifyServer {
  readonly origin: string;
  /** The names of the operations that arrived. */
  readonly operations: string[];
  stop(): Promise<void>;
}

interface Asked {
  readonly query: string;
  readonly operationName: string;
  readonly variables: Record<string, unknown>;
}

const LATE_MS = 20;
/** What Shopify charges for a mutation and, about, for our queries. Points. */
const COST = { mutation: 10, query: 5 };

/** A server that executes our part of Shopify's Admin API over a shop in memory, with its throttling. */
export async function startShopify(o: ShopifyServerOptions): Promise<ShopifyServer> {
  const resolvers = resolversOf(o.shop, { lagMs: o.lagMs ?? 0, forgets: o.forgets ?? false });
  const limit = rateLimit(o.points ?? { maximum: 1_000_000, restoreRate: 1_000_000 });
  const operations: string[] = [];

  const execute = async ({ query, operationName, variables }: Asked) => {
    const cost = /^\s*mutation/.test(query) ? COST.mutation : COST.query;
    if (highestCost(query) > MAX_COST) return { errors: [TOO_EXPENSIVE] };
    const isPaid = limit.pay(cost);
    const extensions = { cost: { requestedQueryCost: cost, throttleStatus: limit.status() } };
    if (!isPaid) return { errors: [THROTTLED], extensions };
    const asked = { schema, source: query, rootValue: resolvers, operationName };
    const result = await graphql({ ...asked, variableValues: variables });
    return { ...result, extensions };
  };

  const serve = async (request: IncomingMessage, response: ServerResponse) => {
    const body = await text(request);
    const asked: Asked = JSON.parse(body);
    operations.push(asked.operationName);
    const fault = o.fault?.(asked.operationName);
    const answer = (status: number, content: unknown = '') => {
      response.writeHead(status, status === 429 ? { 'retry-after': '2' } : {});
      response.end(JSON.stringify(content));
    };
    if (request.url !== `/admin/api/${SHOPIFY_API_VERSION}/graphql.json`) return answer(404);
    if (request.headers['x-shopify-access-token'] !== o.token || fault === '401') {
      return answer(401);
    }
    if (fault === '429') return answer(429);
    if (fault === '500 before') return answer(500);
    if (fault === 'throttled') return answer(200, { errors: [THROTTLED] });
    if (fault === 'lost before') return response.destroy();
    if (fault === 'late') await sleep(LATE_MS);
    if (fault === 'duplicate') await execute(asked);
    const result = await execute(asked);
    if (fault === 'late answer') await sleep(LATE_MS);
    if (fault === 'lost after') return response.destroy();
    return fault === '500 after' ? answer(500) : answer(200, result);
  };

  const server = createServer((request, response) => {
    serve(request, response).catch(() => response.destroy());
  });
  const { port, stop } = await listenOnLoopback(server, 0);
  return { origin: `http://127.0.0.1:${port}`, operations, stop };
}

/** The points that Shopify allows for one query. */
const MAX_COST = 1_000;
const TOO_EXPENSIVE = {
  message: `The query costs more than ${MAX_COST} points`,
  extensions: { code: 'MAX_COST_EXCEEDED' },
};

/**
 * What Shopify charges for a query whose lists are full: a point for each object, and two for a list with `first`.
 *
 * @see https://shopify.dev/docs/api/usage/limits
 */
function highestCost(query: string): number {
  const { definitions } = parse(query);
  const fragments = new Map(
    definitions.flatMap((one) =>
      one.kind === Kind.FRAGMENT_DEFINITION ? [[one.name.value, one.selectionSet] as const] : [],
    ),
  );
  const costOf = (set: SelectionSetNode | undefined): number =>
    (set?.selections ?? []).reduce((sum, node) => {
      if (node.kind === Kind.FIELD && node.name.value === 'pageInfo') return sum;
      if (node.kind === Kind.FRAGMENT_SPREAD) return sum + costOf(fragments.get(node.name.value));
      const inside = costOf(node.selectionSet);
      if (node.kind === Kind.INLINE_FRAGMENT || !node.selectionSet) return sum + inside;
      const first = node.arguments?.find(({ name }) => name.value === 'first')?.value;
      return sum + (first?.kind === Kind.INT ? 2 + Number(first.value) * inside : 1 + inside);
    }, 0);
  const [operation] = definitions.filter(({ kind }) => kind === Kind.OPERATION_DEFINITION);
  return operation?.kind === Kind.OPERATION_DEFINITION ? costOf(operation.selectionSet) : 0;
}

const THROTTLED = { message: 'Throttled', extensions: { code: 'THROTTLED' } };

function rateLimit({ maximum, restoreRate }: NonNullable<ShopifyServerOptions['points']>) {
  let available = maximum;
  let at = performance.now();
  return {
    pay(cost: number): boolean {
      const now = performance.now();
      available = Math.min(maximum, available + ((now - at) / 1_000) * restoreRate);
      at = now;
      if (available < cost) return false;
      available -= cost;
      return true;
    },
    status: () => ({
      maximumAvailable: maximum,
      currentlyAvailable: Math.floor(available),
      restoreRate,
    }),
  };
}
