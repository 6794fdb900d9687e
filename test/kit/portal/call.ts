import type { Page } from 'playwright-core';

/**
 * Calls a method of the portal with the session of a page, as the page does.
 *
 * @param name such as `TeamService/AddMember`.
 * @throws Error with the response when it is not a success.
 */
export async function callPortal<T>(page: Page, name: string, body: object): Promise<T> {
  const url = new URL(`/portal/api/rms.portal.v1.${name}`, page.url());
  const response = await page.context().request.post(url.href, {
    headers: { 'connect-protocol-version': '1', 'sec-fetch-site': 'same-origin' },
    data: body,
  });
  if (!response.ok()) throw new Error(`${name}: ${response.status()} ${await response.text()}`);
  return (await response.json()) as T;
}
