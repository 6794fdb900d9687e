import { afterEach, expect, test } from '@jest/globals';
import type { Page, Route } from 'playwright-core';
import { walkThrough } from '../../kit/mcp/browser.ts';
import { personOf } from '../../kit/mcp/shared-stack.ts';
import { addWebhook, callPortal, deleteWebhooks } from '../../kit/portal/call.ts';
import { userForTests } from '../../kit/portal/visitor.ts';
import { until } from '../../kit/until.ts';

// What the portal says when the network is away, and what a user can do then.

const agent = userForTests('returns_agent');
afterEach(async () => {
  await agent.page.unrouteAll({ behavior: 'ignoreErrors' });
  await agent.page.context().setOffline(false);
});

const NOTE = '**/portal/api/rms.returns.v1.ReturnsService/AddNote';

/** Opens the form of a note, and fills it. */
async function writeNote(page: Page, text: string): Promise<void> {
  await page.getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('button', { name: 'Add a note', exact: true }).click();
  await page.getByRole('textbox', { name: 'Note' }).fill(text);
  await page.getByRole('button', { name: 'Add the note' }).click();
}

async function notesOf(page: Page, returnId: string): Promise<string[]> {
  const { entries } = await callPortal<{ entries: { text?: string }[] }>(
    page,
    'ReturnsService/GetTimeline',
    { returnId, pageSize: 200 },
  );
  return entries.map((entry) => JSON.stringify(entry)).filter((entry) => entry.includes('note'));
}

/** The next request for a note, which waits. */
const nextNote = (page: Page) =>
  new Promise<Route>((resolve) => {
    void page.route(NOTE, resolve, { times: 1 });
  });

test('a page that is read offline says so, and is read again when the network is back', async () => {
  const { page, open } = agent;
  const { id, order_name: name } = await agent.stack.fixture('open');
  await open('/returns');
  await page.getByRole('link', { name: 'Destinations' }).click();
  await page.getByRole('heading', { name: 'Destinations' }).waitFor();
  await open(`/returns/${id}`);
  await page.context().setOffline(true);
  await page.getByText('Your browser is offline. What you see may be out of date').waitFor();
  for (const scheme of ['light', 'dark'] as const) {
    expect(await agent.accessibilityErrors(scheme)).toEqual([]);
  }
  await page.getByRole('link', { name: '← All returns' }).click();
  await page.locator('main').getByText('No network', { exact: true }).first().waitFor();
  await until(async (see) => see(await page.locator('[aria-busy=true]').count()) === 0);
  await page.context().setOffline(false);
  await page.getByText('Your browser is offline.').first().waitFor({ state: 'detached' });
  await page.getByRole('link', { name }).first().waitFor();
});

/** Sends a note which is added, but whose answer is lost. The dialog is still open then. */
async function loseNote(page: Page, text: string): Promise<void> {
  const request = nextNote(page);
  await writeNote(page, text);
  const route = await request;
  await route.fetch();
  await route.abort('connectionreset');
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Look at the return before you try again').waitFor();
}

test('a form that was closed without an answer keeps its key: the same note is added once, another is rejected', async () => {
  const { page, open } = agent;
  const returnId = String((await agent.stack.fixture('open')).id);
  await open(`/returns/${returnId}`);
  const lose = async (text: string) => {
    await loseNote(page, text);
    const dialog = page.getByRole('dialog');
    for (const scheme of ['light', 'dark'] as const) {
      expect(await agent.accessibilityErrors(scheme)).toEqual([]);
    }
    await dialog.getByRole('button', { name: 'Close', exact: true }).last().click();
    await dialog.waitFor({ state: 'detached' });
  };
  await lose('The same');
  await writeNote(page, 'The same');
  // The user may have wanted a second note, so nothing says that this try added one.
  await page.getByText('This try and the earlier one without an answer count as one.').waitFor();
  expect(await page.getByText('The note is in the timeline.').count()).toBe(0);
  expect(await notesOf(page, returnId)).toHaveLength(1);
  await writeNote(page, 'The same');
  await page.getByText('The note is in the timeline.').waitFor();
  expect(await notesOf(page, returnId)).toHaveLength(2);

  await lose('First');
  await writeNote(page, 'Second');
  await page
    .getByRole('dialog')
    .getByText('An earlier try was carried out, and its answer was lost.')
    .waitFor();
  expect(await notesOf(page, returnId)).toHaveLength(3);
  await page.getByRole('button', { name: 'Add the note' }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  expect(await notesOf(page, returnId)).toHaveLength(4);
});

test('a repeat after a reload, and one in a dialog that was open for long, add no second note', async () => {
  const visitor = await agent.visit('returns_agent');
  const { page, open } = visitor;
  const returnId = String((await agent.stack.fixture('open')).id);
  await page.clock.install();
  await open(`/returns/${returnId}`);
  await loseNote(page, 'Reloaded');
  await page.reload();
  await writeNote(page, 'Reloaded');
  await page.getByText('Done once', { exact: true }).waitFor();
  expect(await notesOf(page, returnId)).toHaveLength(1);

  await loseNote(page, 'Late');
  await page.clock.fastForward('11:00');
  await page.getByRole('dialog').getByRole('button', { name: 'Try again' }).click();
  await page.getByText('The note is in the timeline.').waitFor();
  expect(await notesOf(page, returnId)).toHaveLength(2);
  await visitor.close();
});

test('a dialog stays with its text when the session ends, and sends it after a sign-in in another tab', async () => {
  const visitor = await agent.visit('returns_agent');
  const { page, open } = visitor;
  const returnId = String((await agent.stack.fixture('open')).id);
  await open(`/returns/${returnId}`);
  await callPortal(page, 'SessionService/SignOut', {});
  await writeNote(page, 'A long text');
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Sign in to this shop in another tab, then try again.').waitFor();
  const tab = await page.context().newPage();
  const { email, password } = personOf(agent.stack, 'returns_agent');
  const backAt = `${agent.stack.file.base_url}/portal/sessions`;
  const start = new URL(`${agent.stack.file.base_url}/portal/sign-in?return_to=/portal/sessions`);
  await walkThrough(tab, start, { email, password, backAt });
  await dialog.getByRole('button', { name: 'Add the note' }).click();
  await page.getByText('The note is in the timeline.').waitFor();
  expect(await notesOf(page, returnId)).toHaveLength(1);
  // Without a dialog the page goes to the sign-in, and comes back.
  await callPortal(page, 'SessionService/SignOut', {});
  await page.getByRole('link', { name: '← All returns' }).click();
  await page.getByLabel(/password/i).waitFor();
  await visitor.close();
});

test('a dialog says what was refused, and can be closed, before the page is read again', async () => {
  const { page, open } = agent;
  const returnId = String((await agent.stack.fixture('open')).id);
  await open(`/returns/${returnId}`);
  await page.getByRole('button', { name: 'Process', exact: true }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('This will happen').waitFor();
  const idempotencyKey = crypto.randomUUID();
  const flag = { returnId, reasons: ['A colleague looks at it'], idempotencyKey };
  await callPortal(page, 'ReturnsService/FlagReturn', flag);
  const reads: Route[] = [];
  await page.route('**/ReturnsService/FindReturn', (route) => void reads.push(route));
  await dialog.getByRole('button', { name: 'Process the return' }).click();
  await dialog.getByText('Nothing was processed').waitFor();
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await dialog.waitFor({ state: 'detached' });
  for (const read of reads) await read.continue();
});

test('a write has no answer after 30 seconds: the dialog says so, and can be closed', async () => {
  const { page, open } = agent;
  const returnId = String((await agent.stack.fixture('open')).id);
  await page.clock.install();
  await open(`/returns/${returnId}`);
  const request = nextNote(page);
  await writeNote(page, 'Slow');
  await request;
  await page.clock.runFor(30_000);
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Sent, no answer yet', { exact: true }).waitFor();
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  expect(await notesOf(page, returnId)).toHaveLength(0);
});

test('a tab with a write without an answer asks before it closes', async () => {
  const { page, open } = await agent.visit('returns_agent');
  await open(`/returns/${(await agent.stack.fixture('open')).id}`);
  const request = nextNote(page);
  await writeNote(page, 'Left');
  const route = await request;
  const asked = page.waitForEvent('dialog');
  await page.close({ runBeforeUnload: true });
  const question = await asked;
  expect(question.type()).toBe('beforeunload');
  await question.dismiss();
  await route.continue();
  await page.getByText('The note is in the timeline.').waitFor();
  const closed = page.waitForEvent('close');
  await page.close({ runBeforeUnload: true });
  await closed;
});

test('a user who signs out while a write has no answer is not asked to stay', async () => {
  const visitor = await agent.visit('owner');
  const { page, open } = visitor;
  const url = `https://hooks.example.com/${crypto.randomUUID()}`;
  const webhook = await addWebhook(page, { url, status: 'SUBSCRIPTION_STATUS_INACTIVE' });
  await open(`/webhooks/${webhook}`);
  // Without a listener, the browser of the test accepts each question by itself.
  const questions: string[] = [];
  page.on('dialog', (question) => {
    questions.push(question.type());
    void question.accept();
  });
  const sent = new Promise<Route>((resolve) => void page.route('**/RevealSecret', resolve));
  await page.getByRole('button', { name: 'Show the secret' }).click();
  await sent;
  // Other tests do not see it.
  await deleteWebhooks(page, webhook);
  await page.getByRole('button', { name: /^Account of / }).click();
  await page.getByRole('button', { name: 'Sign out', exact: true }).click();
  await page.getByRole('heading', { name: 'You are signed out' }).waitFor();
  expect(questions).toEqual([]);
  await visitor.close();
});

test('a change whose undo failed offline can still be taken back', async () => {
  const owner = await agent.visit('owner');
  const { page, open } = owner;
  const name = `Place ${crypto.randomUUID()}`;
  const place = {
    name,
    type: 'DESTINATION_TYPE_DONATE',
    enabled: false,
    address: { countryCode: 'GB' },
  };
  const idempotencyKey = crypto.randomUUID();
  await callPortal(page, 'DestinationsService/CreateDestination', { ...place, idempotencyKey });
  await page.clock.install();
  await open('/destinations');
  await page.getByRole('button', { name: `Edit ${name}` }).click();
  await page.getByRole('dialog').getByLabel('Name').first().fill(`${name} 2`);
  await page.getByRole('button', { name: 'Save' }).click();
  const undo = page.getByRole('button', { name: 'Undo' });
  await undo.waitFor();
  await page.context().setOffline(true);
  await undo.click();
  await page.getByText('Not sent: no network').waitFor();
  await page.context().setOffline(false);
  // The message of the change would be closed already.
  await page.clock.fastForward(25_000);
  await undo.click();
  await page.getByText('It is as it was before.').waitFor();
  await until(async (see) => see(await page.getByText(`${name} 2`).count()) === 0);
  await owner.close();
});
