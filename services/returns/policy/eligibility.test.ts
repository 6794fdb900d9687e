import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import {
  Ineligibility_Code as Code,
  PolicySchema,
  ReturnWindow_Start as Start,
} from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import { Outcome } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { OrderFacts } from '../../commerce/provider.ts';
import { type JudgedLine, judge, sentenceOf } from './eligibility.ts';

type PolicyPart = MessageInitShape<typeof PolicySchema>;

const NOW = new Date('2026-11-30T12:00:00Z');
const daysAgo = (days: number) => new Date(NOW.getTime() - days * 86_400_000);
/** Delivered 10 days ago, shipped 12 days ago, ordered 20 days ago. */
const TIMES = { deliveredAt: daysAgo(10), fulfilledAt: daysAgo(12), orderedAt: daysAgo(20) };
const LINE: JudgedLine = {
  id: 1n,
  sku: 'MUG-RED-1',
  productId: 7n,
  tags: ['kitchen'],
  kind: 'product',
  quantity: 3,
  shipped: 3,
  returnable: 3,
  inOpenReturns: 0,
  returned: 0,
  refundedThere: 0,
};

interface Case {
  readonly policy?: PolicyPart;
  readonly order?: OrderFacts;
  readonly line?: Partial<JudgedLine>;
}

function verdictOf({ policy = {}, order = TIMES, line = {} }: Case) {
  const judged = { ...order, lines: [{ ...LINE, ...line }] };
  const [verdict] = judge(create(PolicySchema, policy), judged, NOW);
  if (!verdict) throw new Error('no verdict');
  return verdict;
}

const windowOf = (days: number | undefined, from: Start = Start.UNSPECIFIED) => ({
  window: { ...(days !== undefined && { days }), from },
});
const finalSale = (skus: string[]) => ({ finalSale: { skus } });
const exception = (more: object, skus = ['MUG-*']) => ({ items: { skus }, ...more });

describe('all units of a line', () => {
  test.each<[string, Case, readonly Code[]]>([
    ['without a policy', {}, []],
    ['in a window without an end', { policy: windowOf(undefined) }, []],
    ['in the window', { policy: windowOf(10) }, []],
    ['after the window since the delivery', { policy: windowOf(9) }, [Code.WINDOW_ENDED]],
    ['in the window since the shipping', { policy: windowOf(12, Start.FULFILLED) }, []],
    ['after it', { policy: windowOf(11, Start.FULFILLED) }, [Code.WINDOW_ENDED]],
    ['in the window since the order', { policy: windowOf(20, Start.ORDERED) }, []],
    ['after it', { policy: windowOf(19, Start.ORDERED) }, [Code.WINDOW_ENDED]],
    [
      'whose delivery is unknown, so that the shipping counts',
      { policy: windowOf(11), order: { ...TIMES, deliveredAt: undefined } },
      [Code.WINDOW_ENDED],
    ],
    [
      'of which only the time of the order is known',
      { policy: windowOf(19), order: { orderedAt: TIMES.orderedAt } },
      [Code.WINDOW_ENDED],
    ],
    ['of which no time is known', { policy: windowOf(0), order: {} }, []],
    ['of a final sale by SKU', { policy: finalSale(['MUG-RED-1']) }, [Code.FINAL_SALE]],
    ['of another SKU', { policy: finalSale(['MUG-RED']) }, []],
    ['by the beginning of the SKU', { policy: finalSale(['MUG-*']) }, [Code.FINAL_SALE]],
    ['by its end', { policy: finalSale(['*-1']) }, [Code.FINAL_SALE]],
    ['by both', { policy: finalSale(['MUG*1']) }, [Code.FINAL_SALE]],
    ['by parts that overlap', { policy: finalSale(['MUG-RED-*-1']) }, []],
    ['by every SKU', { policy: finalSale(['*']) }, [Code.FINAL_SALE]],
    ['without a SKU', { policy: finalSale(['*']), line: { sku: '' } }, []],
    ['by the product', { policy: { finalSale: { productIds: [7n] } } }, [Code.FINAL_SALE]],
    ['by a tag', { policy: { finalSale: { tags: ['kitchen'] } } }, [Code.FINAL_SALE]],
    [
      'whose tags are unknown',
      { policy: { finalSale: { tags: ['kitchen'] } }, line: { tags: undefined } },
      [],
    ],
    [
      'from a country that is not served',
      { policy: { countries: ['DE', 'FR'] }, order: { ...TIMES, shippingCountry: 'GB' } },
      [Code.COUNTRY_NOT_SERVED],
    ],
    [
      'from a country that is served',
      { policy: { countries: ['DE', 'GB'] }, order: { ...TIMES, shippingCountry: 'GB' } },
      [],
    ],
    ['from an unknown country', { policy: { countries: ['DE'] } }, []],
    ['of a gift card', { line: { kind: 'gift_card', returnable: 0 } }, [Code.NOT_A_PRODUCT]],
    ['of a tip', { line: { kind: 'tip', returnable: 0 } }, [Code.NOT_A_PRODUCT]],
    ['of a service', { line: { kind: 'service', returnable: 0 } }, [Code.NOT_A_PRODUCT]],
    ['of an unknown kind', { line: { kind: undefined } }, []],
    ['of a cancelled order', { order: { ...TIMES, cancelledAt: NOW } }, [Code.ORDER_CANCELLED]],
    [
      'with a longer window by an exception',
      { policy: { ...windowOf(9), exceptions: [exception(windowOf(30))] } },
      [],
    ],
    [
      'with no end by an exception',
      { policy: { ...windowOf(9), exceptions: [exception(windowOf(undefined))] } },
      [],
    ],
    [
      'by the first exception that has them',
      {
        policy: {
          exceptions: [
            exception(windowOf(1), ['HAT']),
            exception(windowOf(2)),
            exception(windowOf(30)),
          ],
        },
      },
      [Code.WINDOW_ENDED],
    ],
    [
      'that have an exception only for the outcomes',
      { policy: { ...windowOf(9), exceptions: [exception({ outcomes: [Outcome.CREDIT] })] } },
      [Code.WINDOW_ENDED],
    ],
    [
      'for several reasons',
      { policy: { ...windowOf(1), ...finalSale(['*']) }, order: { ...TIMES, cancelledAt: NOW } },
      [Code.ORDER_CANCELLED, Code.FINAL_SALE, Code.WINDOW_ENDED],
    ],
  ])('%s (%#)', (_, given, reasons) => {
    const verdict = verdictOf(given);
    expect(verdict.reasons).toEqual(reasons);
    const { returnable } = { ...LINE, ...given.line };
    expect(verdict.returnable).toBe(reasons.length > 0 ? 0 : returnable);
  });
});

describe('some units of a line', () => {
  test.each<[string, Partial<JudgedLine>, readonly Code[]]>([
    ['are in an open return', { returnable: 2, inOpenReturns: 1 }, [Code.IN_OPEN_RETURN]],
    ['were returned', { returnable: 1, returned: 2 }, [Code.ALREADY_RETURNED]],
    ['were refunded at the platform', { returnable: 2, refundedThere: 1 }, [Code.REFUNDED]],
    ['were not shipped', { returnable: 2, shipped: 2 }, [Code.NOT_FULFILLED]],
    ['are held back by the platform', { returnable: 2, shipped: undefined }, [Code.NOT_FULFILLED]],
    [
      'have reasons each',
      { quantity: 5, returnable: 1, inOpenReturns: 1, returned: 1, refundedThere: 1, shipped: 4 },
      [Code.IN_OPEN_RETURN, Code.ALREADY_RETURNED, Code.REFUNDED, Code.NOT_FULFILLED],
    ],
  ])('%s: the others may be returned', (_, line, reasons) => {
    expect(verdictOf({ line })).toMatchObject({ returnable: line.returnable, reasons });
  });
});

test('a window ends some days after its start', () => {
  expect(verdictOf({ policy: windowOf(30) }).windowEndsAt).toEqual(daysAgo(-20));
  expect(verdictOf({ policy: windowOf(0, Start.ORDERED) }).windowEndsAt).toEqual(daysAgo(20));
  expect(verdictOf({}).windowEndsAt).toBeUndefined();
});

test('the outcomes are those of the policy, or of the exception, in one order', () => {
  const all = [Outcome.REFUND, Outcome.EXCHANGE, Outcome.CREDIT];
  expect(verdictOf({}).outcomes).toEqual(all);
  const policy = { outcomes: [Outcome.CREDIT, Outcome.REFUND] };
  expect(verdictOf({ policy }).outcomes).toEqual([Outcome.REFUND, Outcome.CREDIT]);
  const exceptions = [exception({ outcomes: [Outcome.EXCHANGE] })];
  expect(verdictOf({ policy: { ...policy, exceptions } }).outcomes).toEqual([Outcome.EXCHANGE]);
  const other = [exception(windowOf(5))];
  expect(verdictOf({ policy: { ...policy, exceptions: other } }).outcomes).toHaveLength(2);
});

test('each reason has a sentence', () => {
  const codes = Object.values(Code).filter((code) => typeof code === 'number' && code > 0);
  expect(codes).toHaveLength(9);
  for (const code of codes) expect(sentenceOf(code as Code)).toMatch(/^[A-Z].+\.$/);
});
