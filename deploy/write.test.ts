import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { manifestFiles } from './write.ts';

test.each(Object.entries(manifestFiles()))(
  'deploy/%s is up to date: run `npm run docs` after a change',
  (path, text) => {
    expect(readFileSync(new URL(path, import.meta.url), 'utf8')).toBe(text);
  },
);
