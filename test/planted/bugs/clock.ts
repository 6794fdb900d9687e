import type { Bug } from '../bug.ts';

/** Bugs of what must hold whatever the clocks do. */
export const clockBugs: readonly Bug[] = [
  {
    name: 'lease-ends-by-the-clock',
    promise: "a step of the database's clock takes no job from a live worker",
    file: 'services/returns/processing/worker.ts',
    find: 'const dead = watch.dead(rows, queriedMs);',
    replace: 'const dead = rows.filter(({ endsInMs }) => endsInMs <= 0);',
    tests: ['services/returns/processing/outage.test.ts'],
  },
  {
    name: 'request-settled-by-the-clock',
    promise: 'one refund is made, whatever the clock of PostgreSQL does',
    file: 'services/returns/processing/perform.ts',
    find: 'if (seenMs >= commerce.settledAfterMs)',
    replace: 'if (Math.max(seenMs, o.step.oldestRequestMsAgo ?? 0) >= commerce.settledAfterMs)',
    tests: ['services/returns/processing/outage.test.ts'],
  },
  {
    name: 'settled-by-a-person-too-early',
    promise: 'a person cannot say that nothing was made while the request may still arrive',
    file: 'services/returns/processing/effects.ts',
    find: 'if (leftMs > 0) {',
    replace: 'if (leftMs > ON_ITS_WAY_MS) {',
    tests: ['services/returns/processing/effects.test.ts'],
  },
  {
    name: 'late-request-not-checked',
    promise: '`commerce check` finds an endpoint that works on a request that is 45 seconds old',
    file: 'services/commerce/check/checks.ts',
    find: "'old', 'late', 'of another body'",
    replace: "'old', 'of another body'",
    tests: ['services/commerce/check/checks.test.ts'],
  },
  {
    name: 'late-request-signed-again',
    promise: 'a request is signed with the time before it was recorded',
    file: 'services/commerce/http/adapter.ts',
    find: 'new Date(request.recordedAtMs ?? Date.now())',
    replace: 'new Date()',
    tests: ['services/commerce/http/reference.test.ts'],
  },
  {
    name: 'update-without-time-is-late',
    promise:
      'a carrier update without a time is not older than the last one, whose clock was ahead',
    file: 'services/returns/labels/labels.ts',
    find: 'greatest(now(), heard_at)',
    replace: 'now()',
    tests: ['services/returns/labels/labels.test.ts'],
  },
  {
    name: 'label-heard-when-recorded',
    promise: 'what the carrier saw before the label was recorded here counts',
    file: 'services/returns/labels/labels.ts',
    find: 'const isUnheard = !input.createdAt && input.status === LabelStatus.NEW;',
    replace: 'const isUnheard = false;',
    tests: ['services/returns/labels/labels.test.ts'],
  },
  {
    name: 'claim-ends-by-the-clock',
    promise:
      'a token of Shopify is refreshed by one process, whatever the clock of PostgreSQL does',
    file: 'services/commerce/shopify-app/access-tokens.ts',
    find: 'claims.seenMs({ ...seen, askedAt: after }) < CLAIM_MS',
    replace: 'claims.seenMs({ ...seen, askedAt: after }) < 0',
    tests: ['services/commerce/shopify-app/token-claims.test.ts'],
  },
  {
    name: 'wrong-clock-not-shown',
    promise: 'a metric shows that the clock which signs webhooks is wrong',
    file: 'services/webhooks/delivery/dispatcher.ts',
    find: 'aheadOfDatabaseMs: () => Date.now() - o.databaseClock.nowMs(),',
    replace: 'aheadOfDatabaseMs: () => 0,',
    tests: ['services/webhooks/delivery/queue/clock-steps.test.ts'],
  },
];
