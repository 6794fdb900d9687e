import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { planted } from './bug.ts';
import { BUGS } from './bugs/all.ts';

test('each has a name of its own', () => {
  expect(new Set(BUGS.map(({ name }) => name)).size).toBe(BUGS.length);
});

test.each(BUGS)('$name can be planted, and its test files exist', (bug) => {
  const text = readFileSync(bug.file, 'utf8');
  expect(planted(bug, text)).not.toBe(text);
  expect(bug.tests.filter((file) => !existsSync(file))).toEqual([]);
});
