import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser } from 'playwright-core';
import { startBrowser } from '../kit/mcp/browser.ts';
import { sharedStack } from '../kit/mcp/shared-stack.ts';
import { type Visitor, visit } from '../kit/portal/visitor.ts';
import type { OpenStack } from '../kit/stack.ts';

// Words of the portal are explained where they stand: a line names them, and opens to their meanings.

let stack: OpenStack;
let browser: Browser;
let owner: Visitor;
beforeAll(async () => {
  stack = await sharedStack();
  browser = await startBrowser();
  owner = await visit(stack, browser, 'owner');
}, 180_000);
afterAll(() => browser?.close(), 60_000);

/** Opens the line, and expects this meaning below it. */
async function expectMeaning(line: string, meaning: string): Promise<void> {
  const summary = owner.page.locator('summary').getByText(line, { exact: true });
  await summary.click();
  // The same word may be open behind a dialog.
  const opened = owner.page.locator('details').filter({ has: summary });
  await opened.getByRole('definition').getByText(meaning).waitFor();
  expect(await owner.findings()).toEqual([]);
}

test.each([
  ['/webhooks', 'What these words mean: Event, Topic, Payload, Waiting', 'JSON with the data'],
  [
    '/payload-version',
    'What these words mean: Payload, Topic, Deprecated',
    'It still works, and will end',
  ],
  ['/replays', 'What these words mean: Replay, Backfill, Payload', 'the same webhook-id'],
  ['/team', 'What these words mean: REST, MCP, Scope', 'The way for AI assistants'],
  ['/returns', 'What these words mean: In review, Outcome', 'What the shopper gets'],
])('above the table of %s', async (path, line, meaning) => {
  await owner.open(path);
  await expectMeaning(line, meaning);
});

test('in a return and in a dialog', async () => {
  const { id } = await stack.fixture('open');
  const { page, open } = owner;
  await open(`/returns/${id}`);
  await expectMeaning('What this word means: Outcome', 'What the shopper gets');
  await expectMeaning('What these words mean: Grade, Disposition', 'What becomes of an item');
  await page.getByRole('button', { name: 'Grade', exact: true }).click();
  await page.getByRole('dialog').waitFor();
  await expectMeaning('What this word means: Grade', 'A is the best');
});
