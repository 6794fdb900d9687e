import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { startBrowser } from '../kit/mcp/browser.ts';
import { sharedStack } from '../kit/mcp/shared-stack.ts';
import { callPortal } from '../kit/portal/call.ts';
import { type Visitor, visit } from '../kit/portal/visitor.ts';
import type { OpenStack } from '../kit/stack.ts';

// What a form sends when somebody else changes the same object, and what it does with text that is too long.

let stack: OpenStack;
let browser: Browser;
let owner: Visitor;
beforeAll(async () => {
  stack = await sharedStack();
  browser = await startBrowser();
  owner = await visit(stack, browser, 'owner');
}, 180_000);
afterAll(() => browser?.close(), 60_000);

const call = <T>(name: string, body: object) =>
  callPortal<T>(owner.page, name, { idempotencyKey: crypto.randomUUID(), ...body });

const dialogOf = (page: Page) => page.getByRole('dialog');

interface Webhook {
  readonly id: string;
  readonly url: string;
  readonly description?: string;
  readonly trigger: string;
}

test('a change of a webhook leaves what a colleague changed while the form was open, and so does its undo', async () => {
  const { page, open } = owner;
  const url = `https://example.com/${crypto.randomUUID()}`;
  const made = { url, topic: 'return', trigger: 'return.closed', description: 'Old' };
  const { webhook } = await call<{ webhook: Webhook }>('WebhooksService/CreateWebhook', made);
  const webhookId = webhook.id;
  const read = async () =>
    (await call<{ webhook: Webhook }>('WebhooksService/GetWebhook', { webhookId })).webhook;

  await open(`/webhooks/${webhookId}`);
  await page.getByRole('button', { name: 'Edit', exact: true }).click();
  const dialog = dialogOf(page);
  await dialog.getByLabel('Description').fill('New');
  await call('WebhooksService/UpdateWebhook', { webhookId, url: `${url}/moved` });
  await dialog.getByText(`The address is now “${url}/moved”.`).waitFor({ timeout: 60_000 });
  expect(await owner.findings()).toEqual([]);
  await dialog.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByText('description changed.').waitFor();
  expect(await read()).toMatchObject({ url: `${url}/moved`, description: 'New' });

  await call('WebhooksService/UpdateWebhook', { webhookId, trigger: 'return.created' });
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByText('It is as it was before.').waitFor();
  expect(await read()).toMatchObject({
    url: `${url}/moved`,
    description: 'Old',
    trigger: 'return.created',
  });
  await call('WebhooksService/DeleteWebhook', { webhookId });
});

interface Destination {
  readonly id: string;
  readonly enabled?: boolean;
  readonly address: { readonly city?: string; readonly phone?: string };
}

test('a change of a destination leaves what a colleague changed while the form was open, and so does its undo', async () => {
  const { page, open } = owner;
  const name = `Warehouse ${crypto.randomUUID()}`;
  const made = {
    name,
    address: { city: 'Leeds', phone: '1' },
    enabled: true,
  };
  const { destination } = await call<{ destination: Destination }>(
    'DestinationsService/CreateDestination',
    made,
  );
  const destinationId = destination.id;
  const read = async () =>
    (
      await call<{ destination: Destination }>('DestinationsService/GetDestination', {
        destinationId,
      })
    ).destination;

  await open(`/destinations?edit=${destinationId}`);
  const dialog = dialogOf(page);
  await dialog.getByLabel('Phone').fill('2');
  const moved = {
    destinationId,
    name: `${name}, closed`,
    enabled: false,
    address: { city: 'York', phone: '1' },
  };
  const seen = page.waitForResponse(async (response) => (await response.text()).includes('York'));
  await call('DestinationsService/UpdateDestination', moved);
  await seen;
  await dialog.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByText('The destination is changed.').waitFor();
  // A field of false is not in the JSON.
  expect(await read()).toMatchObject({ name: moved.name, address: { city: 'York', phone: '2' } });
  expect((await read()).enabled).toBeUndefined();
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByText('It is as it was before.').waitFor();
  expect(await read()).toMatchObject({ name: moved.name, address: { city: 'York', phone: '1' } });
  expect((await read()).enabled).toBeUndefined();
});
