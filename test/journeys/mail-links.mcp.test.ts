import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser } from 'playwright-core';
import type { CaughtMail } from '../../deploy/local/mails.ts';
import { REVISIONS, signIn } from '../kit/mcp/assistant.ts';
import { startBrowser } from '../kit/mcp/browser.ts';
import { personOf, sharedStack } from '../kit/mcp/shared-stack.ts';
import { untilLoaded, visit } from '../kit/portal/visitor.ts';
import type { OpenStack } from '../kit/stack.ts';
import { until } from '../kit/until.ts';
import { startReceiver } from '../kit/webhooks/receiver.ts';

let stack: OpenStack;
let browser: Browser;
beforeAll(async () => {
  stack = await sharedStack();
  browser = await startBrowser();
}, 180_000);
afterAll(() => browser?.close(), 60_000);

/** Calls an operation on webhooks as a partner of the first shop. */
async function call(method: string, path: string, body?: object) {
  const response = await fetch(`${stack.file.base_url}/api/2026-10/webhooks${path}`, {
    method,
    headers: {
      'x-authorization': stack.shop.api_keys.developer_tools ?? '',
      ...(body && { 'content-type': 'application/json' }),
    },
    ...(body && { body: JSON.stringify(body) }),
  });
  expect(response.status).toBeLessThan(300);
  return response;
}

/** Waits until the owner has a mail that fits. */
function mailToOwner(fits: (mail: CaughtMail) => boolean): Promise<CaughtMail> {
  const path = `/mails?to=${encodeURIComponent(personOf(stack, 'owner').email)}`;
  return until(async () => (await stack.control<CaughtMail[]>('GET', path)).find(fits));
}

test('the links of mails open the pages that they name', async () => {
  const receiver = await startReceiver();
  receiver.answer = (response) => void response.writeHead(410).end();
  const mailAbout = (words: string, id: number) =>
    mailToOwner(
      ({ subject, text }) => subject.includes(words) && text.includes(`subscription ${id} `),
    );
  try {
    const url = new URL(`/mails-${Date.now()}`, receiver.url).href;
    const created = await call('POST', '', { topic: 'return', trigger: 'return.closed', url });
    const { id }: { id: number } = Object(await created.json());
    await call('GET', `/${id}/secret`);
    const shown = await mailAbout('secret was shown', id);
    await call('POST', `/${id}/test`, {});
    const off = await mailAbout('are inactive', id);
    const links = [shown, off].flatMap(({ text }) => [
      ...text.matchAll(/^- (?<title>.+): (?<link>https?:\S+)$/gm),
    ]);
    expect(links.map(({ groups }) => groups?.title)).toEqual([
      ...[`Webhook ${id}`, 'Audit log', `Webhook ${id}`, 'Deliveries that are held'],
    ]);
    const { page, problems, close } = await visit(stack, browser, 'owner');
    for (const { groups: { title = '', link = '' } = {} } of links) {
      await page.goto(link);
      await untilLoaded(page);
      const heading = await page.locator('main h1').innerText();
      expect(heading).toBe(title === 'Deliveries that are held' ? 'Deliveries' : title);
      if (heading === 'Deliveries') {
        const states = page.locator('main').getByText('Held', { exact: true });
        expect(await states.count()).toBeGreaterThan(0);
      }
    }
    expect(problems()).toEqual([]);
    await close();
  } finally {
    await receiver.stop();
  }
}, 180_000);

test('the owner is told that a member connected an assistant, and finds it in the portal', async () => {
  const person = personOf(stack, 'developer');
  const { client } = await signIn({ stack, browser, person, revision: REVISIONS[0] });
  await client?.close();
  const { text } = await mailToOwner(
    (mail) =>
      mail.subject.includes('An assistant was connected') &&
      mail.text.includes(`By: ${person.email}`),
  );
  const [, link = ''] = /^- Connected assistants: (\S+)$/m.exec(text) ?? [];
  const { page, problems, close } = await visit(stack, browser, 'owner');
  await page.goto(link);
  await untilLoaded(page);
  expect(await page.locator('main h1').innerText()).toBe('Connected assistants');
  expect(await page.locator('main').getByText(person.email).count()).toBeGreaterThan(0);
  expect(problems()).toEqual([]);
  await close();
}, 180_000);
