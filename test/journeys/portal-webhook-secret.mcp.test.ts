import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser } from 'playwright-core';
import { type Received, restClient, type Sent } from '../kit/gateway/rest-client.ts';
import { startBrowser } from '../kit/mcp/browser.ts';
import { sharedStack } from '../kit/mcp/shared-stack.ts';
import { visit } from '../kit/portal/visitor.ts';
import type { OpenStack } from '../kit/stack.ts';

let stack: OpenStack;
let browser: Browser;
let send: (sent: Sent) => Promise<Received>;
beforeAll(async () => {
  stack = await sharedStack();
  browser = await startBrowser();
  const key = stack.shop.api_keys.developer_tools ?? '';
  send = restClient({ gateway: { baseUrl: stack.file.base_url }, key });
}, 180_000);
afterAll(() => browser?.close(), 60_000);

const WEBHOOKS = '/api/2026-10/webhooks';
const TWO_SIGN = 'Two secrets sign at the moment';

test('after a rotation the old secret of a webhook is ended', async () => {
  const fields = { topic: 'return', trigger: 'return.closed', status: 'inactive' };
  const json = { ...fields, url: 'https://old.example.com/hook' };
  const { id } = (await send({ path: WEBHOOKS, json })).body as { id: number };
  const secrets = async () => {
    const { body } = await send({ path: `${WEBHOOKS}/${id}/secret` });
    return (body as { secrets: { secret: string }[] }).secrets;
  };
  const { page, open, findings, close } = await visit(stack, browser, 'developer');
  const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
  await open(`/webhooks/${id}`);
  expect(await page.getByRole('button', { name: 'End the old secret' }).count()).toBe(0);
  await press('Rotate');
  await press('Make a new secret');
  await page.getByText(TWO_SIGN).waitFor();
  const [newest, ...former] = await secrets();
  expect(former).toHaveLength(1);
  await press('End the old secret');
  const dialog = page.getByRole('dialog');
  await dialog.getByText('This cannot be undone').waitFor();
  expect(await findings()).toEqual([]);
  await dialog.getByRole('button', { name: 'End the old secret' }).click();
  await page.getByText('Only the newest secret signs now.').waitFor();
  await page.getByText(TWO_SIGN).waitFor({ state: 'detached' });
  expect(await secrets()).toEqual([newest]);
  await close();
  await send({ method: 'DELETE', path: `${WEBHOOKS}/${id}` });
});
