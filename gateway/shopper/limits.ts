import type pg from 'pg';
import { type Admission, createRateLimit, type RateLimit } from '../auth/rate-limits.ts';

/** Look-ups of one shop in a minute, so that strangers cannot flood its commerce platform. */
const OF_SHOP = 300;
/**
 * Failed look-ups of one order name in a minute. They count for orders that do not exist, too, and only failures count, so
 * that the limit says nothing about an order, and keeps nobody away for long.
 */
const FAILURES_OF_ORDER = 10;
const MINUTE_S = 60;

/** Limits of look-ups by shoppers. They are exact over all replicas. */
export interface LookUpLimits {
  /** Counts a look-up. */
  take(o: {
    readonly address: string;
    readonly shopId: bigint;
    readonly order: string;
  }): Promise<Admission>;
  /** Counts a withdrawal. */
  declared(address: string): Promise<Admission>;
  /** Counts a look-up that found nothing. */
  failed(shopId: bigint, order: string): Promise<Admission>;
  reset(): void;
}

/** @param ofAddress the limit by IP address. */
export function createLookUpLimits(pool: pg.Pool, ofAddress: RateLimit): LookUpLimits {
  const limitOf = (name: string, points: number) =>
    createRateLimit({ pool, name, points, windowS: MINUTE_S, whenUnavailable: 'reject' });
  const ofShop = limitOf('shopper-shop', OF_SHOP);
  const ofOrder = limitOf('shopper-order', FAILURES_OF_ORDER);
  const keyOf = (shopId: bigint, order: string) => `${shopId}:${order.toLowerCase()}`;
  return {
    async take({ address, shopId, order }) {
      const key = keyOf(shopId, order);
      if (ofOrder.isUsedUp(key)) return { admitted: false, retryAfterS: ofOrder.rest(key).seconds };
      const byAddress = await ofAddress.take(address);
      return byAddress.admitted ? ofShop.take(String(shopId)) : byAddress;
    },
    declared: (address) => ofAddress.take(`withdrawals ${address}`),
    failed: (shopId, order) => ofOrder.take(keyOf(shopId, order)),
    reset() {
      ofShop.reset();
      ofOrder.reset();
    },
  };
}
