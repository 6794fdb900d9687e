import type { IncomingMessage } from 'node:http';
import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { newKeyringText, parseKeyring } from '../../services/platform/security/keyring.ts';
import { createShopperSessions, SESSION_MS } from './session.ts';

const PATH = '/r/shop';
const session = { shopId: 3n, providerOrderId: 445n, orderName: '#1001' };
const sessions = createShopperSessions(parseKeyring(newKeyringText()), 'https://returns.example');

/** A request with the cookie that `Set-Cookie` stored. */
const withCookie = (line: string) =>
  ({ headers: { cookie: line.split(';')[0] } }) as unknown as IncomingMessage;

afterEach(() => {
  jest.useRealTimers();
});

describe('a session', () => {
  test('is of one order in one shop', () => {
    const req = withCookie(sessions.start(session, PATH));
    expect(sessions.of(req, 3n)).toEqual(session);
    expect(sessions.of(req, 4n)).toBeUndefined();
  });

  test('ends after 30 minutes, although the browser keeps the cookie', () => {
    jest.useFakeTimers({ now: new Date('2026-12-01T10:00:00Z') });
    const req = withCookie(sessions.start(session, PATH));
    jest.setSystemTime(new Date(Date.now() + SESSION_MS - 1));
    expect(sessions.of(req, 3n)).toEqual(session);
    jest.setSystemTime(new Date(Date.now() + 1));
    expect(sessions.of(req, 3n)).toBeUndefined();
  });

  test('is only sent over https, to this shop, and not readable by scripts', () => {
    const line = sessions.start(session, PATH);
    expect(line).toMatch(/^__Secure-rms_shopper=k1\.[\w-]+; Path=\/r\/shop; Max-Age=1800; /);
    expect(line).toMatch(/HttpOnly; SameSite=Lax; Secure$/);
    expect(line).not.toContain('1001');
  });

  test.each(['', 'k1.', 'k1.AAAA', 'other.AAAA', 'k1.AAAA.BBBB', '%'])(
    'is none for %j',
    (value) => {
      expect(sessions.of(withCookie(`__Secure-rms_shopper=${value}`), 3n)).toBeUndefined();
    },
  );

  test('that was changed, or made with another key, is none', () => {
    const [pair = ''] = sessions.start(session, PATH).split(';');
    const changed = `${pair.slice(0, -2)}${pair.endsWith('AA') ? 'BB' : 'AA'}`;
    expect(sessions.of(withCookie(changed), 3n)).toBeUndefined();
    const others = createShopperSessions(parseKeyring(newKeyringText()), 'https://returns.example');
    expect(sessions.of(withCookie(others.start(session, PATH)), 3n)).toBeUndefined();
  });
});
