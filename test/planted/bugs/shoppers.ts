import type { Bug } from '../bug.ts';

const PAGES = ['test/journeys/shopper-pages.test.ts'];

/** Bugs of the shopper's pages and of withdrawals. */
export const shopperBugs: readonly Bug[] = [
  {
    name: 'order-shown-for-any-address',
    promise: 'nothing of an order is shown before its name and its e-mail address match',
    file: 'services/returns/policy/get-eligibility.ts',
    find: 'if (email !== undefined) return folded(email) === folded(stated);',
    replace: 'if (email !== undefined) return true;',
    tests: ['services/returns/policy/get-eligibility.test.ts'],
  },
  {
    name: 'session-of-another-shop',
    promise: 'a session is for one order of one shop',
    file: 'gateway/shopper/session.ts',
    find: 'content.shop !== String(shopId)',
    replace: 'content.shop === ``',
    tests: ['gateway/shopper/session.test.ts'],
  },
  {
    name: 'session-without-end',
    promise: 'a session ends after 30 minutes',
    file: 'gateway/shopper/session.ts',
    find: 'content.ends <= Date.now()',
    replace: 'content.ends <= 0',
    tests: ['gateway/shopper/session.test.ts'],
  },
  {
    name: 'guesses-not-counted',
    promise: 'failed look-ups of one order name are limited',
    file: 'gateway/shopper/steps.ts',
    find: 'await deps.limits.failed(shopId, order);',
    replace: '',
    tests: PAGES,
  },
  {
    name: 'link-after-redaction',
    promise: 'the link of a return dies with the redaction of its shopper',
    file: 'services/returns/retention/redact.ts',
    find: 'await endStatusLinks(tx, shopId, returnIds);',
    replace: '',
    tests: ['services/returns/status-links.test.ts'],
  },
  {
    name: 'tried-submission-stays',
    promise: 'a submission that is only validated leaves nothing behind',
    file: 'services/returns/submit/submit.ts',
    find: 'if (request.validateOnly && made) throw new OnlyTried(made);',
    replace: '',
    tests: ['services/returns/submit/validate-only.test.ts'],
  },
  {
    name: 'withdrawal-of-a-dead-process-lost',
    promise: 'a withdrawal that a shopper confirmed is recorded, whatever process dies',
    file: 'gateway/mail/start.ts',
    find: 'const declaredAt = await recordDeclared(o.returns, shopId, declaration).catch(',
    replace: 'const declaredAt = await Promise.resolve(new Date(declaration.declared_at)).catch(',
    tests: ['gateway/mail/shopper-mails.test.ts'],
  },
  {
    name: 'withdrawal-becomes-two-returns',
    promise: 'a withdrawal becomes one return',
    file: 'services/returns/submit/submit-store.ts',
    find: 'if (withdrawalId === 0n) return [];',
    replace: 'return [];',
    tests: ['services/returns/withdrawals/withdrawals.test.ts'],
  },
];
