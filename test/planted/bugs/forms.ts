import type { Bug } from '../bug.ts';

/** Bugs in the forms and filters of the portal, and in what its API makes of them. */
export const formBugs: readonly Bug[] = [
  {
    name: 'filter-of-zero-is-all',
    promise: 'a filter by an id that no object can have never selects everything',
    file: 'gateway/portal/fields.ts',
    find: "  if (id < 1n || id > MAX_ID) throw invalid(field, 'must be the number of an object');\n",
    replace: '',
    tests: ['gateway/portal/deliveries.test.ts'],
  },
  {
    name: 'unread-filter-is-none',
    promise: 'a page shows nothing while a filter of its address cannot be read',
    file: 'portal/src/search.ts',
    find: "readTime(text) : idOr0(text) !== '0';",
    replace: 'readTime(text) : true;',
    tests: ['portal/src/search.test.ts'],
  },
  {
    name: 'day-of-another-month',
    promise: 'a day that does not exist is not taken for another one',
    file: 'portal/src/api/dates.ts',
    find: ' && at.toISOString().startsWith(day)',
    replace: '',
    tests: ['portal/src/search.test.ts'],
  },
];
