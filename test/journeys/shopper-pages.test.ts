import { randomInt } from 'node:crypto';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { callIn, journeyForTests, untilState } from '../kit/journeys/journey.ts';
import { Browser } from '../kit/oauth/browser.ts';

// A shopper finds an order, returns a part of it and follows the return, with the real services.

const journey = journeyForTests();
const HANDLE = 'demo-shop';
const EMAIL = 'shopper@example.com';
/** An order that no other test has: two mugs, a scarf and a gift card. */
const newOrder = () => `#T10-${randomInt(1_000, 1_000_000)}`;
const at = (path: string) => `${journey.stack.file.base_url}/r/${HANDLE}${path}`;

beforeAll(async () => {
  const { settings } = await journey.services.returns.updateSettings({
    ...callIn(journey.stack.shop),
    settings: {
      shopperPage: {
        handle: HANDLE,
        url: at(''),
        accent: '#ffdd00',
        supportEmail: 'help@demo.example',
      },
    },
  });
  expect(settings?.shopperPage?.handle).toBe(HANDLE);
});

const post = (browser: Browser, path: string, fields: Record<string, string>) =>
  browser.send(at(path), { method: 'POST', body: new URLSearchParams(fields) });

/** A browser that has found an order. */
async function found(order: string): Promise<Browser> {
  const browser = new Browser();
  const { status, headers } = await post(browser, '', { order, proof: EMAIL });
  expect([status, headers.get('location')]).toEqual([303, `/r/${HANDLE}/return`]);
  return browser;
}

/** The first field of a page with a name that begins so. */
function fieldOf(text: string, start: string): string {
  const [, name = ''] = new RegExp(`name="(${start}\\d+)"`).exec(text) ?? [];
  return name;
}

const fieldValue = (text: string, name: string) =>
  new RegExp(`name="${name}" value="([^"]*)"`).exec(text)?.[1] ?? '';

test('a shopper returns one of two items, once, and follows the return to the refund', async () => {
  const browser = await found(newOrder());
  const choose = await browser.send(at('/return'));
  expect(choose.text).toContain('What do you want to return?');
  const units = fieldOf(choose.text, 'units_');
  const check = await post(browser, '/return', { [units]: '1', outcome: 'refund', step: 'check' });
  expect([check.status, check.text]).toEqual([200, expect.stringContaining('£12.00')]);
  const key = fieldValue(check.text, 'key');
  const fields = { [units]: '1', outcome: 'refund', method: 'mail', key, step: 'send' };
  const [first, second] = await Promise.all([
    post(browser, '/return', fields),
    post(browser, '/return', fields),
  ]);
  const status = first.headers.get('location') ?? '';
  expect([first.status, second.status, second.headers.get('location')]).toEqual([303, 303, status]);
  expect(status).toMatch(new RegExp(`^/r/${HANDLE}/s/[A-Za-z0-9_-]{43}$`));
  // The link needs no session.
  const page = await new Browser().send(`${journey.stack.file.base_url}${status}`);
  expect(page.text).toContain('We have your return.');
  const [, id = ''] = /Return (\d+)/.exec(page.text) ?? [];
  const path = `/api/2026-10/warehouse/return/details?return_id=${id}`;
  expect((await journey.send({ path })).body).toMatchObject({
    status_page_url: `${journey.stack.file.base_url}${status}`,
  });
  await journey.send({ method: 'POST', path: `/api/2026-10/warehouse/return/${id}/process` });
  await untilState(journey, Number(id), 'closed');
  const after = await new Browser().send(`${journey.stack.file.base_url}${status}?lang=de`);
  expect(after.text).toContain('Ihre Rückgabe ist abgeschlossen.');
  expect(after.text).not.toContain('stornieren');
});

test('a shopper cancels a return, and can return the item again', async () => {
  const browser = await found(newOrder());
  const choose = await browser.send(at('/return'));
  const fields = { [fieldOf(choose.text, 'units_')]: '2', outcome: 'credit', step: 'check' };
  const { text } = await post(browser, '/return', fields);
  const sent = await post(browser, '/return', {
    ...fields,
    step: 'send',
    key: fieldValue(text, 'key'),
  });
  const status = sent.headers.get('location')?.replace(`/r/${HANDLE}`, '') ?? '';
  expect((await browser.send(at('/return'))).text).toContain(
    'It is in a return that is under way.',
  );
  expect((await post(browser, `${status}/cancel`, {})).status).toBe(303);
  expect((await browser.send(at(status))).text).toContain('This return was cancelled.');
  expect((await browser.send(at('/return'))).text).not.toContain('under way');
});

describe('a withdrawal', () => {
  const STATED = {
    order: 'an order that nobody knows',
    name: 'Ada Example',
    email: 'ada@example.com',
  };

  test('is reached from each page, confirmed in a second step, and acknowledged with the time', async () => {
    const browser = new Browser();
    const first = await browser.send(at(''), { headers: { 'accept-language': 'de' } });
    expect(first.text).toContain(
      `<a class="withdraw" href="/r/${HANDLE}/withdraw">Vertrag widerrufen</a>`,
    );
    const check = await post(browser, '/withdraw?lang=de', { ...STATED, step: 'check' });
    expect(check.text).toContain('<button name="step" value="send">Widerruf bestätigen</button>');
    const fields = { ...STATED, key: fieldValue(check.text, 'key'), step: 'send' };
    const [done, again] = [
      await post(browser, '/withdraw', fields),
      await post(browser, '/withdraw', fields),
    ];
    for (const part of ['Ihr Widerruf ist eingegangen', ...Object.values(STATED)]) {
      expect(done.text).toContain(part);
    }
    expect(done.text).toMatch(/\d\d:\d\d:\d\d UTC/);
    expect(again.text).toBe(done.text);
    const { withdrawals } = await journey.services.returns.listWithdrawals(
      callIn(journey.stack.shop),
    );
    expect(withdrawals).toMatchObject([{ orderName: STATED.order, name: STATED.name }]);
  });

  test.each([
    [{ ...STATED, name: ' ' }, 'Fill in all three fields.'],
    [{ ...STATED, email: 'ada' }, 'Check the e-mail address.'],
  ])('asks again for %j', async (fields, problem) => {
    const { status, text } = await post(new Browser(), '/withdraw', { ...fields, step: 'check' });
    expect([status, text]).toEqual([422, expect.stringContaining(problem)]);
  });
});

describe('nothing is disclosed', () => {
  const withoutEcho = (text: string) => text.replaceAll(/value="[^"]*"/g, '');

  test('an order that does not exist and another e-mail address have the same response', async () => {
    const other = await post(new Browser(), '', { order: newOrder(), proof: 'eve@example.com' });
    const none = await post(new Browser(), '', { order: 'nothing', proof: 'eve@example.com' });
    expect([other.status, none.status]).toEqual([404, 404]);
    expect(withoutEcho(other.text)).toBe(withoutEcho(none.text));
    expect([...other.headers.keys()]).toEqual([...none.headers.keys()]);
  });

  test('a page of the order needs a session, and a session of another shop is none', async () => {
    const browser = new Browser();
    const { status, headers } = await browser.send(at('/return'));
    expect([status, headers.get('location')]).toEqual([303, `/r/${HANDLE}`]);
    const sent = await post(browser, '/return', { step: 'send' });
    expect([sent.status, sent.text]).toEqual([
      403,
      expect.stringContaining('Find your order again'),
    ]);
  });

  test('a token that nothing has, and a handle that no shop has, are the same page', async () => {
    const token = 'x'.repeat(43);
    const page = await new Browser().send(at(`/s/${token}`));
    expect([page.status, page.text]).toEqual([
      404,
      expect.stringContaining('There is nothing here'),
    ]);
    const { base_url: url } = journey.stack.file;
    const shop = await new Browser().send(`${url}/r/no-such-shop`);
    expect([shop.status, shop.text]).toEqual([
      404,
      expect.stringContaining('There is nothing here'),
    ]);
  });

  test('failures of one order name are limited, and another name is not', async () => {
    const order = `guessed ${newOrder()}`;
    const statuses: number[] = [];
    for (let n = 0; n < 12; n += 1) {
      const { status } = await post(new Browser(), '', { order, proof: `${n}@example.com` });
      statuses.push(status);
    }
    expect(statuses.slice(0, 10)).toEqual(new Array(10).fill(404));
    expect(statuses.at(-1)).toBe(429);
    await found(newOrder());
  });
});

test('a form that another site sends does nothing', async () => {
  const { status } = await new Browser().send(at(''), {
    method: 'POST',
    headers: { 'sec-fetch-site': 'cross-site' },
    body: new URLSearchParams({ order: newOrder(), proof: EMAIL }),
  });
  expect(status).toBe(404);
});

test('pages run no script, load nothing but pictures, and are in four languages', async () => {
  for (const [language, title] of [
    ['en', 'Return something'],
    ['de', 'Etwas zurückgeben'],
    ['fr', 'Retourner un article'],
    ['es', 'Devolver un artículo'],
  ] as const) {
    const { text, headers } = await new Browser().send(at(''), {
      headers: { 'accept-language': language },
    });
    expect(text).toContain(`<html lang="${language}">`);
    expect(text).toContain(`<h1>${title}</h1>`);
    expect(text).not.toMatch(/<script|<link|style="/);
    expect(Buffer.byteLength(text)).toBeLessThan(40 * 1024);
    expect(headers.get('content-security-policy')).toMatch(
      /^default-src 'none'; style-src 'sha256-[^']+'; img-src data: https:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'$/,
    );
    expect(headers.get('referrer-policy')).toBe('same-origin');
  }
});
