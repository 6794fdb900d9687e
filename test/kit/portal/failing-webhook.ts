import type { Page } from 'playwright-core';
import type { OpenStack } from '../stack.ts';
import { until } from '../until.ts';
import type { Receiver } from '../webhooks/receiver.ts';
import { addWebhook, callPortal } from './call.ts';

/**
 * Makes a webhook with one delivery that failed three times, and waits five minutes for the next attempt.
 *
 * @param broken a receiver that answers with an error.
 * @returns the id of the webhook.
 */
export async function failingWebhook(
  stack: OpenStack,
  page: Page,
  broken: Pick<Receiver, 'url' | 'received'>,
): Promise<string> {
  const before = broken.received.length;
  const idempotencyKey = crypto.randomUUID();
  const webhookId = await addWebhook(page, {
    url: new URL(`/${idempotencyKey}`, broken.url).href,
  });
  await callPortal(page, 'WebhooksService/SendTest', { subscriptionId: webhookId, idempotencyKey });
  for (const [attempts, seconds] of [
    [1, 7],
    [2, 40],
    [3, 0],
  ] as const) {
    await until(() => broken.received.length === before + attempts);
    await untilRecorded(page, webhookId, attempts);
    await stack.control('POST', '/clock/webhooks', { advance_s: seconds });
  }
  return webhookId;
}

/** Waits until the newest delivery of a webhook has this many recorded attempts. */
function untilRecorded(page: Page, webhookId: string, attempts: number): Promise<unknown> {
  return until(async () => {
    const { deliveries } = await callPortal<{ deliveries?: { attempts?: { number: number }[] }[] }>(
      page,
      'WebhooksService/ListDeliveries',
      { subscriptionId: webhookId, pageSize: 1 },
    );
    return deliveries?.[0]?.attempts?.[0]?.number === attempts;
  });
}
