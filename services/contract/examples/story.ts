import { isoTime } from '../time.ts';

// The ids, names and times of the examples in the OpenAPI documents. All examples are about the first return of the
// demo shop of `npm start` (deploy/local/demo). So a request in one example uses ids from the response in another.

export const SHOP_ID = 1n;
export const RETURN_ID = 1n;
export const ORDER_ID = 1n;
/** Number of the first demo order, whose name is `#10000`. Ids at the commerce provider are derived from it. */
export const SERIAL = 10_000;
export const LINE_ITEM_IDS = [1n, 2n] as const;
export const LABEL_ID = 1n;
export const DESTINATION_ID = 1n;
export const WEBHOOK_ID = 1;
/** The first id that the embedded commerce provider gives. */
export const PROVIDER_IDS = 1_000_000_000_000n;

/** The times of what happens to the return, in this order. */
export const AT = {
  submitted: new Date('2026-11-20T09:12:44Z'),
  labelled: new Date('2026-11-20T09:13:02Z'),
  delivered: new Date('2026-11-23T08:31:00Z'),
  inspected: new Date('2026-11-24T10:00:00Z'),
  assessed: new Date('2026-11-24T10:04:12Z'),
  processed: new Date('2026-11-24T10:05:30Z'),
  closed: new Date('2026-11-24T10:05:31Z'),
  reported: new Date('2026-11-24T10:20:00Z'),
} as const;

export const TIMES = {
  subscribed: '2026-11-02T08:00:00+00:00',
  rotated: '2026-11-24T11:00:00+00:00',
  overlapEnds: '2026-11-25T11:00:00+00:00',
  outageBegan: '2026-11-23T08:00:00+00:00',
  outageEnded: '2026-11-23T10:00:00+00:00',
  delivered: isoTime(AT.delivered),
  inspected: isoTime(AT.inspected),
  closed: isoTime(AT.closed),
} as const;

/** The person of the warehouse who inspects the goods. RFC 2606 reserves the domain for examples. */
export const WAREHOUSE_PARTNER = 'warehouse@example.com';
export const RECEIVER_URL = 'https://example.com/webhooks/returns';
