import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  invalid,
  notFound,
  present,
  type ReturnsBench,
  startReturnsBench,
} from '../../test/kit/services/returns-bench.ts';
import { actor, refusal } from '../../test/kit/services/running-service.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

const PAGE = { accent: '#0b57c9', supportEmail: 'help@shop.example' };
const urlOf = (handle: string) => `https://returns.example/r/${handle}`;

/** A shop with a page. */
async function shopWithPage(handle: string): Promise<bigint> {
  const shopId = await bench.shop();
  await setPage(shopId, { ...PAGE, handle, url: urlOf(handle) });
  return shopId;
}

function setPage(shopId: bigint, shopperPage: { handle: string; url: string }) {
  return bench.client.updateSettings({ shopId, actor, settings: { shopperPage } });
}

const find = (shopId: bigint, url: string) =>
  bench.client.findShopperReturn({ shopId, actor, statusToken: url.split('/').at(-1) ?? '' });

describe('the page of a shop', () => {
  test('is found by its handle, which no other shop gets, until the shop gives it up', async () => {
    const shopId = await shopWithPage('first');
    expect(await bench.client.findShopperPage({ actor, handle: 'first' })).toMatchObject({
      shopId,
      page: { ...PAGE, handle: 'first', url: urlOf('first') },
    });
    const other = await bench.shop();
    const taken = setPage(other, { handle: 'first', url: urlOf('first') });
    expect(await refusal(taken)).toEqual(invalid('settings.shopper_page.handle'));
    await setPage(shopId, { handle: '', url: '' });
    const gone = bench.client.findShopperPage({ actor, handle: 'first' });
    expect(await refusal(gone)).toMatchObject({ code: Code.NotFound });
    await setPage(other, { handle: 'first', url: urlOf('first') });
    expect((await bench.client.findShopperPage({ actor, handle: 'first' })).shopId).toBe(other);
  });

  test.each([
    [{ handle: 'ab', url: 'https://x.example' }, 'handle'],
    [{ handle: 'With Blank', url: 'https://x.example' }, 'handle'],
    [{ handle: 'abc', url: '' }, 'url'],
    [{ handle: 'abc', url: 'javascript:alert(1)' }, 'url'],
    [{ handle: 'abc', url: 'https://x.example', accent: 'red' }, 'accent'],
    [{ handle: 'abc', url: 'https://x.example', supportEmail: 'nobody' }, 'support_email'],
  ])('is rejected as %j', async (page, field) => {
    const refused = setPage(await bench.shop(), page);
    expect(await refusal(refused)).toEqual(invalid(`settings.shopper_page.${field}`));
  });

  test('keeps its look while it is off, and can be switched on again by a caller who has read it', async () => {
    const shopId = await shopWithPage('on-and-off');
    await setPage(shopId, { ...PAGE, handle: '', url: '' });
    expect((await bench.submit(shopId)).statusPageUrl).toBe('');
    const { settings } = await bench.client.getSettings({ shopId, actor });
    const seen = present(settings?.shopperPage);
    expect(seen).toMatchObject({ ...PAGE, handle: '' });
    const again = { ...seen, handle: 'on-and-off', url: urlOf('on-and-off') };
    const on = { shopId, actor, settings: { shopperPage: again }, expected: { shopperPage: seen } };
    await bench.client.updateSettings(on);
    // The gateway has moved to another address since.
    const moved = { ...again, url: 'https://moved.example/r/on-and-off' };
    const off = { settings: { shopperPage: seen }, expected: { shopperPage: moved } };
    await bench.client.updateSettings({ shopId, actor, ...off });
  });

  test('is not lost when other settings change', async () => {
    const shopId = await shopWithPage('kept');
    await bench.client.updateSettings({ shopId, actor, settings: { expiryDays: 7 } });
    const { settings } = await bench.client.getSettings({ shopId, actor });
    expect(settings?.shopperPage).toMatchObject({ ...PAGE, handle: 'kept' });
  });
});

describe('the link of a return', () => {
  test('is below the page, and finds this return in this shop', async () => {
    const shopId = await shopWithPage('linked');
    const submitted = await bench.submit(shopId);
    expect(submitted.statusPageUrl).toMatch(
      /^https:\/\/returns\.example\/r\/linked\/s\/[A-Za-z0-9_-]{43}$/,
    );
    const { return: found } = await find(shopId, submitted.statusPageUrl);
    expect(found?.id).toBe(submitted.id);
    const elsewhere = await bench.shop();
    expect(await refusal(find(elsewhere, submitted.statusPageUrl))).toEqual(notFound('RETURN'));
    expect(await refusal(find(shopId, 'https://x/not-a-token'))).toEqual(notFound('RETURN'));
    const { rows } = await bench.db.pool.query(
      `select encode(token_hash, 'hex') as hash from status_links where shop_id = $1`,
      [shopId],
    );
    expect(rows).toHaveLength(1);
  });

  test('is the one that the submitter gave, if there is one', async () => {
    const shopId = await shopWithPage('given');
    const statusPageUrl = 'https://shop.example/r/1';
    const submitted = await bench.submit(shopId, { statusPageUrl });
    expect(submitted.statusPageUrl).toBe(statusPageUrl);
    expect((await bench.submit(await bench.shop())).statusPageUrl).toBe('');
  });

  test('finds nothing after the redaction of the shopper, and the details have none', async () => {
    const shopId = await shopWithPage('redacted');
    const email = 'ada@redacted.example';
    const submitted = await bench.submit(shopId, { customer: { email } });
    await bench.client.redactCustomer({ shopId, actor, email });
    expect(await refusal(find(shopId, submitted.statusPageUrl))).toEqual(notFound('RETURN'));
    const selector = { case: 'returnId', value: submitted.id } as const;
    const { return: after } = await bench.client.findReturn({ shopId, actor, selector });
    expect(present(after).statusPageUrl).toBe('');
  });
});
