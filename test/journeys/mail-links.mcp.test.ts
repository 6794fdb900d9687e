import { expect, test } from '@jest/globals';
import type { CaughtMail } from '../../deploy/local/mails.ts';
import { REVISIONS, signIn } from '../kit/mcp/assistant.ts';
import { personOf } from '../kit/mcp/shared-stack.ts';
import { headingOf, portalForTests, untilLoaded } from '../kit/portal/visitor.ts';
import { until } from '../kit/until.ts';
import { startReceiver } from '../kit/webhooks/receiver.ts';

const portal = portalForTests();

/** Calls an operation on webhooks as a partner of the first shop. */
async function call(method: string, path: string, body?: object) {
  const response = await fetch(`${portal.stack.file.base_url}/api/2026-10/webhooks${path}`, {
    method,
    headers: {
      'x-authorization': portal.stack.shop.api_keys.developer_tools ?? '',
      ...(body && { 'content-type': 'application/json' }),
    },
    ...(body && { body: JSON.stringify(body) }),
  });
  expect(response.status).toBeLessThan(300);
  return response;
}

/** Waits until the owner has a mail that fits. */
function mailToOwner(fits: (mail: CaughtMail) => boolean): Promise<CaughtMail> {
  const path = `/mails?to=${encodeURIComponent(personOf(portal.stack, 'owner').email)}`;
  return until(async () => (await portal.stack.control<CaughtMail[]>('GET', path)).find(fits));
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
    const { page, problems, close } = await portal.visit('owner');
    for (const { groups: { title = '', link = '' } = {} } of links) {
      await page.goto(link);
      await untilLoaded(page);
      const heading = await headingOf(page);
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
});

test('the owner gets a mail when a member connects an assistant, and finds it in the portal', async () => {
  const person = personOf(portal.stack, 'developer');
  const { client } = await signIn({ ...portal, person, revision: REVISIONS[0] });
  await client?.close();
  const { text } = await mailToOwner(
    (mail) =>
      mail.subject.includes('An assistant was connected') &&
      mail.text.includes(`By: ${person.email}`),
  );
  const [, link = ''] = /^- Connected assistants: (\S+)$/m.exec(text) ?? [];
  const { page, problems, close } = await portal.visit('owner');
  await page.goto(link);
  await untilLoaded(page);
  expect(await headingOf(page)).toBe('Connected assistants');
  expect(await page.locator('main').getByText(person.email).count()).toBeGreaterThan(0);
  expect(problems()).toEqual([]);
  await close();
});
