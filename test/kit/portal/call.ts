import type { Page } from 'playwright-core';
import { nameOf, PORTAL_METHODS } from '../../../gateway/portal/methods.ts';

/** The full name of a method. @param name such as `TeamService/ChangeRole`. */
export function fullName(name: string): string {
  const found = PORTAL_METHODS.map(({ method }) => nameOf(method)).find((one) =>
    one.endsWith(`.${name}`),
  );
  if (found === undefined) throw new Error(`the portal has no method ${name}`);
  return found;
}

/**
 * Calls a method of the portal with the session of a page, as the page does.
 *
 * @param name such as `TeamService/ChangeRole`.
 * @throws Error with the response when it is not a success.
 */
export async function callPortal<T>(page: Page, name: string, body: object): Promise<T> {
  const url = new URL(`/portal/api/${fullName(name)}`, page.url());
  const response = await page.context().request.post(url.href, {
    headers: { 'connect-protocol-version': '1', 'sec-fetch-site': 'same-origin' },
    data: body,
  });
  if (!response.ok()) throw new Error(`${name}: ${response.status()} ${await response.text()}`);
  return (await response.json()) as T;
}

/** Adds a webhook, by default of `return.closed`. Returns its id. */
export async function addWebhook(
  page: Page,
  o: {
    readonly url: string;
    readonly topic?: string;
    readonly trigger?: string;
    readonly description?: string;
    readonly status?: string;
  },
): Promise<string> {
  const body = { topic: 'return', trigger: 'return.closed', ...o };
  const { subscription } = await callPortal<{ subscription: { id: string } }>(
    page,
    'WebhooksService/CreateSubscription',
    { ...body, idempotencyKey: crypto.randomUUID() },
  );
  return subscription.id;
}

export async function deleteWebhooks(page: Page, ...ids: readonly string[]): Promise<void> {
  for (const subscriptionId of ids) {
    await callPortal(page, 'WebhooksService/DeleteSubscription', { subscriptionId });
  }
}
