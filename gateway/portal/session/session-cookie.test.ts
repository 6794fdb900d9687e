import { expect, test } from '@jest/globals';
import { createSessionCookie } from './session-cookie.ts';

const ID = 'a'.repeat(43);

test('over https the cookie is of this host, this path, https and HTTP only', () => {
  const cookie = createSessionCookie('https://returns.example.com');
  const [first, ...attributes] = cookie.store(ID, 60).split('; ');
  expect(first).toBe(`__Host-rms_portal=${ID}`);
  // Browsers accept the prefix only with Secure, with this path and without Domain (RFC 6265bis, 4.1.3.2).
  expect(attributes).toEqual(['Max-Age=60', 'Path=/', 'HttpOnly', 'SameSite=Lax', 'Secure']);
});

test('plain http, of the local stack only, has the same attributes except those of https', () => {
  const stored = createSessionCookie('http://127.0.0.1:8080').store(ID, 60);
  expect(stored).toBe(`rms_portal=${ID}; Max-Age=60; Path=/; HttpOnly; SameSite=Lax`);
});
