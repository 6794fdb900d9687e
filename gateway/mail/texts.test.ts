import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Fact } from './facts.ts';
import { mailText } from './texts.ts';

const AT = '2026-11-24T05:30:59.123Z';
const subscription = {
  id: '7',
  host: 'hooks.example.com',
  topic: 'return',
  trigger: 'return.closed',
};
const about = { at: AT, subscription, last_error: 'answered 500' };
const times = {
  failing_since: '2026-11-22T01:00:00.000Z',
  disables_at: '2026-11-27T01:00:00.000Z',
};
const context = {
  shopName: 'Hats',
  publicUrl: 'https://api.example.com',
  by: 'ada@example.com',
  hasPortal: true,
};

const FACTS: Readonly<Record<Fact['kind'], Fact>> = {
  endpoint_failing: { kind: 'endpoint_failing', ...about, ...times, percent: 50, failures: 12 },
  endpoint_disabled: {
    kind: 'endpoint_disabled',
    ...about,
    reason: 'failures',
    failures: 40,
    failing_since: times.failing_since,
  },
  endpoint_exhausted: { kind: 'endpoint_exhausted', ...about, deliveries: 3 },
  secret_revealed: {
    kind: 'secret_revealed',
    at: AT,
    subscription,
    rotated: false,
    by: { kind: 'user', id: '1', name: 'Ada' },
  },
  assistant_connected: {
    kind: 'assistant_connected',
    at: AT,
    user_id: '1',
    client_id: 'claude',
    app: 'claude.ai',
  },
};

describe('a mail', () => {
  test.each(Object.values(FACTS))(
    'about $kind says what happened, where, and what to do',
    (fact) => {
      const { subject, text } = mailText([fact], context);
      expect(subject).toMatch(/^\[Hats\] /);
      expect(text).toContain('Shop: Hats');
      expect(text).toContain('https://api.example.com/docs');
      expect(text).toContain('You get this mail because');
      expect(text).toContain(
        fact.kind === 'endpoint_failing' ? '2026-11-22 01:00 UTC' : '2026-11-24 05:30 UTC',
      );
      expect(text).not.toMatch(/undefined|null|NaN/);
    },
  );

  test('about a failing endpoint names every subscription, its last error and the day on which it becomes inactive', () => {
    const other = { ...FACTS.endpoint_failing, subscription: { ...subscription, id: '8' } } as Fact;
    const { text } = mailText([FACTS.endpoint_failing, other], context);
    expect(text).toContain('subscription 7 (topic return, trigger return.closed)');
    expect(text).toContain('subscription 8 (topic return, trigger return.closed)');
    expect(text).toContain('answered 500');
    expect(text).toContain('2026-11-27 01:00 UTC');
  });

  test('about an endpoint with inactive subscriptions says whether it answered 410', () => {
    expect(mailText([FACTS.endpoint_disabled], context).text).not.toContain('410');
    const gone = { ...FACTS.endpoint_disabled, reason: 'gone' } as Fact;
    expect(mailText([gone], context).text).toContain('answered 410 Gone');
  });

  test('says who saw the secret or connected the assistant', () => {
    for (const fact of [FACTS.secret_revealed, FACTS.assistant_connected]) {
      expect(mailText([fact], context).text).toContain('By: ada@example.com');
    }
  });
});

describe('the pages of the portal that a mail links to', () => {
  const PORTAL = 'https://api.example.com/portal';
  const linksOf = (facts: readonly Fact[]) =>
    [...mailText(facts, context).text.matchAll(/^- .*: (https:\S+)$/gm)].map(([, link]) => link);

  test.each([
    ['endpoint_failing', ['/webhooks/7', '/deliveries?webhook=7&state=waiting']],
    ['endpoint_disabled', ['/webhooks/7', '/deliveries?webhook=7&state=held']],
    ['endpoint_exhausted', ['/webhooks/7', '/deliveries?webhook=7&state=exhausted']],
    ['secret_revealed', ['/webhooks/7', '/audit-log']],
    ['assistant_connected', ['/assistants', '/team', '/audit-log']],
  ] as const)('are those about %s', (kind, paths) => {
    expect(linksOf([FACTS[kind]])).toEqual(paths.map((path) => `${PORTAL}${path}`));
    expect(mailText([FACTS[kind]], context).text).toContain('choose Hats there');
  });

  test('are the lists when it is about several subscriptions', () => {
    const other = { ...FACTS.endpoint_failing, subscription: { ...subscription, id: '8' } } as Fact;
    expect(linksOf([FACTS.endpoint_failing, other])).toEqual([
      `${PORTAL}/webhooks`,
      `${PORTAL}/deliveries?state=waiting`,
    ]);
  });

  test('are absent when nobody can sign in there', () => {
    for (const fact of Object.values(FACTS)) {
      expect(mailText([fact], { ...context, hasPortal: false }).text).not.toContain('/portal');
    }
  });
});

test('no name, host or error adds a line, and no subject has a control character', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...Object.values(FACTS)),
      fc.string({ unit: 'binary', minLength: 1, maxLength: 300 }),
      (fact, hostile) => {
        const evil = `${hostile}\r\nBcc: eve@example.com\u2028\u202e`;
        const changed = {
          ...fact,
          ...('subscription' in fact && {
            subscription: { id: '7', host: evil, topic: evil, trigger: evil },
          }),
          ...('last_error' in fact && { last_error: evil }),
          ...('app' in fact && { app: evil }),
        } as Fact;
        const plainLines = mailText([fact], context).text.split('\n').length;
        const { subject, text } = mailText([changed], { ...context, shopName: evil, by: evil });
        expect(subject).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
        expect(subject.length).toBeLessThan(400);
        expect(text.split(/[\r\n\u2028\u2029]/)).toHaveLength(plainLines);
      },
    ),
  );
});
