import { expect, test } from '@jest/globals';
import { callPortal } from '../../kit/portal/call.ts';
import { portalForTests } from '../../kit/portal/visitor.ts';
import { until } from '../../kit/until.ts';

// What the page of a return says about what people did with it.

const portal = portalForTests();

test('the timeline and a box at the top say that a return was cancelled, why, by whom and with what', async () => {
  const { id } = await portal.stack.fixture('open');
  const { page, open, problems, findings } = await portal.userNamed('returns_agent');
  await open(`/returns/${id}`);
  await page.getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('button', { name: 'Cancel the return' }).click();
  await page.getByLabel('Reason for the timeline').fill('Duplicate of another return');
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel the return' }).click();
  const cancelled = { hasText: 'The return was cancelled: Duplicate of another return' };
  for (const role of ['listitem', 'status'] as const) {
    const place = page.getByRole(role).filter(cancelled);
    await place.getByText(/ in the portal, /).waitFor();
  }
  expect(await findings()).toEqual([]);
  expect(problems()).toEqual([]);
});

test('the banner of a review has the comment that was written with the flag', async () => {
  const { id } = await portal.stack.fixture('open');
  const { page, open, findings } = await portal.userNamed('returns_agent');
  await open(`/returns/${id}`);
  await page.getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('button', { name: 'Put into review' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Why must somebody look at it?').fill('The parcel is damaged');
  await dialog.getByLabel('Comment for the timeline').fill('Refund only without the fee');
  await dialog.getByRole('button', { name: 'Put into review' }).click();
  const banner = page.getByRole('alert').filter({ hasText: 'Somebody must review this return' });
  await banner.getByText('The parcel is damaged').waitFor();
  await banner
    .getByText(/^Comment of .* in the portal, .*: Refund only without the fee$/)
    .waitFor();
  expect(await findings()).toEqual([]);
});

test('the banner of a review has the newest of what happened since, by whom with the role, and leads to the timeline', async () => {
  const { id } = await portal.stack.fixture('open');
  const [agent, owner] = [await portal.userNamed('returns_agent'), await portal.userNamed('owner')];
  const call = (name: string, content: object) =>
    callPortal(agent.page, `ReturnsService/${name}`, {
      idempotencyKey: crypto.randomUUID(),
      returnId: String(id),
      ...content,
    });
  await call('AddNote', { text: 'Note from before' });
  await call('FlagReturn', { reasons: ['Lighter than expected'] });
  const { page } = owner;
  const banner = page.getByRole('alert').filter({ hasText: 'Somebody must review this return' });
  const since = banner.getByText('What happened since then');
  await owner.open(`/returns/${id}`);
  await banner.getByText('Lighter than expected').waitFor();
  expect(await since.count()).toBe(0);

  for (const n of [1, 2, 3, 4, 5, 6]) await call('AddNote', { text: `Note ${n}` });
  await owner.open(`/returns/${id}`);
  await since.waitFor();
  const notes = banner.getByRole('listitem').filter({ hasText: 'Note' });
  const texts = await notes.allInnerTexts();
  expect(texts.map((text) => text.split(': ').at(-1))).toEqual(
    [6, 5, 4, 3, 2].map((n) => `Note ${n}`),
  );
  expect(texts[0]).toContain('(Returns agent) in the portal');
  await banner.getByText('These are the newest 5.').waitFor();
  expect(await owner.findings()).toEqual([]);
  await banner.getByRole('link', { name: 'Show the timeline' }).focus();
  await page.keyboard.press('Enter');
  await page.waitForURL(/#timeline$/);
  const timeline = page.getByRole('region', { name: 'Timeline' });
  // Below the header of the page.
  await until(async (see) => {
    const y = see((await timeline.boundingBox())?.y ?? -1);
    return y >= 55 && y < 900;
  });
});

test('an owner opens the audit entries of a return, and finds them by the order name', async () => {
  const { id, order_name: name } = await portal.stack.fixture('open');
  const { page, open, findings } = await portal.userNamed('owner');
  await open(`/returns/${id}`);
  await page.getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('button', { name: 'Put into review' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Why must somebody look at it?').fill('Worn');
  await dialog.getByRole('button', { name: 'Put into review' }).click();
  await page.getByRole('link', { name: 'Audit entries of this return' }).click();
  const row = page.getByRole('row').filter({ hasText: 'Put a return into review' });
  await row.getByText('Portal', { exact: true }).waitFor();
  await row.getByText('Worn', { exact: true }).waitFor();
  expect(await page.getByRole('row').count()).toBe(2);
  expect(await findings()).toEqual([]);
  await page.getByRole('button', { name: 'Clear' }).click();
  await page.getByLabel('Search').fill(name.replace('#', ''));
  // Other tests leave entries of this action, too, so the list is that of the search when it has one row.
  await page.waitForURL(/[?&]q=/);
  await until(async (see) => see(await page.getByRole('row').count()) === 2);
  await row.waitFor();
  // Among the entries of many returns the reason is read only when somebody asks for it.
  await page.reload();
  await row.waitFor();
  expect(await row.getByText('Worn', { exact: true }).count()).toBe(0);
  await row.locator('summary').getByText('Reason').focus();
  await page.keyboard.press('Enter');
  await row.getByText('Worn', { exact: true }).waitFor();
  // A long timeline has its newest entries in the first page.
  await page.route('**/*.ReturnsService/GetTimeline', (route) =>
    route.fulfill({ json: { nextCursor: 'next' } }),
  );
  await open(`/audit-log?return=${id}`);
  await row.getByText('It is not among the newest 200 entries of the timeline.').waitFor();
  await page.unrouteAll();
});
