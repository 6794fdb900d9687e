import { randomUUID } from 'node:crypto';
import { afterAll, expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { personOf } from '../../kit/mcp/shared-stack.ts';
import { gatewayPool } from '../../kit/portal/gateway-pool.ts';
import { untilLoaded, userForTests } from '../../kit/portal/visitor.ts';
import { until } from '../../kit/until.ts';

const owner = userForTests('owner');

interface Mail {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

/** The link of the newest mail to an address. */
async function linkTo(email: string, other = ''): Promise<string> {
  return until(async () => {
    const mails = (await owner.stack.control('GET', `/mails?to=${email}`)) as readonly Mail[];
    const link = /https?:\/\/\S+\/portal\/invitation#\S+/.exec(mails[0]?.text ?? '')?.[0];
    return link !== other && link;
  });
}

const row = (page: Page, text: string) => page.getByRole('row').filter({ hasText: text });

afterAll(async () => {
  const pool = gatewayPool(owner.stack);
  const { email } = personOf(owner.stack, 'no_shop');
  await pool.query(
    'delete from memberships where user_id = (select id from users where email = $1)',
    [email],
  );
  await pool.end();
});

test('an owner invites, sends a new link, and the person accepts it without knowing the shop before', async () => {
  const { page } = owner;
  const { email, password } = personOf(owner.stack, 'no_shop');
  const { name: shopName } = (
    await owner.call<{ shop: { name: string } }>('SessionService/GetSession', {})
  ).shop;

  await owner.open('/team');
  await page.getByRole('button', { name: 'Invite a person' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('E-mail address').fill(email);
  await dialog.getByLabel('Name').fill('Nora');
  await dialog.getByRole('radio', { name: 'Analyst' }).check();
  expect(await owner.findings()).toEqual([]);
  await dialog.getByRole('button', { name: 'Invite', exact: true }).click();
  await dialog.getByText('A mail with a link is on its way').waitFor();
  expect(await owner.findings()).toEqual([]);
  await dialog.getByRole('button', { name: 'Done' }).click();
  const first = await linkTo(email);

  await owner.open('/team');
  const invitations = page.getByRole('table', { name: 'Invitations' });
  await row(page, email).getByText('Sent', { exact: true }).waitFor();
  await row(page, email).getByText('Works until').waitFor();
  expect(await owner.findings()).toEqual([]);
  await page.getByRole('button', { name: `New link for ${email}` }).click();
  await page.getByRole('button', { name: 'Make a new link' }).click();
  await page.getByText('There is a new link.').waitFor();
  const link = await linkTo(email, first);

  const context = await owner.browser.newContext({ viewport: { width: 390, height: 800 } });
  const invited = await context.newPage();
  const requested: string[] = [];
  invited.on('request', (request) =>
    requested.push(`${request.url()} ${request.headers().referer ?? ''}`),
  );
  const heading = (name: string | RegExp) =>
    invited.getByRole('heading', { level: 1, name }).waitFor();
  await invited.goto(first);
  await heading('There is a newer invitation');
  await invited.goto(link);
  await heading(/^\S+ invites you to a team$/);
  expect(await invited.content()).not.toContain(shopName);
  // The address of the page no longer has the token.
  expect(new URL(invited.url()).hash).toBe('');

  // At first with another address.
  const other = personOf(owner.stack, 'removed');
  await invited.getByRole('link', { name: 'Sign in' }).click();
  await signIn(invited, other);
  await heading('Another address is invited');
  expect(await invited.content()).not.toContain(shopName);
  expect(await invited.content()).not.toContain(email);
  await invited.getByRole('link', { name: 'Sign in with another address' }).click();
  await signIn(invited, { email, password });
  await heading(`Join ${shopName}?`);
  await invited.getByText('Analyst', { exact: true }).waitFor();
  await invited.reload();
  await invited.getByRole('button', { name: 'Accept and join' }).click();
  await invited.waitForURL(/\/portal(?:\/returns)?/);
  await untilLoaded(invited);

  const token = new URL(link).hash.slice(1);
  expect(requested.filter((line) => line.includes(token))).toEqual([]);
  await invited.goto(link);
  await heading('This invitation was used');
  await context.close();

  await owner.open('/team');
  await row(page, email).getByText('Yes', { exact: true }).waitFor();
  expect(await invitations.getByText(email).count()).toBe(0);
  await owner.open('/audit-log');
  await page.locator('main tbody').getByText('Invitation accepted').first().waitFor();
  expect(await owner.findings()).toEqual([]);
});

test('an invitation is withdrawn, and its link says so', async () => {
  const { page } = owner;
  const email = `${randomUUID()}@example.com`;
  await owner.call('TeamService/InviteMember', {
    idempotencyKey: randomUUID(),
    email,
    role: 'analyst',
  });
  const link = await linkTo(email);
  await owner.open('/team');
  await page.getByRole('button', { name: `Withdraw the invitation of ${email}` }).click();
  await page.getByRole('button', { name: 'Withdraw the invitation', exact: true }).click();
  await row(page, email).waitFor({ state: 'detached' });
  const context = await owner.browser.newContext();
  const invited = await context.newPage();
  await invited.goto(link);
  await invited.getByRole('heading', { name: 'This invitation was withdrawn' }).waitFor();
  await context.close();
});

/** Fills the form of the identity provider. */
async function signIn(
  page: Page,
  { email, password }: { readonly email: string; readonly password: string },
): Promise<void> {
  await page.getByLabel('Password').fill(password);
  await page.locator('input[name=email]').fill(email);
  await page.getByRole('button').first().click();
}
