import { mkdtempSync, rmSync } from 'node:fs';
import type { Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createEndpoint } from '../../../deploy/local/commerce/endpoint.ts';
import { type LedgerEffect, openLedger } from '../../../deploy/local/commerce/ledger.ts';
import type { LedgerEntry, LedgerOfReturn } from '../../../services/commerce/embedded.ts';
import { createHttpCommerce } from '../../../services/commerce/http/adapter.ts';
import {
  type CommerceClient,
  createCommerceClient,
} from '../../../services/commerce/http/client.ts';
import {
  CommerceFailure,
  type CommerceProvider,
  type FailureKind,
} from '../../../services/commerce/provider.ts';
import { newSecret, signingKeyOf } from '../../../services/platform/outbound/signature.ts';
import type { Random } from '../random.ts';

/** A commerce provider whose own ledger judges what was made. */
export interface JudgedProvider extends CommerceProvider {
  /** Makes the next `times` requests of a return fail. */
  failNext(o: { returnId: bigint; kind: FailureKind; times: number }): Promise<void>;
  /** The effects for a return, oldest first. */
  ordersOf(returnId: bigint): Promise<LedgerOfReturn>;
}

/** An effect that is not known after this time was not made. Milliseconds. */
const SETTLED_AFTER_MS = 250;
/** A search waits for requests that are older, so that the line above is true also on a machine that stands still. */
const LATE_AFTER_MS = SETTLED_AFTER_MS / 2;
const MAX_DELAY_MS = 20;

/**
 * The reference endpoint behind a bad network: late requests, lost answers, duplicates, 429 and 500 before and after the
 * effect. It is called through the adapter `http`.
 *
 * @param o.forgets whether the endpoint makes an effect for every request that reaches it, also for a repeated key.
 *   Then the network makes no duplicates.
 */
export async function startBadEndpoint(o: {
  readonly random: Random;
  readonly forgets: boolean;
}): Promise<JudgedProvider & { stop(): Promise<void> }> {
  const folder = mkdtempSync(join(tmpdir(), 'rms-endpoint-'));
  const ledger = openLedger(join(folder, 'ledger.jsonl'));
  const secret = newSecret();
  const endpoint = createEndpoint({ secrets: [secret], ledger, forgets: o.forgets });
  const listening = endpoint.listen(0, '127.0.0.1');
  const url = await urlOf(listening);
  const policy = { allowedOrigins: ['http://127.0.0.1:*'], stackPorts: () => [] };
  const client = createCommerceClient({ policy });
  const onTheWay = new Map<Promise<unknown>, number>();
  const http = createHttpCommerce({
    client: tracked(badNetwork(client, o), onTheWay),
    url,
    keys: [signingKeyOf(secret)],
    sandbox: false,
  });
  return {
    ...withPlannedFailures(http, onTheWay),
    async ordersOf(returnId) {
      const own = ledger.all().filter((one) => BigInt(one.return_id) === returnId);
      const of = (kind: string) => own.filter((one) => one.kind === kind).map(entryOf);
      return {
        orders: of('exchange_order'),
        giftCards: of('gift_card'),
        refunds: of('refund'),
        restocks: of('restock'),
        cancellations: of('order_cancel'),
      };
    },
    async stop() {
      await client.close();
      listening.closeAllConnections();
      listening.close();
      ledger.close();
      rmSync(folder, { recursive: true });
    },
  };
}

/** A provider that fails as planned, and whose search waits for the older of the requests that are on their way. */
export function withPlannedFailures(
  provider: CommerceProvider,
  onTheWay: ReadonlyMap<Promise<unknown>, number>,
): Omit<JudgedProvider, 'ordersOf'> {
  const planned = new Map<bigint, { kind: FailureKind; times: number }>();
  return {
    settledAfterMs: SETTLED_AFTER_MS,
    async create(request, signal) {
      const failure = planned.get(request.returnId);
      if (failure && failure.times > 0) {
        failure.times -= 1;
        throw new CommerceFailure(failure.kind, 'planned failure');
      }
      return provider.create(request, signal);
    },
    async find(request, signal) {
      const old = performance.now() - LATE_AFTER_MS;
      await Promise.allSettled(
        [...onTheWay].filter(([, since]) => since < old).map(([sent]) => sent),
      );
      return provider.find(request, signal);
    },
    list: provider.list,
    async failNext({ returnId, kind, times }) {
      planned.set(returnId, { kind, times });
    },
  };
}

async function urlOf(server: Server): Promise<string> {
  await new Promise((resolve) => server.once('listening', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return `http://127.0.0.1:${address.port}/`;
}

/** Keeps each request, and when it was sent, while it is on its way. */
function tracked(client: CommerceClient, onTheWay: Map<Promise<unknown>, number>): CommerceClient {
  return {
    close: client.close,
    post(request) {
      const sent = client.post(request);
      const ended = sent.catch(() => {}).then(() => void onTheWay.delete(sent));
      onTheWay.set(sent, performance.now());
      return ended.then(() => sent);
    },
  };
}

function badNetwork(
  client: CommerceClient,
  { random, forgets }: { readonly random: Random; readonly forgets: boolean },
): CommerceClient {
  const late = () => sleep(random.between(0, MAX_DELAY_MS));
  const lost = () => Promise.reject(Object.assign(new Error('lost'), { code: 'ECONNRESET' }));
  const refusal = (status: number) => ({
    status,
    body: '',
    retryAfter: undefined,
    date: undefined,
  });
  return {
    close: client.close,
    async post(request) {
      // A request that has left arrives, also when its process is killed.
      const whole = { ...request, signal: AbortSignal.timeout(5_000) };
      const fault = random.between(1, 12);
      if (fault === 1) return refusal(429);
      if (fault === 2) return refusal(500);
      if (fault === 3) return lost();
      if (fault === 4) await late();
      if (fault === 5 && !forgets) await client.post(whole);
      const answer = await client.post(whole);
      if (fault === 6) await late();
      if (fault === 7) return lost();
      return fault === 8 ? refusal(500) : answer;
    },
  };
}

function entryOf(effect: LedgerEffect): LedgerEntry {
  const { id, amount = '0', currency = '', due = '0', key: idempotencyKey } = effect;
  const entry = { id: BigInt(id), amount, currency, due, idempotencyKey };
  return { ...entry, calls: 1, additionalDetails: {} };
}
