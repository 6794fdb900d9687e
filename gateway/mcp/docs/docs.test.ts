import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { loadConfig } from '../../../services/platform/process/config.ts';
import { hourlyShape } from '../../auth/hourly-limits.ts';
import { mcpShape } from '../../auth/mcp-limits.ts';
import { toolNamed } from '../tools.ts';
import { generatedFiles, NEGATIVE_CASES, POSITIVE_CASES, serverJson } from './write.ts';

const ROOT = new URL('../../../', import.meta.url);

describe('the pages about the MCP server', () => {
  test.each([...generatedFiles()])('%s is up to date (npm run docs)', (path, text) => {
    expect(readFileSync(new URL(path, ROOT), 'utf8')).toBe(text);
  });

  test('have the test cases that the directories require', () => {
    expect(POSITIVE_CASES.length).toBeGreaterThanOrEqual(5);
    expect(NEGATIVE_CASES.length).toBeGreaterThanOrEqual(3);
    for (const { tools } of [...POSITIVE_CASES, ...NEGATIVE_CASES]) {
      for (const name of tools) expect(toolNamed(name)).toBeDefined();
    }
  });

  test('have the limits of the code', () => {
    const page = readFileSync(new URL('docs/mcp/README.md', ROOT), 'utf8').replaceAll(/\s+/g, ' ');
    const limits = loadConfig({ ...hourlyShape, ...mcpShape }, {});
    const perHour = limits.MCP_CALLS_PER_HOUR.toLocaleString('en');
    expect(page).toContain(`\`tools/call\` is limited to ${perHour} per hour and user`);
    const perMinute = limits.MCP_REQUESTS_PER_MINUTE.toLocaleString('en');
    expect(page).toContain(`All methods together are limited to ${perMinute} per minute and user`);
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
