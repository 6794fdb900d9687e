import { AxeBuilder } from '@axe-core/playwright';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { UnauthorizedError } from '@modelcontextprotocol/client';
import type { Browser, Page } from 'playwright-core';
import { admin } from '../kit/journeys/admin.ts';
import {
  newClient,
  REVISIONS,
  type Revision,
  type SignInResult,
  type SignInTry,
  signIn,
} from '../kit/mcp/assistant.ts';
import { startBrowser } from '../kit/mcp/browser.ts';
import { personOf, sharedStack, tokenOf } from '../kit/mcp/shared-stack.ts';
import type { OpenStack } from '../kit/stack.ts';

const EMAIL_FORM = 'Sign in to connect your shop';
const SHOP_FORM = 'Which shop?';
const CONSENT = 'Allow access to your shop?';
/** The heading of the bundled identity provider. */
const PASSWORD_FORM = 'Sign in';

let stack: OpenStack;
let browser: Browser;
beforeAll(async () => {
  stack = await sharedStack();
  browser = await startBrowser();
}, 180_000);
afterAll(() => browser?.close(), 60_000);

type SignInInput = Omit<SignInTry, 'stack' | 'browser' | 'person'> & { readonly name: string };

function arrive({ name, ...input }: SignInInput): Promise<SignInResult> {
  return signIn({ stack, browser, person: personOf(stack, name), ...input });
}

/** Signs in, and fails when that does not work. */
async function connected(input: SignInInput) {
  const { client, ...rest } = await arrive(input);
  if (!client) throw new Error(`not signed in: ${rest.pages.join(', ')}: ${rest.text}`);
  return { ...rest, client };
}

/** The context that the signed-in user gets. */
async function contextOf({ client }: Awaited<ReturnType<typeof connected>>) {
  const { structuredContent } = await client.callTool({ name: 'get_shop_context', arguments: {} });
  return structuredContent;
}

describe.each(REVISIONS)('an assistant of revision %s', (revision: Revision) => {
  test('signs in a user of one shop, who types the address', async () => {
    const session = await connected({ name: 'owner', revision });
    expect(session.pages).toEqual([EMAIL_FORM, PASSWORD_FORM, CONSENT, 'Back']);
    expect(session.memory.stored).toMatchObject({
      token_type: expect.stringMatching(/^bearer$/i),
      scope: 'mcp',
      expires_in: 12 * 3_600,
      refresh_token: expect.any(String),
    });
    expect(session.client.getNegotiatedProtocolVersion()).toBe(revision);
    expect(await contextOf(session)).toMatchObject({
      shop: { id: stack.shop.id },
      user: { role: 'owner' },
    });
    const { tools } = await session.client.listTools();
    expect(tools.map(({ name }) => name)).toContain('process_return');
    await session.client.close();
  });

  test('signs in a user of two shops, who chooses one', async () => {
    const { otherShop } = stack;
    const session = await connected({ name: 'two_shops', revision, shopId: otherShop.id });
    expect(session.pages).toEqual([EMAIL_FORM, SHOP_FORM, PASSWORD_FORM, CONSENT, 'Back']);
    expect(await contextOf(session)).toMatchObject({
      shop: { id: otherShop.id },
      user: { role: 'returns_agent' },
    });
    await session.client.close();
  });

  test('sends the address in advance, so the user need not type it', async () => {
    const session = await connected({ name: 'warehouse', revision, hinted: true });
    expect(session.pages).toEqual([PASSWORD_FORM, CONSENT, 'Back']);
    expect(await contextOf(session)).toMatchObject({ user: { role: 'warehouse' } });
    const { tools } = await session.client.listTools();
    expect(tools.map(({ name }) => name)).not.toContain('process_return');
    await session.client.close();
  });

  test('gets the error about an address without a shop only after the sign-in', async () => {
    const { pages, text, client } = await arrive({ name: 'no_shop', revision });
    expect(pages.slice(0, 2)).toEqual([EMAIL_FORM, PASSWORD_FORM]);
    expect(text).toMatch(/No email was found/);
    expect(client).toBeUndefined();
  });

  test('continues automatically when its token has expired', async () => {
    const { memory, client } = await connected({ name: 'developer', revision, hinted: true });
    await client.close();
    const before = memory.stored;
    if (!before) throw new Error('no tokens were stored');
    const expired = tokenOf(stack, 'developer', `${stack.shop.id}_expired`);
    memory.stored = { ...before, access_token: expired };
    const again = newClient(stack.file.mcp.url, revision, { memory });
    await again.client.connect(again.transport);
    expect((await again.client.listTools()).tools.length).toBeGreaterThan(0);
    expect(memory.stored.access_token).not.toBe(expired);
    expect(memory.stored.refresh_token).not.toBe(before.refresh_token);
    await again.client.close();
  });

  test('is rejected with the next call after the user was removed from the shop', async () => {
    const { shop } = stack;
    const { email } = personOf(stack, 'analyst');
    const membership = ['--shop', String(shop.id), '--email', email];
    const session = await connected({ name: 'analyst', revision, hinted: true });
    expect(await contextOf(session)).toMatchObject({ user: { role: 'analyst' } });
    session.memory.opened = undefined;
    await admin(stack, 'member', 'remove', ...membership);
    try {
      await expect(session.client.listTools()).rejects.toBeInstanceOf(UnauthorizedError);
      // Neither the token nor its refresh worked, so the assistant would sign in again.
      expect(session.memory.stored).toBeUndefined();
      expect(session.memory.opened).toBeInstanceOf(URL);
    } finally {
      await admin(stack, 'member', 'add', ...membership, '--role', 'analyst');
      await session.client.close();
    }
  });
});

test('the pages have no accessibility errors that a tool can find', async () => {
  const faults: string[] = [];
  const seen = async (page: Page) => {
    if (!page.url().startsWith(stack.file.base_url)) return;
    const { violations } = await new AxeBuilder({ page }).analyze();
    faults.push(...violations.map(({ id, help }) => `${page.url()} ${id}: ${help}`));
  };
  const session = await connected({
    name: 'two_shops',
    revision: '2026-07-28',
    shopId: stack.shop.id,
    seen,
  });
  expect(session.pages).toContain(SHOP_FORM);
  expect(faults).toEqual([]);
  await session.client.close();
});
