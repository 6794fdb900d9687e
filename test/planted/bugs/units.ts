import type { Bug } from '../bug.ts';

/** Bugs of how units of an order line are counted over its returns. */
export const unitBugs: readonly Bug[] = [
  {
    name: 'units-of-open-returns-not-counted',
    promise: 'all returns of a line together have at most the ordered units',
    file: 'services/returns/returnable.ts',
    find: "(r.state not in ('cancelled', 'expired') or r.id = any($3::bigint[]))) others",
    replace:
      "(r.state not in ('open', 'review', 'cancelled', 'expired') or r.id = any($3::bigint[]))) others",
    tests: ['services/returns/transitions.test.ts'],
  },
  {
    name: 'units-counted-without-lock',
    promise: 'the last unit is in one of two changes at the same time',
    file: 'services/returns/returnable.ts',
    find: 'const [, , rows] = await together(tx, () => allInOrder([lock(), wait(), linesOf(tx, of)]));',
    replace: 'const rows = await linesOf(tx, of);',
    tests: ['services/returns/transitions.test.ts'],
  },
  {
    name: 'units-of-one-shipment-not-counted',
    promise: 'a shipment opens expired returns of a line only up to the ordered units',
    file: 'services/returns/logistics/logistics.ts',
    find: "'Goods reached a warehouse partner', openingIds)",
    replace: "'Goods reached a warehouse partner')",
    tests: ['services/returns/logistics/logistics.test.ts'],
  },
];
