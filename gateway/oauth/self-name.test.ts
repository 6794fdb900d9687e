import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type SignInStack, startSignInStack } from '../../test/kit/oauth/sign-in-stack.ts';
import { selfNameOf } from './clients/self-name.ts';

let stack: SignInStack;
beforeAll(async () => {
  stack = await startSignInStack({ replicas: 1 });
});
afterAll(() => stack.stop());

const LOOPBACK = 'http://127.0.0.1:51234/callback';
const register = (client_name: unknown, redirect_uri: string) =>
  fetch(`${stack.baseUrl}/oauth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ client_name, redirect_uris: [redirect_uri] }),
  });
/** The consent page of a new sign-in with this redirect URI. */
const consentPage = async (redirect_uri: string) => {
  const person = await stack.newPerson();
  const begun = stack.begin({ redirect_uri });
  return { person, begun, ...(await stack.signIn(person, { begun, stopsAtConsent: true })) };
};

describe('the name that a program gives itself at its registration', () => {
  test('is on the consent page, in the grant and in the audit log', async () => {
    expect((await register('Parcel & Co agent', LOOPBACK)).status).toBe(201);
    const { text, person } = await consentPage(LOOPBACK);
    expect(text).toMatch(
      /<dt>Calls itself<\/dt>\s*<dd>“Parcel &#38; Co agent” \(not verified\)<\/dd>/,
    );
    await stack.tokens(person, { begun: stack.begin({ redirect_uri: LOOPBACK }) });
    const { rows } = await stack.under.database.pool.query(
      `select g.self_name, a.detail->>'calls_itself' as audited
         from oauth_grants g join audit_log a on a.shop_id = g.shop_id and a.subject = g.id
        where g.user_id = $1 and a.action = 'assistant.connected'`,
      [person.userId],
    );
    const name = 'Parcel & Co agent';
    expect(rows).toEqual([{ self_name: name, audited: name }]);
  });

  test.each([
    ['another port', 'Agent', 'http://127.0.0.1:51235/callback', 'http://127.0.0.1:51236/callback'],
    ['a host', 'claude.ai', 'http://127.0.0.1:51237/callback', 'http://127.0.0.1:51237/callback'],
    [
      'an app that is no program on the machine',
      'Agent',
      'https://claude.ai/api/mcp/auth_callback',
      'https://claude.ai/api/mcp/auth_callback',
    ],
  ])('is not shown for %s', async (_, name, registered, used) => {
    expect((await register(name, registered)).status).toBe(201);
    expect((await consentPage(used)).text).not.toContain('Calls itself');
  });
});

test('a name is not shown for a later registration without one, nor after its time', async () => {
  const uri = 'http://127.0.0.1:51239/callback';
  expect((await register('First agent', uri)).status).toBe(201);
  expect((await register(undefined, uri)).status).toBe(201);
  expect((await consentPage(uri)).text).not.toContain('Calls itself');
  expect((await register('Second agent', uri)).status).toBe(201);
  const { pool } = stack.under.database;
  await pool.query("update oauth_tickets set expires_at = now() where kind = 'SelfName'");
  expect((await consentPage(uri)).text).not.toContain('Calls itself');
});

describe('a name that can be shown', () => {
  test.each([
    ['My agent', 'My agent'],
    ['  My\n agent (dev) ', 'My agent (dev)'],
    ['@scope/agent-1', undefined],
    ['Ｆｕｌｌ', 'Full'],
    ['Агент 7', 'Агент 7'],
    ['claude.ai', undefined],
    ['сlaude.ai agent', undefined],
    ['claude．ai', undefined],
    ['<b>x</b>', undefined],
    ['a\u202eb', undefined],
    ['a\u0000b', undefined],
    ['“App” Claude', undefined],
    ['x'.repeat(61), undefined],
    ['', undefined],
    [7, undefined],
  ])('%j: %j', (text, name) => {
    expect(selfNameOf(text)).toBe(name);
  });
});
