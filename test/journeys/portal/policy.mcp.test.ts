import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { callPortal } from '../../kit/portal/call.ts';
import { type NewShop, newShop } from '../../kit/portal/new-shop.ts';
import { portalForTests, type Visitor } from '../../kit/portal/visitor.ts';
import { until } from '../../kit/until.ts';

// A merchant's owner says what the shop takes back: each rule as a sentence, a preview, versions, and two people at once.

const portal = portalForTests();
let shop: NewShop;
let owner: Visitor;
beforeEach(async () => {
  shop = await newShop(portal);
  owner = await shop.visit('owner');
});
afterEach(() => owner?.close());

interface Stored {
  readonly version?: string;
  readonly policy?: { readonly window?: { readonly days?: number }; readonly countries?: string[] };
}
const stored = () => callPortal<Stored>(owner.page, 'ReturnsService/GetPolicy', {});
const ruleOf = (title: string) => owner.page.getByRole('region', { name: title, exact: true });
const change = (title: string) =>
  owner.page
    .locator('summary')
    .filter({ hasText: `Change: ${title.toLowerCase()}` })
    .click();
const save = () => owner.page.getByRole('button', { name: 'Save as a new version' }).click();
const saved = async () => {
  await save();
  await owner.page.getByText('The policy is saved.').last().waitFor();
};

describe('the policy', () => {
  test('is said in plain sentences, changed, previewed, kept in versions and brought back', async () => {
    const { page, open, findings } = owner;
    await open('/policy');
    await page.getByText('Your shop has no policy yet: everything is allowed.').waitFor();
    await ruleOf('Time limit').getByText('Goods may come back without a time limit.').waitFor();
    await page.getByText('There were no returns in the last 90 days.').waitFor();
    expect(await findings()).toEqual([]);

    await change('Time limit');
    await ruleOf('Time limit').getByLabel('Days').fill('30');
    await ruleOf('Time limit')
      .getByText(/within 30 days after the delivery/)
      .waitFor();
    await page.getByRole('button', { name: 'Show it for your changes' }).click();
    await page.getByRole('button', { name: 'It is shown for these rules' }).waitFor();
    await saved();
    await page.getByText('Version 1 is in force since').waitFor();
    expect((await stored()).policy?.window?.days).toBe(30);

    await ruleOf('Time limit').getByLabel('Days').fill('14');
    await saved();
    await page.getByText('Version 2 is in force since').waitFor();
    await page.getByLabel('Version', { exact: true }).selectOption('Version 1');
    const earlier = ruleOf('Earlier versions');
    await earlier.getByText(/within 30 days after the delivery/).waitFor();
    expect(await findings()).toEqual([]);
    await earlier.getByRole('button', { name: 'Edit it as a draft' }).click();
    await saved();
    await page.getByText('Version 3 is in force since').waitFor();
    expect((await stored()).policy?.window?.days).toBe(30);
  });

  test('has every part in the form', async () => {
    const { page, open, findings } = owner;
    await open('/policy');
    const add = (title: string, noun: string) =>
      ruleOf(title).getByRole('button', { name: noun, exact: true }).click();
    await change('Goods that never come back');
    await ruleOf('Goods that never come back').getByLabel('SKUs').fill('SALE-*\nLAST');
    await change('Goods with rules of their own');
    await add('Goods with rules of their own', 'Add an exception');
    const exception = ruleOf('Goods with rules of their own');
    await exception.getByLabel('Tags').fill('shoes');
    await exception.getByLabel('Another time limit').check();
    await exception.getByLabel('Exchange', { exact: true }).check();
    await change('Countries');
    await ruleOf('Countries').getByLabel('Countries').fill('de, fr');
    await change('What shoppers get');
    await ruleOf('What shoppers get').getByLabel('Refund', { exact: true }).check();
    await change('How goods come back');
    await ruleOf('How goods come back').getByLabel('By mail').check();
    await change('Reasons');
    await add('Reasons', 'Add a reason');
    await ruleOf('Reasons').getByRole('textbox', { name: 'Code', exact: true }).fill('too_small');
    await ruleOf('Reasons').getByLabel('Text in English').fill('Too small');
    await ruleOf('Reasons').getByLabel('Text in German').fill('Zu klein');
    await ruleOf('Reasons').getByLabel('The shopper must comment').check();
    await change('Fees');
    await add('Fees', 'Add a fee');
    await ruleOf('Fees').getByLabel('Fee, GBP').fill('4.95');
    await change('Review');
    await ruleOf('Review').getByLabel('Goods are worth more than, GBP').fill('200');
    await ruleOf('Review').getByLabel('Too small').check();
    await ruleOf('Review').getByLabel('The shopper has more than this many returns').fill('3');
    await ruleOf('Review').getByLabel('in this many days').fill('30');
    await change('Processing without a person');
    await ruleOf('Processing without a person').getByLabel('Arrived').check();
    await ruleOf('Processing without a person').getByLabel('Only up to this amount').fill('100');
    await change('What is paid');
    await ruleOf('What is paid').getByLabel('What arrived').check();
    await change('Withdrawals from the contract');
    await ruleOf('Withdrawals from the contract').getByLabel('A return at once').check();
    expect(await findings()).toEqual([]);
    await saved();
    expect((await stored()).policy).toMatchObject({
      finalSale: { skus: ['LAST', 'SALE-*'] },
      exceptions: [
        { items: { tags: ['shoes'] }, window: { days: 14 }, outcomes: ['OUTCOME_EXCHANGE'] },
      ],
      countries: ['DE', 'FR'],
      outcomes: ['OUTCOME_REFUND'],
      returnMethods: ['RETURN_METHOD_MAIL'],
      reasons: [
        { code: 'too_small', label: { de: 'Zu klein', en: 'Too small' }, asksComment: true },
      ],
      fees: [{ amount: '4.95' }],
      review: { valueAbove: '200.00', reasons: ['too_small'], returnsAbove: 3, returnsDays: 30 },
      process: { moment: 'MOMENT_ARRIVED', upTo: '100.00' },
      refundBasis: 'REFUND_BASIS_ARRIVED',
      withdrawals: 'WITHDRAWAL_HANDLING_RETURN',
    });
    const { entries } = await callPortal<{ entries: { what: string }[] }>(
      page,
      'AuditService/ListAuditEntries',
      {},
    );
    expect(entries.map(({ what }) => what)).toContain('Change the policy');
  });

  test('that a colleague saved at the same time is shown, and not overwritten', async () => {
    const { page, open, findings } = owner;
    await open('/policy');
    await change('Time limit');
    await ruleOf('Time limit').getByLabel('Days').fill('30');
    const admin = await shop.visit('admin');
    const theirs = { policy: { countries: ['DE'] }, expectedVersion: '0' };
    await callPortal(admin.page, 'ReturnsService/UpdatePolicy', theirs);
    await admin.close();
    await save();
    const alert = page.getByRole('alert').filter({ hasText: 'A colleague saved version 1' });
    await alert.getByText('Only orders that were shipped to these may come back').waitFor();
    expect(await stored()).toMatchObject({ version: '1', policy: { countries: ['DE'] } });
    expect((await findings()).filter((one) => !one.includes('409'))).toEqual([]);
    await alert.getByRole('button', { name: 'Go on with both changes' }).click();
    await saved();
    expect(await stored()).toMatchObject({
      version: '2',
      policy: { window: { days: 30 }, countries: ['DE'] },
    });
  });

  test('is read only for those who may not change it', async () => {
    const developer = await shop.visit('developer');
    await developer.open('/policy');
    await developer.page.getByText('Goods may come back without a time limit.').waitFor();
    expect(await developer.page.locator('main').getByRole('button').count()).toBe(0);
    expect(await developer.findings()).toEqual([]);
    await developer.close();
  });

  test('opens what is folded when a value there is not valid', async () => {
    const { page, open } = owner;
    await open('/policy');
    await change('Reasons');
    await ruleOf('Reasons').getByRole('button', { name: 'Add a reason' }).click();
    await change('Reasons');
    const code = ruleOf('Reasons').getByRole('textbox', { name: 'Code', exact: true });
    await save();
    await until(() => code.isVisible());
    await change('Reasons');
    await page.getByRole('button', { name: 'Show it for your changes' }).click();
    await until(() => code.isVisible());
    expect((await stored()).version).toBeUndefined();
    await page.getByRole('button', { name: 'Discard' }).click();
  });
});
