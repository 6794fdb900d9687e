import { expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { receiverForTests } from '../../kit/during.ts';
import { addWebhook, callPortal, deleteWebhooks } from '../../kit/portal/call.ts';
import { userForTests } from '../../kit/portal/visitor.ts';
import { until } from '../../kit/until.ts';

// A merchant's developer whose receiver failed for days: what waits and what was given up are counted in one place, and
// sent with one button.

const developer = userForTests('developer');
const receiver = receiverForTests();

/** Pauses between the attempts of a delivery, with the most jitter. Seconds. */
const PAUSES_S = [6, 36, 360, 2_160, 8_640, 21_600, 43_200, 60_480, 86_400, 103_680];

/** @param path of the receiver's address; another one for each webhook by default. */
const addAt = (page: Page, path: string = crypto.randomUUID()) =>
  addWebhook(page, { trigger: 'return.created', url: new URL(`/${path}`, receiver.url).href });

async function urlOf(page: Page, webhookId: string): Promise<string> {
  const { subscription: webhook } = await callPortal<{ subscription: { url: string } }>(
    page,
    'WebhooksService/GetSubscription',
    { subscriptionId: webhookId },
  );
  return webhook.url;
}

/** Waits until the webhook's newest delivery has this many attempts. Returns its state. */
function untilTried(page: Page, webhookId: string, attempts: number): Promise<string> {
  return until(async () => {
    const { deliveries } = await callPortal<{
      deliveries?: { attempts?: { number: number }[]; state: string }[];
    }>(page, 'WebhooksService/ListDeliveries', { subscriptionId: webhookId, pageSize: 1 });
    const [newest] = deliveries ?? [];
    return newest?.attempts?.[0]?.number === attempts && newest.state;
  });
}

/** Makes the clock skip the pauses between the newest delivery's attempts. Returns its state after the last. */
async function untilTriedAfter(
  page: Page,
  webhookId: string,
  pauses: readonly number[],
): Promise<string> {
  for (const [place, pause] of pauses.entries()) {
    await untilTried(page, webhookId, place + 1);
    await developer.stack.control('POST', '/clock/webhooks', { advance_s: pause });
  }
  return untilTried(page, webhookId, pauses.length + 1);
}

test('what waits and what was given up are counted, listed and sent together', async () => {
  const { page, open } = developer;
  receiver.answer = (response) => void response.writeHead(500).end();
  const webhookId = await addAt(page);
  await developer.stack.fixture('no_label');
  expect(await untilTriedAfter(page, webhookId, PAUSES_S)).toBe('DELIVERY_STATE_EXHAUSTED');
  await developer.stack.fixture('no_label');
  // Its next attempt is minutes away, so that it still waits while the page is read.
  expect(await untilTriedAfter(page, webhookId, PAUSES_S.slice(0, 2))).toBe(
    'DELIVERY_STATE_WAITING',
  );

  await open(`/webhooks/${webhookId}`);
  const banner = page.getByRole('alert');
  await banner
    .getByText(/^2 deliveries not received since .*: 1 is still tried, 1 was given up\.$/)
    .waitFor();
  expect(await developer.findings()).toEqual([]);
  await banner.getByRole('link', { name: 'Show them in the log' }).click();
  await page.getByRole('status').getByText('2 deliveries', { exact: true }).waitFor();
  await page.goBack();

  receiver.answer = (response) => void response.writeHead(200).end();
  // Until it is known what was given up, nothing is sent.
  await page.route('**/*/PreviewReplay', (route) => route.abort());
  await banner.getByRole('button', { name: 'Send all of them again' }).click();
  const dialog = page.getByRole('dialog');
  const submit = dialog.getByRole('button', { name: 'Send', exact: true });
  await submit.waitFor();
  expect(await submit.isDisabled()).toBe(true);
  await dialog.getByText('The service did not answer').waitFor();
  expect(await submit.isDisabled()).toBe(true);
  await page.unroute('**/*/PreviewReplay');
  // The browser reports the call that did not arrive.
  const problems = developer.problems().filter((text) => !text.includes('net::ERR_FAILED'));
  expect(problems).toEqual([]);
  await dialog.getByRole('button', { name: 'Try again' }).click();
  await dialog.getByText('1 waits and is sent now').waitFor();
  await dialog.getByText('1 was given up and is sent again').waitFor();
  expect(await developer.findings()).toEqual([]);
  // The replay starts after the waiting delivery is received, and the page has read it.
  await page.route('**/*/StartReplay', async (route) => {
    await dialog.getByText('1 waits and is sent now').waitFor({ state: 'detached' });
    await route.continue();
  });
  await dialog.getByRole('button', { name: 'Send 2 deliveries' }).click();
  await page.getByText('All 2 deliveries were received').waitFor();
  await page.getByText('2 of 2 received.').waitFor();
  await banner.waitFor({ state: 'detached' });
  expect(await developer.findings()).toEqual([]);

  await page.getByRole('link', { name: 'Open the jobs of this webhook' }).click();
  await page.getByRole('link', { name: /^Replay \d+$/ }).click();
  await page.getByText('1 of 1 queued, 0 left out.').waitFor();
  await page.getByText('Of 1 queued: 1 received.').waitFor();
  expect(await developer.findings()).toEqual([]);
  await page.getByRole('link', { name: 'Open them in the log' }).click();
  await page.getByRole('status').getByText('1 delivery', { exact: true }).waitFor();
  expect(await developer.findings()).toEqual([]);
  await deleteWebhooks(page, webhookId);
});

/** The dialog's warning that this webhook is equal. */
const warningOf = (page: Page, webhookId: string) =>
  page.getByRole('dialog').getByText(`Webhook ${webhookId} has the same address, event and topic.`);

test('an equal webhook is named before and after it is added', async () => {
  const { page, open } = developer;
  const webhookId = await addAt(page);
  await open('/webhooks');
  await page.getByRole('button', { name: 'Add a webhook' }).click();
  const dialog = page.getByRole('dialog');
  const warning = warningOf(page, webhookId);
  await dialog.getByRole('textbox', { name: /^Address/ }).fill(await urlOf(page, webhookId));
  await dialog.getByLabel('Event').selectOption('return.closed');
  expect(await warning.count()).toBe(0);
  await dialog.getByLabel('Event').selectOption('return.created');
  await dialog.getByLabel(/^Topic/).selectOption('return');
  await warning.waitFor();
  expect(await developer.findings()).toEqual([]);
  await dialog.getByRole('button', { name: 'Add the webhook' }).click();
  await dialog.getByText('Signing secret').waitFor();
  await warning.waitFor();
  await dialog.getByRole('button', { name: 'Open the webhook and send a test' }).click();
  await page.getByRole('heading', { name: /^Webhook \d+$/ }).waitFor();
  const added = page.url().split('/').at(-1)?.split('?')[0] ?? '';
  await deleteWebhooks(page, webhookId, added);
});

test('of many equal webhooks five are named, and the others are counted', async () => {
  const { page, open } = developer;
  const path = crypto.randomUUID();
  const ids: string[] = [];
  for (let equal = 0; equal < 6; equal += 1) ids.push(await addAt(page, path));
  await open('/webhooks');
  await page.getByRole('button', { name: 'Add a webhook' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('textbox', { name: /^Address/ }).fill(await urlOf(page, ids[0] ?? ''));
  await dialog.getByLabel('Event').selectOption('return.created');
  await dialog.getByLabel(/^Topic/).selectOption('return');
  const named = String.raw`Webhook \d+(, webhook \d+){4} and 1 more`;
  await dialog
    .getByText(new RegExp(`^${named} have the same address.* each event 7 times`))
    .waitFor();
  expect(await developer.findings()).toEqual([]);
  await deleteWebhooks(page, ...ids);
});

test('an equal webhook is named while another one is edited, and none is equal to itself', async () => {
  const { page, open } = developer;
  const [webhookId, other] = [await addAt(page), await addAt(page)];
  await open(`/webhooks/${other}`);
  await page.getByRole('button', { name: 'Edit', exact: true }).click();
  const address = page.getByRole('dialog').getByRole('textbox', { name: /^Address/ });
  const own = await address.inputValue();
  await address.fill(await urlOf(page, webhookId));
  await warningOf(page, webhookId).waitFor();
  expect(await developer.findings()).toEqual([]);
  await address.fill(own);
  await page.getByText('There is an equal webhook').waitFor({ state: 'detached' });
  await deleteWebhooks(page, webhookId, other);
});
