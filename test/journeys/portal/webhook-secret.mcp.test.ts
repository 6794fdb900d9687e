import { expect, test } from '@jest/globals';
import { restClient, type Sent } from '../../kit/gateway/rest-client.ts';
import { callPortal } from '../../kit/portal/call.ts';
import { portalForTests } from '../../kit/portal/visitor.ts';

const portal = portalForTests();
const send = (sent: Sent) => {
  const { file, shop } = portal.stack;
  const key = shop.api_keys.developer_tools ?? '';
  return restClient({ gateway: { baseUrl: file.base_url }, key })(sent);
};

const WEBHOOKS = '/api/2026-10/webhooks';
const TWO_SIGN = 'Two secrets sign at the moment';

/** Creates a webhook that sends nothing. */
async function newWebhook(): Promise<number> {
  const fields = { topic: 'return', trigger: 'return.closed', status: 'inactive' };
  const json = { ...fields, url: `https://${crypto.randomUUID()}.example.com/hook` };
  return ((await send({ path: WEBHOOKS, json })).body as { id: number }).id;
}

test('after a rotation the old secret of a webhook is ended', async () => {
  const id = await newWebhook();
  const secrets = async () => {
    const { body } = await send({ path: `${WEBHOOKS}/${id}/secret` });
    return (body as { secrets: { secret: string }[] }).secrets;
  };
  const { page, open, findings, close } = await portal.visit('developer');
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

test('a secret that is shown is hidden when a colleague has made a newer one', async () => {
  const id = await newWebhook();
  const { page, open, findings, close } = await portal.visit('developer');
  const secret = page.getByText(/^whsec_[\w+/=]+$/);
  const show = () => page.getByRole('button', { name: 'Show the secret' }).click();
  await open(`/webhooks/${id}`);
  await show();
  const former = await secret.innerText();
  const key = { subscriptionId: String(id), idempotencyKey: crypto.randomUUID() };
  await callPortal(page, 'WebhooksService/RotateSecret', { ...key, overlapHours: 0 });
  await page.getByText('Somebody has made a newer secret since you looked.').waitFor();
  expect(await secret.count()).toBe(0);
  expect(await findings()).toEqual([]);
  await show();
  await secret.waitFor();
  expect(await secret.innerText()).not.toBe(former);
  await close();
  await send({ method: 'DELETE', path: `${WEBHOOKS}/${id}` });
});
