import { expect, test } from '@jest/globals';
import { userForTests } from '../../kit/portal/visitor.ts';

// Words of the portal are explained where they stand: a line names them, and opens to their meanings.

const owner = userForTests('owner');

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
  const { id } = await owner.stack.fixture('open');
  const { page, open } = owner;
  await open(`/returns/${id}`);
  await expectMeaning('What this word means: Outcome', 'What the shopper gets');
  await expectMeaning('What these words mean: Grade, Disposition', 'What becomes of an item');
  await page.getByRole('button', { name: 'Grade', exact: true }).click();
  await page.getByRole('dialog').waitFor();
  await expectMeaning('What this word means: Grade', 'A is the best');
});
