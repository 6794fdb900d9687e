import { expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { personOf } from '../../kit/mcp/shared-stack.ts';
import { portalForTests, untilLoaded } from '../../kit/portal/visitor.ts';

// The end and the beginning of a session in a real browser, which reports nothing as an error on any page of the way.

const portal = portalForTests();

/** A new browser without a session, and everything that it reports as an error. */
async function newVisitor(): Promise<{ page: Page; errors: string[] }> {
  const page = await (await portal.browser.newContext()).newPage();
  const errors: string[] = [];
  page.on('pageerror', ({ message }) => errors.push(message));
  page.on('console', (message) => {
    if (message.type() === 'error') errors.push(`${message.location().url}: ${message.text()}`);
  });
  return { page, errors };
}

const addressOf = (path: string): string => `${portal.stack.file.base_url}/portal${path}`;

/** Fills the form of the identity provider, and waits for the page of the portal. */
async function signIn(page: Page, name: string): Promise<void> {
  const { email, password } = personOf(portal.stack, name);
  await page.getByLabel('E-mail address').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await untilLoaded(page);
}

const asksForPassword = (page: Page) => page.getByLabel('Password').waitFor();

test('a first visit leads to the sign-in, and then to the address that was asked for', async () => {
  const { page, errors } = await newVisitor();
  await page.goto(addressOf('/returns?q=%231001'));
  await signIn(page, 'analyst');
  expect(page.url()).toBe(addressOf('/returns?q=%231001'));
  expect(await page.getByLabel('Search').inputValue()).toBe('#1001');
  expect(errors).toEqual([]);
});

test('an open page whose session ended elsewhere leads to the sign-in with its next call, and back', async () => {
  const { page, errors } = await newVisitor();
  await page.goto(addressOf('/returns?state=open'));
  await signIn(page, 'warehouse');
  const { page: elsewhere } = await newVisitor();
  await elsewhere.goto(addressOf('/sessions'));
  await signIn(elsewhere, 'warehouse');
  await elsewhere.getByRole('button', { name: 'Sign out everywhere' }).click();
  await elsewhere.getByRole('dialog').getByRole('button', { name: 'Sign out everywhere' }).click();
  await elsewhere.getByRole('heading', { name: 'You are signed out' }).waitFor();

  const link = page.locator('main a[href*="/returns/"]').first();
  const href = await link.getAttribute('href');
  await link.click();
  await asksForPassword(page);
  await signIn(page, 'warehouse');
  expect(new URL(page.url()).pathname).toBe(href);
  expect(errors).toEqual([]);
});

test('a page that is loaded again after its cookie is gone leads to the sign-in', async () => {
  const { page, errors } = await newVisitor();
  await page.goto(addressOf('/returns'));
  await signIn(page, 'analyst');
  await page.context().clearCookies();
  await page.reload();
  await asksForPassword(page);
  expect(errors).toEqual([]);
});

test('a sign-out shows its page, and every page asks for the password after it', async () => {
  const { page, errors } = await newVisitor();
  await page.goto(addressOf('/returns'));
  await signIn(page, 'analyst');
  await page.getByRole('button', { name: /^Account of/ }).click();
  await page.getByRole('button', { name: 'Sign out', exact: true }).click();
  await page.getByRole('heading', { name: 'You are signed out' }).waitFor();
  await page.goto(addressOf('/returns'));
  await asksForPassword(page);
  await page.goBack();
  await page.getByRole('heading', { name: 'You are signed out' }).waitFor();
  expect(errors).toEqual([]);
});
