import { setTimeout as sleep } from 'node:timers/promises';
import { ConnectError } from '@connectrpc/connect';
import { LOCAL_ACTOR } from '../../../deploy/local/clients.ts';
import { submission } from '../../../deploy/local/demo/submission.ts';
import { isUnavailable } from '../../../services/platform/values/errors.ts';
import type { System } from '../system/system.ts';
import type { TrialShop } from './shop.ts';

const SHOPPERS = 6;
const GIVE_UP_MS = 90_000;
const PAUSE_MS = 50;

let serial = 0;

/** Shoppers who submit returns, one after the other, and have each processed. */
export function startShoppers(system: System, shop: TrialShop): { stop(): Promise<void> } {
  let isStopped = false;
  const shopper = async (): Promise<void> => {
    while (!isStopped) await returnOnce(system, shop);
  };
  const running = Promise.all(Array.from({ length: SHOPPERS }, shopper));
  running.catch(() => {});
  return {
    async stop() {
      isStopped = true;
      await running;
    },
  };
}

async function returnOnce(system: System, shop: TrialShop): Promise<void> {
  const returnId = await submitted(system, shop);
  const request = { shopId: BigInt(shop.id), actor: LOCAL_ACTOR, returnId, source: 'api' };
  await repeated(() => system.services.returns.processReturn(request)).catch((error: unknown) => {
    // The promoted server may have lost the return.
    if (!isNotFound(error)) throw error;
  });
}

/** Submits a return of an order of its own. Returns its id. */
export async function submitted(system: System, shop: TrialShop): Promise<bigint> {
  serial += 1;
  const key = `failover-${shop.id}-${serial}`;
  const request = submission(shop, {
    key,
    serial: shop.id * 10_000 + serial,
    lines: 1,
  });
  const answer = await repeated(() => system.services.returns.submitReturn(request));
  return answer.return?.id ?? 0n;
}

/** Makes a call until it has a response. */
export async function repeated<T>(call: () => Promise<T>): Promise<T> {
  for (const end = Date.now() + GIVE_UP_MS; ; await sleep(PAUSE_MS)) {
    try {
      return await call();
    } catch (error) {
      if (!isUnavailable(error) || Date.now() > end) throw error;
    }
  }
}

function isNotFound(error: unknown): boolean {
  return error instanceof ConnectError && error.rawMessage.includes('no such return');
}
