import { describe, expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { during } from '../../kit/during.ts';
import { startOtherSite } from '../../kit/portal/other-site.ts';
import { userForTests } from '../../kit/portal/visitor.ts';

// A signed-in user opens a page of an attacker, in a real browser. `portal-stored-texts` tries stored HTML.

const victim = userForTests('owner');
const other = during(startOtherSite);

/** Ends the victim's session if the portal carries it out. */
const TARGET = '/portal/api/rms.portal.v1.SessionService/SignOutEverywhere';

/** Runs a script of the attacker in the victim's browser. Returns the statuses of what the portal answered. */
async function attack(site: string, script: (url: string) => string): Promise<number[]> {
  const page = await victim.page.context().newPage();
  const statuses: number[] = [];
  page.on('response', (response) => {
    if (response.url().includes(TARGET)) statuses.push(response.status());
  });
  await page.goto(site);
  await page.evaluate(script(`${victim.stack.file.base_url}${TARGET}`)).catch(() => {});
  await page.waitForLoadState('load');
  await page.close();
  return statuses;
}

async function expectSignedIn(): Promise<void> {
  await victim.open('/sessions');
  await victim.page.getByRole('heading', { name: 'Your sessions' }).waitFor();
}

const form = (type: string) => (url: string) =>
  `new Promise((resolve) => {
  const frame = Object.assign(document.createElement('iframe'), { name: 'result', onload: resolve });
  document.body.append(frame);
  const form = Object.assign(document.createElement('form'), {
    action: ${JSON.stringify(url)}, method: 'post', enctype: '${type}', target: 'result' });
  form.append(Object.assign(document.createElement('input'), { name: '{"a":"', value: '"}' }));
  document.body.append(form);
  form.submit();
})`;
const send =
  (init: object) =>
  (url: string): string =>
    `fetch(${JSON.stringify(url)}, ${JSON.stringify({ method: 'POST', body: '{}', credentials: 'include', ...init })})`;
const json = { 'content-type': 'application/json', 'connect-protocol-version': '1' };

describe.each(['crossSite', 'sameSite'] as const)('a page of another origin, %s', (site) => {
  test.each<[string, (url: string) => string]>([
    ['a form', form('application/x-www-form-urlencoded')],
    ['a form of plain text that looks like JSON', form('text/plain')],
    ['fetch without CORS', send({ mode: 'no-cors' })],
    ['fetch with the headers of the page', send({ headers: json })],
    ['fetch without a referrer', send({ mode: 'no-cors', referrerPolicy: 'no-referrer' })],
    ['a beacon', (url) => `navigator.sendBeacon(${JSON.stringify(url)}, '{}')`],
    ['an image', (url) => `Object.assign(new Image(), { src: ${JSON.stringify(url)} }).decode()`],
  ])('cannot end the session with %s', async (_what, script) => {
    const statuses = await attack(other()[site], script);
    expect(statuses.filter((status) => status < 400)).toEqual([]);
    await expectSignedIn();
  });

  test('cannot show the portal in a frame', async () => {
    const page = await victim.page.context().newPage();
    const refused = page.waitForEvent('console', (message) =>
      message.text().includes('frame-ancestors'),
    );
    await page.goto(other()[site]);
    const url = JSON.stringify(`${victim.stack.file.base_url}/portal/webhooks`);
    await page.evaluate(
      `document.body.append(Object.assign(document.createElement('iframe'), { src: ${url} }))`,
    );
    await refused;
    expect(await framedText(page)).toBe('');
    await page.close();
  });
});

/** The text in the frames of a page. */
async function framedText(page: Page): Promise<string> {
  const frames = page.frames().filter((frame) => frame !== page.mainFrame());
  const texts = await Promise.all(
    frames.map((frame) =>
      frame.evaluate<string>("document.querySelector('main')?.innerText ?? ''"),
    ),
  );
  return texts.join('');
}

describe('a script in the page', () => {
  test('does not see the cookie of the session', async () => {
    await victim.open('/sessions');
    expect(await victim.page.evaluate<string>('document.cookie')).toBe('');
    const cookies = await victim.page.context().cookies(victim.stack.file.base_url);
    expect(cookies.find(({ name }) => name === 'rms_portal')).toMatchObject({
      httpOnly: true,
      sameSite: 'Lax',
      path: '/',
    });
  });

  test('does not run without the nonce, and cannot send anything to another host', async () => {
    await victim.open('/sessions');
    const { page } = victim;
    const blocked = page.waitForEvent('console', (message) =>
      message.text().includes('script-src'),
    );
    await page.evaluate(
      `document.body.insertAdjacentHTML('beforeend', '<p id="in" onclick="document.title=1">x</p>')`,
    );
    await page.evaluate("document.getElementById('in').click()");
    await blocked;
    expect(await page.title()).toMatch(/^Your sessions/);
    const sent = page.evaluate(`fetch(${JSON.stringify(other().crossSite)}, { mode: 'no-cors' })`);
    await expect(sent).rejects.toThrow('Failed to fetch');
    victim.problems();
  });
});
