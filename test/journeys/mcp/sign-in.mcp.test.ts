import { AxeBuilder } from '@axe-core/playwright';
import { describe, expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import {
  newClient,
  REVISIONS,
  type Revision,
  type SignInResult,
  type SignInTry,
  signIn,
} from '../../kit/mcp/assistant.ts';
import { personOf, tokenOf } from '../../kit/mcp/shared-stack.ts';
import { portalForTests } from '../../kit/portal/visitor.ts';

const EMAIL_FORM = 'Sign in to connect your shop';
const SHOP_FORM = 'Which shop?';
const CONSENT = 'Allow access to your shop?';
/** The heading of the bundled identity provider. */
const PASSWORD_FORM = 'Sign in';

const portal = portalForTests();

type SignInInput = Omit<SignInTry, 'stack' | 'browser' | 'person'> & { readonly name: string };

function arrive({ name, ...input }: SignInInput): Promise<SignInResult> {
  return signIn({ ...portal, person: personOf(portal.stack, name), ...input });
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
      shop: { id: portal.stack.shop.id },
      user: { role: 'owner' },
    });
    const { tools } = await session.client.listTools();
    expect(tools.map(({ name }) => name)).toContain('process_return');
    await session.client.close();
  });

  test('signs in a user of two shops, who chooses one', async () => {
    const { otherShop } = portal.stack;
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

  test('continues automatically when its token has expired', async () => {
    const { memory, client } = await connected({ name: 'developer', revision, hinted: true });
    await client.close();
    const before = memory.stored;
    if (!before) throw new Error('no tokens were stored');
    const expired = tokenOf(portal.stack, 'developer', `${portal.stack.shop.id}_expired`);
    memory.stored = { ...before, access_token: expired };
    const again = newClient(portal.stack.file.mcp.url, revision, { memory });
    await again.client.connect(again.transport);
    expect((await again.client.listTools()).tools.length).toBeGreaterThan(0);
    expect(memory.stored.access_token).not.toBe(expired);
    expect(memory.stored.refresh_token).not.toBe(before.refresh_token);
    await again.client.close();
  });
});

test('the pages have no accessibility errors that a tool can find', async () => {
  const faults: string[] = [];
  const seen = async (page: Page) => {
    if (!page.url().startsWith(portal.stack.file.base_url)) return;
    const { violations } = await new AxeBuilder({ page }).analyze();
    faults.push(...violations.map(({ id, help }) => `${page.url()} ${id}: ${help}`));
  };
  const session = await connected({
    name: 'two_shops',
    revision: '2026-07-28',
    shopId: portal.stack.shop.id,
    seen,
  });
  expect(session.pages).toContain(SHOP_FORM);
  expect(faults).toEqual([]);
  await session.client.close();
});
