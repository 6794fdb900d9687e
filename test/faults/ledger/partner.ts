import { setTimeout as sleep } from 'node:timers/promises';
import { runToSuccess } from '../../kit/process.ts';
import type { Random } from '../../kit/random.ts';
import type { System } from '../system/system.ts';
import { waitFor } from '../wait.ts';
import type { Publisher } from './publisher.ts';

/** A shop of the gateway, and an API key. */
export interface PartnerShop {
  readonly shopId: number;
  readonly key: string;
}

/** The responses that a partner got. */
export interface PartnerLoad {
  /** Number of responses by status. Status 0 means no response. */
  readonly statuses: ReadonlyMap<number, number>;
  /** Responses that are wrong even during an outage, such as a 503 without Retry-After. */
  readonly violations: readonly string[];
  /** Waits until a read and a write succeed. Returns how long that took. Milliseconds. */
  untilHealthy(withinMs: number): Promise<number>;
  stop(): Promise<void>;
}

const SCOPES = 'returns,carts,developer_tools,destinations:write,destinations:read';
/** A response may be slow during an outage, but it must arrive. Milliseconds. */
const RESPONSE_MS = 30_000;

/** Creates a shop and a key with the admin commands, in the gateway's environment. */
export async function openPartnerShop(system: System): Promise<PartnerShop> {
  await system.startFront();
  const [gateway] = system.members('gateway');
  if (!gateway) throw new Error('there is no gateway');
  const admin = (...args: string[]) =>
    runToSuccess({ args: ['gateway/admin/main.ts', ...args], env: gateway.process.env });
  const output = await admin(
    ...['shop', 'create', '--name', 'Faults & Co', '--currency', 'GBP'],
    ...['--owner-email', 'owner@example.com'],
  );
  const shopId = Number(/^shop (\d+) /m.exec(output)?.[1]);
  const key = await admin('key', 'create', '--shop', `${shopId}`, '--scopes', SCOPES);
  return { shopId, key: key.trim() };
}

interface Request {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly body?: object;
}

/** Calls REST like a partner at a constant rate, with alternating reads and writes. */
export function startPartner(o: {
  readonly system: System;
  readonly shop: PartnerShop;
  readonly random: Random;
  readonly perSecond: number;
  /** The source of returns to read. */
  readonly publisher: Publisher;
}): PartnerLoad {
  const statuses = new Map<number, number>();
  const violations: string[] = [];
  const open = new Set<Promise<unknown>>();
  let isStopped = false;

  const call = async ({ method, path, body }: Request): Promise<number> => {
    const answer = await fetch(`${o.system.baseUrl}/api/2026-10${path}`, {
      method,
      headers: { 'X-Authorization': o.shop.key, 'Content-Type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(RESPONSE_MS),
    }).catch((error: unknown) => {
      violations.push(`${method} ${path}: no response (${String(error)})`);
      return undefined;
    });
    await answer?.arrayBuffer();
    const status = answer?.status ?? 0;
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    if (status >= 500 && status !== 503) violations.push(`${method} ${path}: ${status}`);
    if (status === 503 && !answer?.headers.has('retry-after')) {
      violations.push(`${method} ${path}: 503 without Retry-After`);
    }
    return status;
  };
  const aReturn = (): string => {
    const known = o.publisher.acknowledged.filter(({ trigger }) => trigger === 'return.created');
    return known.length > 0 ? (o.random.pick(known).key.split(':')[1] ?? '1') : '1';
  };
  const read = (): Request => ({
    method: 'GET',
    path: `/warehouse/return/details?return_id=${aReturn()}`,
  });
  const write = (): Request => ({ method: 'POST', path: '/cart', body: { cart: [1] } });
  const other = (): Request => ({ method: 'GET', path: '/webhooks' });

  const running = (async () => {
    while (!isStopped) {
      const work = call(o.random.pick([read, write, other])()).finally(() => open.delete(work));
      open.add(work);
      await sleep((1_000 / o.perSecond) * 2 * o.random.next());
    }
  })();
  return {
    statuses,
    violations,
    async untilHealthy(withinMs) {
      const began = performance.now();
      const isHealthy = async (): Promise<boolean> => {
        const [first, second] = await Promise.all([call(read()), call(write())]);
        return first < 500 && first > 0 && second < 300 && second > 0;
      };
      await waitFor(isHealthy, { what: 'REST responds again', withinMs, everyMs: 50 });
      return performance.now() - began;
    },
    async stop() {
      isStopped = true;
      await running;
      await Promise.all(open);
    },
  };
}
