import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Browser } from '../../test/kit/oauth/browser.ts';
import {
  type Person,
  type SignInStack,
  startSignInStack,
} from '../../test/kit/oauth/sign-in-stack.ts';
import { listGrants } from '../tenancy/grants.ts';

let stack: SignInStack;
beforeAll(async () => {
  stack = await startSignInStack({ replicas: 1 });
});
afterAll(() => stack.stop());

/** For each grant of the person, oldest first: whether it may only read. */
async function accessOf({ email }: Person): Promise<boolean[]> {
  const grants = await listGrants(stack.under.database.pool);
  return grants.filter((one) => one.email === email).map(({ isReadOnly }) => isReadOnly);
}

/** The names of the tools that the client with this token gets. */
async function toolsOf(token: unknown): Promise<string[]> {
  const response = await fetch(`${stack.baseUrl}/mcp`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
  });
  const { result } = (await response.json()) as { result: { tools: { name: string }[] } };
  return result.tools.map(({ name }) => name);
}

describe('the consent page', () => {
  test('lists the rights of the role in groups, and offers reading only', async () => {
    const person = await stack.newPerson({ role: 'developer' });
    const { text } = await stack.signIn(person, { stopsAtConsent: true });
    const rights = [...text.matchAll(/<li><strong>(.*?):<\/strong> (.*?)<\/li>/g)];
    expect(rights.map(([, group]) => group)).toEqual(['Returns', 'Webhooks']);
    expect(rights[1]?.[2]).toMatch(/^see webhook subscriptions[^;]*; .*webhook/);
    expect(text).toContain('<dd>Developer</dd>');
    expect(text).toMatch(/name="access" value="everything" checked/);
    expect(text).toMatch(/name="access" value="read_only">/);
  });
});

describe('the consent form', () => {
  test.each([
    'consent=allow&access=read-only',
    'consent=allow&access=',
    'consent=allow&access=read_only&access=everything',
    'consent=yes&access=read_only',
    'access=everything',
  ])('with %s allows nothing, and the page can be sent again', async (fields) => {
    const person = await stack.newPerson();
    const browser = new Browser();
    const { text, url } = await stack.signIn(person, { browser, stopsAtConsent: true });
    const csrf = /name="csrf" value="([^"]+)"/.exec(text)?.[1] ?? '';
    const allow = new URL(url.pathname.replace(/consent$/, 'allow'), url);
    const post = (body: string) =>
      browser.send(allow, {
        method: 'POST',
        body: new URLSearchParams(`${body}&csrf=${csrf}`),
      });
    const rejected = await post(fields);
    expect([rejected.status, rejected.text]).toEqual([
      400,
      expect.stringContaining('so nothing was allowed'),
    ]);
    expect(await accessOf(person)).toEqual([]);
    await post('consent=allow&access=read_only');
    expect(await accessOf(person)).toEqual([true]);
  });
});

describe('reading only', () => {
  test('gives tokens for tools that only read, also after a refresh', async () => {
    const { body } = await stack.tokens(await stack.newPerson(), { access: 'read_only' });
    expect(await toolsOf(body.access_token)).toContain('search_returns');
    const { body: fresh } = await stack.token({
      grant_type: 'refresh_token',
      refresh_token: String(body.refresh_token),
    });
    for (const token of [body.access_token, fresh.access_token]) {
      expect(await toolsOf(token)).not.toContain('process_return');
    }
  });

  test('is remembered with the consent, until the user chooses everything', async () => {
    const person = await stack.newPerson();
    await stack.tokens(person, { access: 'read_only' });
    await stack.tokens(person);
    expect(await accessOf(person)).toEqual([true, true]);
    await stack.tokens(person, { begun: stack.begin({ prompt: 'consent' }) });
    await stack.tokens(person);
    expect(await accessOf(person)).toEqual([true, true, false, false]);
  });

  test('is in the audit log', async () => {
    const person = await stack.newPerson();
    await stack.tokens(person, { access: 'read_only' });
    const { rows } = await stack.under.database.pool.query(
      `select detail->>'access' as access from audit_log
        where action = 'assistant.connected' and actor_id = $1`,
      [String(person.userId)],
    );
    expect(rows).toEqual([{ access: 'read_only' }]);
  });
});
