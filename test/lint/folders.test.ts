import { execFileSync } from 'node:child_process';
import { expect, test } from '@jest/globals';

/** Maximum number of files and folders in a folder. Above it, a reader cannot see at once what is there. */
const ENTRIES_MAX = 40;

test(`no folder has more than ${ENTRIES_MAX} entries: give its concerns rooms`, () => {
  const listed = ['ls-files', '--cached', '--others', '--exclude-standard', '-z'];
  const entries = new Map<string, Set<string>>();
  for (const file of execFileSync('git', listed, { encoding: 'utf8' }).split('\0')) {
    const parts = file.split('/');
    for (const [at, name] of parts.entries()) {
      const folder = parts.slice(0, at).join('/');
      entries.set(folder, (entries.get(folder) ?? new Set()).add(name));
    }
  }
  const tooLarge = [...entries].filter(([, { size }]) => size > ENTRIES_MAX);
  expect(tooLarge.map(([folder, { size }]) => `${folder}: ${size}`)).toEqual([]);
});
