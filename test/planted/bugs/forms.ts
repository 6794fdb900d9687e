import type { Bug } from '../bug.ts';

/** Bugs in the forms and filters of the portal, and in what its API makes of them. */
export const formBugs: readonly Bug[] = [
  {
    name: 'filter-of-zero-is-all',
    promise: 'a filter by an id that no object can have never selects everything',
    file: 'gateway/portal/fields.ts',
    find: "  if (id < 1n || id > MAX_ID) throw invalid(field, 'must be the number of an object');\n",
    replace: '',
    tests: ['gateway/portal/filter-ids.test.ts'],
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
  {
    name: 'lifetime-is-a-time',
    promise: 'a repeat of a new API key is the same when its lifetime is a number of days',
    file: 'gateway/tenancy/api-keys.ts',
    find: '    lifetimeDays ?? expiresAt,\n',
    replace: '    expiresAt,\n',
    tests: ['gateway/portal/api-keys.test.ts'],
  },
  {
    name: 'clock-of-the-browser',
    promise: 'the portal counts time by the clock of the service',
    file: 'portal/src/parts/time/clock.ts',
    find: 'return Date.now() + behindMs;',
    replace: 'return Date.now();',
    tests: ['portal/src/parts/time/clock.test.ts'],
  },
  {
    name: 'payload-numbers-rewritten',
    promise: 'the portal shows the numbers of a payload as they were sent',
    file: 'portal/src/parts/text/pretty-json.ts',
    find: "    return token === ':' ? ': ' : token;",
    replace:
      "    return token === ':' ? ': ' : /^-?\\d/.test(token) ? String(Number(token)) : token;",
    tests: ['portal/src/parts/text/pretty-json.test.ts'],
  },
  {
    name: 'nul-is-a-bug-of-ours',
    promise: 'a text that cannot be stored is the fault of the caller, never an internal error',
    file: 'gateway/portal/errors.ts',
    find: '  if (hasNul(error)) {',
    replace: '  if (!hasNul) {',
    tests: ['gateway/portal/team.test.ts'],
  },
  {
    name: 'audit-search-as-stored',
    promise: 'the search of the audit log finds every spelling of Unicode',
    file: 'gateway/tenancy/audit-list.ts',
    find: '  const wanted = normalForm(text).toLowerCase();',
    replace: '  const wanted = text.toLowerCase();',
    tests: ['gateway/portal/team.test.ts'],
  },
  {
    name: 'processed-as-not-shown',
    promise: 'a click processes a return only with the effects that the user saw',
    file: 'portal/src/pages/returns/effects.ts',
    find: 'expectedRevision: revision',
    replace: 'expectedRevision: 0n',
    tests: ['portal/src/pages/returns/effects.test.ts'],
  },
];
