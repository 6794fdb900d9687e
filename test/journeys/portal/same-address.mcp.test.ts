import { beforeAll, expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { receiverForTests } from '../../kit/during.ts';
import { addWebhook, callPortal, deleteWebhooks } from '../../kit/portal/call.ts';
import { userForTests } from '../../kit/portal/visitor.ts';
import { until } from '../../kit/until.ts';

// A merchant's developer whose webhooks of one address fail together: the portal says so at first sight, shows what the
// address answers, and corrects all of them at once.

const developer = userForTests('developer');
const [broken, repaired] = [receiverForTests(), receiverForTests()];
beforeAll(() => {
  broken.answer = (response) =>
    void response.writeHead(403, { 'content-type': 'text/html' }).end('<b>unknown key</b>');
});

const webhookOf = async (page: Page, webhookId: string) =>
  (
    await callPortal<{ subscription: { url: string; failures?: number } }>(
      page,
      'WebhooksService/GetSubscription',
      { subscriptionId: webhookId },
    )
  ).subscription;

/** Deletes the failing webhooks of tests that are over: the page names only some of those that fail. */
async function deleteFailing(page: Page): Promise<void> {
  const { subscriptions } = await callPortal<{
    subscriptions: { id: string; failures?: number }[];
  }>(page, 'WebhooksService/ListSubscriptions', {});
  const failing = subscriptions.filter(({ failures }) => failures);
  await deleteWebhooks(page, ...failing.map(({ id }) => id));
}

test('webhooks of one address are seen to fail together, and get a new address together', async () => {
  const { page, open } = developer;
  await deleteFailing(page);
  const url = new URL(`/${crypto.randomUUID()}`, broken.url).href;
  const [one, other] = [
    await addWebhook(page, { url, trigger: 'return.created' }),
    await addWebhook(page, { url, trigger: 'return.updated' }),
  ];
  await developer.stack.fixture('no_label');
  const idempotencyKey = crypto.randomUUID();
  await callPortal(page, 'WebhooksService/SendTest', { subscriptionId: other, idempotencyKey });
  for (const id of [one, other]) {
    await until(async () => ((await webhookOf(page, id)).failures ?? 0) > 0);
  }

  await page.setViewportSize({ width: 1280, height: 800 });
  await open('/webhooks');
  const summary = page.getByRole('alert').filter({ hasText: /\d webhooks? fails?/ });
  const link = summary.getByRole('link', { name: `Webhook ${one}`, exact: true });
  const place = await link.boundingBox();
  expect((place?.y ?? 800) + (place?.height ?? 0)).toBeLessThan(800);
  // Both webhooks are in the line of their address, with its cause once.
  const address = summary.getByRole('listitem').filter({ hasText: url });
  await address.getByRole('link', { name: `Webhook ${other}`, exact: true }).waitFor();
  await address.getByText(/^The last attempt, .*the request is not allowed \(403\)/).waitFor();
  expect(await address.count()).toBe(1);
  expect(await address.getByText('the request is not allowed (403)').count()).toBe(1);
  await address.getByText('<b>unknown key</b>').waitFor();
  await page.getByText(/\d+ waiting for a retry/).waitFor();
  await page.getByText(/^Each delivery counts once, by its state now\./).waitFor();
  expect(await developer.findings()).toEqual([]);

  await link.click();
  const banner = page.getByRole('alert');
  await banner.getByText('1 other webhook uses this address and fails as well').waitFor();
  await banner.getByRole('link', { name: `webhook ${other} (return.updated)` }).waitFor();
  await banner.getByText('<b>unknown key</b>').waitFor();
  expect(await developer.findings()).toEqual([]);

  await page.getByRole('button', { name: 'Edit', exact: true }).click();
  const dialog = page.getByRole('dialog');
  // The answer may say what the new address is, and the dialog covers the warning.
  await dialog.getByText('<b>unknown key</b>').waitFor();
  await dialog.getByLabel('Also change the address of 1 other webhook with this address').waitFor();
  const also = dialog.getByLabel('Also change the address of 1 other webhook with the old address');
  const moved = new URL('/moved', repaired.url).href;
  await dialog.getByRole('textbox', { name: /^Address/ }).fill(moved);
  await also.waitFor();
  expect(await also.isChecked()).toBe(true);
  await dialog.getByText('What waits for the others is sent, too.').waitFor();
  expect(await developer.findings()).toEqual([]);
  await dialog.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByText(`Webhook ${other} has the new address, too.`).waitFor();
  for (const id of [one, other]) expect((await webhookOf(page, id)).url).toBe(moved);
  await until(() => repaired.received.length > 0);

  // One that is gone keeps nobody else from its new address, and is named.
  await page.getByRole('button', { name: 'Edit', exact: true }).click();
  await dialog.getByRole('textbox', { name: /^Address/ }).fill(`${moved}/again`);
  await also.check();
  await deleteWebhooks(page, other);
  await dialog.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByText(`Webhook ${other} still has its former address`).waitFor();
  expect((await webhookOf(page, one)).url).toBe(`${moved}/again`);
  await deleteWebhooks(page, one);
});
