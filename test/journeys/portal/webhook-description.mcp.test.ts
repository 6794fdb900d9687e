import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { receiverForTests } from '../../kit/during.ts';
import { addWebhook, callPortal, deleteWebhooks } from '../../kit/portal/call.ts';
import { userForTests } from '../../kit/portal/visitor.ts';
import { until } from '../../kit/until.ts';

// A merchant's developer who tells webhooks with similar addresses apart by their descriptions.

const developer = userForTests('developer');
const receiver = receiverForTests();

const press = (page: Page, name: string) =>
  page.getByRole('button', { name, exact: true }).first().click();

/** Opens the dialog, puts a description into it, and saves. */
async function setDescription(page: Page, description: string): Promise<void> {
  await press(page, 'Edit');
  await page.getByRole('dialog').getByLabel('Description').fill(description);
  await press(page, 'Save');
}

const titled = (page: Page, name: string) =>
  page.getByRole('heading', { name, level: 1, exact: true }).waitFor();

test('a webhook is added with a description, which is changed, taken back and removed', async () => {
  const { page, open } = developer;
  const url = new URL(`/${randomUUID()}`, receiver.url).href;
  const { host } = new URL(url);
  const name = `Warehouse ${randomUUID()}`;
  await open('/webhooks');
  await press(page, 'Add a webhook');
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('textbox', { name: /^Address/ }).fill(url);
  await dialog.getByLabel('Description').fill(`${name} \u{202e}`);
  await press(page, 'Add the webhook');
  await dialog.getByText('must be one line without control characters.').waitFor();
  // The browser reports the 400 as an error.
  developer.problems();
  expect(await developer.findings()).toEqual([]);
  await dialog.getByLabel('Description').fill(` ${name} `);
  await press(page, 'Add the webhook');
  await press(page, 'Open the webhook and send a test');
  await titled(page, name);
  const id = new URL(page.url()).pathname.split('/').at(-1) ?? '';
  await page.getByText(`Webhook ${id}. Sends return.closed to ${url}`).waitFor();
  expect(await page.title()).toBe(`${name} · Returns portal`);
  const { subscriptions } = await callPortal<{
    subscriptions: { id: string; description?: string }[];
  }>(page, 'WebhooksService/ListSubscriptions', {});
  expect(subscriptions.find((one) => one.id === id)?.description).toBe(name);

  await setDescription(page, 'Accounting');
  await page.getByText(`${name} (webhook ${id}, ${host}): description changed.`).waitFor();
  await titled(page, 'Accounting');
  await press(page, 'Undo');
  await titled(page, name);
  await setDescription(page, '');
  await titled(page, `Webhook ${id}`);
  expect(developer.problems()).toEqual([]);
  await deleteWebhooks(page, id);
});

test('every page that names the webhook has its description and its host, also a long one', async () => {
  const { page, open } = developer;
  const url = new URL(`/${randomUUID()}`, receiver.url).href;
  const { host } = new URL(url);
  // One word, which fits nowhere on a phone.
  const name = randomUUID().replaceAll('-', '').padEnd(200, 'x');
  const id = await addWebhook(page, { url, description: name });
  const text = `${name} (webhook ${id}, ${host})`;
  receiver.answer = (response) => void response.writeHead(500).end();
  const { delivery } = await callPortal<{ delivery: { id: string } }>(
    page,
    'WebhooksService/SendTest',
    { subscriptionId: id, idempotencyKey: randomUUID() },
  );
  await until(async (see) => {
    const { subscription: webhook } = await callPortal<{ subscription: { failures?: number } }>(
      page,
      'WebhooksService/GetSubscription',
      { subscriptionId: id },
    );
    return see(webhook.failures ?? 0) > 0;
  });

  const main = page.locator('main');
  await open('/webhooks');
  await main.getByRole('alert').getByRole('link', { name: text }).waitFor();
  const row = main.getByRole('row').filter({ hasText: url });
  await row.getByRole('link', { name, exact: true }).waitFor();
  expect(await developer.findings()).toEqual([]);
  await row.getByRole('link', { name, exact: true }).click();
  await titled(page, name);
  expect(await developer.findings()).toEqual([]);

  await open(`/deliveries?webhook=${id}`);
  await main.getByRole('row').getByRole('link', { name, exact: true }).waitFor();
  await main.getByText(`webhook ${id}, ${host}`, { exact: true }).first().waitFor();
  const options = await main.getByLabel('Webhook', { exact: true }).innerText();
  expect(options).toContain(`${id}: ${name} (${host}), return.closed`);
  expect(await developer.findings()).toEqual([]);
  await open(`/deliveries/${delivery.id}`);
  await main.getByRole('link', { name: text }).waitFor();
  expect(await developer.findings()).toEqual([]);

  await open('/payload-version');
  await main
    .getByRole('row')
    .filter({ hasText: url })
    .getByRole('link', { name, exact: true })
    .waitFor();
  expect(await developer.findings()).toEqual([]);

  await open('/webhooks');
  await press(page, 'Add a webhook');
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('textbox', { name: /^Address/ }).fill(url);
  await dialog.getByText(`${text} has the same address, event and topic.`).waitFor();
  expect(await developer.findings()).toEqual([]);

  const other = await addWebhook(page, { url });
  await open(`/webhooks/${other}`);
  await press(page, 'Edit');
  await dialog.getByRole('textbox', { name: /^Address/ }).fill(`${url}/new`);
  const others = dialog.getByText(`${name} (webhook ${id}, ${host}, return.closed)`);
  await others.waitFor();
  expect(await developer.findings()).toEqual([]);
  await deleteWebhooks(page, id, other);
});
