import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { sharedStack, tokenOf } from '../kit/mcp/shared-stack.ts';
import { type ClientRun, INSPECTOR, runClient } from './run-client.ts';

let home: string;
let run: (...args: string[]) => Promise<ClientRun>;
beforeAll(async () => {
  const stack = await sharedStack();
  home = await mkdtemp(join(tmpdir(), 'rms-inspector-'));
  // In a file, because other users can read command lines.
  const config = join(home, 'servers.json');
  const headers = { Authorization: `Bearer ${tokenOf(stack, 'owner', stack.shop.id)}` };
  const server = { type: 'streamable-http', url: stack.file.mcp.url, headers };
  await writeFile(config, JSON.stringify({ mcpServers: { returns: server } }), { mode: 0o600 });
  run = (...args) =>
    runClient(INSPECTOR, ['--cli', '--config', config, '--server', 'returns', ...args], { home });
});
afterAll(() => rm(home, { recursive: true, force: true }));

test('the Inspector lists the tools, and finds no error in their schemas', async () => {
  const { code, stdout, stderr } = await run('--method', 'tools/list', '--strict');
  expect([code, stderr.match(/^(Error|Warning): tool .*/gm)]).toEqual([0, null]);
  const { tools } = JSON.parse(stdout) as { tools: { name: string }[] };
  expect(tools.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['get_shop_context', 'get_return', 'replay_webhook_delivery']),
  );
});

test('the Inspector calls a tool', async () => {
  const { code, stdout } = await run('--method', 'tools/call', '--tool-name', 'get_shop_context');
  expect(code).toBe(0);
  expect(stdout).toContain('"currency"');
});
