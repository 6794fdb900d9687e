import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from '@jest/globals';
import { callIn, journeyForTests } from '../kit/journeys/journey.ts';
import { temporaryFolder } from '../kit/postgres/temporary-folder.ts';
import { ROOT } from '../kit/process.ts';

const journey = journeyForTests();

/** The first lines of the demo's file, and the number of returns in them. */
const LINES = 10;
const RETURNS = 7;

/** Plays the day with the first returns of the file, and returns the numbers that it prints. */
async function day(): Promise<Record<string, number>> {
  const file = join(temporaryFolder(), 'returns.csv');
  const all = await readFile(join(ROOT, 'deploy/local/demo/online-retail-returns.csv'), 'utf8');
  await writeFile(
    file,
    all
      .split('\n')
      .slice(0, LINES + 1)
      .join('\n'),
  );
  const args = ['deploy/local/demo/day.ts', '--stack', journey.stack.path, '--file', file];
  const env = { ...process.env, NODE_OPTIONS: '' };
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: ROOT, env });
  const rows = [...stdout.matchAll(/^(\S.*?) {2,}(\d+)(?:$| {2})/gm)];
  return Object.fromEntries(rows.map(([, name, count]) => [name, Number(count)]));
}

test('a day begins with eligibility and ends with arrivals, and a second one repeats nothing', async () => {
  const { returns } = journey.services;
  const call = callIn(journey.stack.shop);
  const policy = { countries: ['DE', 'FR', 'GB', 'IE'] };
  await returns.updatePolicy({ ...call, policy });
  expect(await day()).toMatchObject({
    ...{ returns: RETURNS, closed: RETURNS, lost: 0, 'wrong answers': 0, 'invalid signatures': 0 },
    'ask what may come back': RETURNS,
    'submit a return': RETURNS,
    'record an arrival': RETURNS,
    'arrival until webhook': RETURNS,
  });
  // The shop has its own policy again.
  const after = await returns.getPolicy(call);
  expect(after.policy).toMatchObject(policy);
  expect(after.policy?.process).toBeUndefined();
  expect(await day()).toMatchObject({ returns: 0, closed: 0, 'wrong answers': 0 });
});
