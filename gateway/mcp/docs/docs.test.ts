import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { TOOLS } from '../tools.ts';
import { NEGATIVE_CASES, POSITIVE_CASES } from './directory-cases.ts';
import { serverJson } from './server-json.ts';
import { generatedFiles } from './write.ts';

const ROOT = new URL('../../../', import.meta.url);

describe('the pages about the MCP server', () => {
  test.each([...generatedFiles()])('%s is up to date (npm run docs)', (path, text) => {
    expect(readFileSync(new URL(path, ROOT), 'utf8')).toBe(text);
  });

  test('have the test cases that the directories require', () => {
    expect(POSITIVE_CASES.length).toBeGreaterThanOrEqual(5);
    expect(NEGATIVE_CASES.length).toBeGreaterThanOrEqual(3);
    for (const { tools } of [...POSITIVE_CASES, ...NEGATIVE_CASES]) {
      for (const name of tools) expect(Object.keys(TOOLS)).toContain(name);
    }
  });

  test('server.json is within the limits of the registry', () => {
    const { name, title, description, version, remotes } = serverJson();
    expect(name).toMatch(/^[a-zA-Z0-9.-]+\/[a-zA-Z0-9._-]+$/);
    expect([...title].length).toBeLessThanOrEqual(100);
    expect([...description].length).toBeLessThanOrEqual(100);
    expect(version).toBe(JSON.parse(readFileSync(new URL('package.json', ROOT), 'utf8')).version);
    expect(remotes).toEqual([{ type: 'streamable-http', url: expect.stringMatching(/^https:/) }]);
  });
});
