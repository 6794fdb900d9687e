import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { freePorts } from '../../deploy/local/free-ports.ts';
import { REVISIONS, type Revision } from '../kit/mcp/assistant.ts';
import { startBrowser, walkThrough } from '../kit/mcp/browser.ts';
import { personOf, sharedStack, tokenOf } from '../kit/mcp/shared-stack.ts';
import type { OpenStack } from '../kit/stack.ts';
import { CONFORMANCE, runClient } from './run-client.ts';
import { MUST_PASS, NOT_APPLICABLE, UNTESTABLE_CHECKS } from './scenarios.ts';
import { startTokenProxy, type TokenProxy } from './token-proxy.ts';

interface Check {
  readonly id: string;
  readonly status: string;
  readonly errorMessage?: string;
  readonly details?: { readonly untestable?: boolean };
}

let stack: OpenStack;
let proxy: TokenProxy;
let home: string;
beforeAll(async () => {
  stack = await sharedStack();
  const url = new URL(stack.file.mcp.url);
  proxy = await startTokenProxy(url, tokenOf(stack, 'owner', stack.shop.id));
  home = await mkdtemp(join(tmpdir(), 'rms-conformance-'));
});
afterAll(async () => {
  await proxy?.stop();
  await rm(home, { recursive: true, force: true });
});

/** The checks that a run recorded, by scenario. */
async function checksIn(folder: string): Promise<Map<string, readonly Check[]>> {
  const runs = await readdir(folder);
  const entries = await Promise.all(
    runs.map(async (run) => {
      const [, name = run] =
        /^(?:authorization-)?server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/.exec(run) ?? [];
      const text = await readFile(join(folder, run, 'checks.json'), 'utf8');
      return [name, JSON.parse(text) as Check[]] as const;
    }),
  );
  return new Map(entries);
}

const isFault = ({ status }: Check): boolean => status === 'FAILURE' || status === 'WARNING';

/** Failed checks as lines, without those that the suite cannot test here. */
function faultsIn(checks: readonly Check[]): string[] {
  return checks
    .filter((check) => isFault(check) && !isUntestable(check))
    .map(({ id, status, errorMessage }) => `${status} ${id}: ${errorMessage}`);
}

function isUntestable({ id, details }: Check): boolean {
  return details?.untestable === true && id in UNTESTABLE_CHECKS;
}

describe.each(REVISIONS)('the conformance suite at revision %s', (revision: Revision) => {
  let found: Map<string, readonly Check[]>;
  beforeAll(async () => {
    const folder = join(home, revision);
    const what = ['--suite', 'all', '--spec-version', revision];
    await runClient(CONFORMANCE, ['server', '--url', proxy.url, ...what, '-o', folder], { home });
    found = await checksIn(folder);
  });

  test.each(MUST_PASS[revision])('%s passes', (scenario) => {
    const checks = found.get(scenario) ?? [];
    expect(checks).not.toEqual([]);
    expect(faultsIn(checks)).toEqual([]);
  });

  test('has no scenario that neither passes nor has an explanation', () => {
    const open = [...found.keys()].filter(
      (name) =>
        !MUST_PASS[revision].includes(name) &&
        !(name in NOT_APPLICABLE) &&
        !(`${name} on ${revision}` in NOT_APPLICABLE),
    );
    expect(open).toEqual([]);
  });
});

describe('the conformance suite for authorization servers', () => {
  test('finds the metadata and gets a token for a code', async () => {
    const [port = 0] = await freePorts(1);
    const folder = join(home, 'authorization');
    const { base_url, mcp } = stack.file;
    const { email, password } = personOf(stack, 'owner');
    const browser = await startBrowser();
    const walks: Promise<unknown>[] = [];
    const onOutput = (soFar: string): void => {
      const [address] = /^https?:\S+\/oauth\/authorize\?\S+$/m.exec(soFar) ?? [];
      if (address === undefined || walks.length > 0) return;
      const backAt = `http://127.0.0.1:${port}/callback`;
      const walk = async () =>
        walkThrough(await browser.newPage(), new URL(address), { email, password, backAt });
      walks.push(walk());
    };
    const args = ['--url', base_url, '--client-id', mcp.client_id, '--resource', mcp.url];
    try {
      const all = ['authorization', ...args, '--port', String(port), '-o', folder];
      const { stdout } = await runClient(CONFORMANCE, all, { home, onOutput });
      await Promise.all(walks);
      const found = await checksIn(folder);
      expect([...found.keys()].sort()).toEqual([
        'authorization-code-grant',
        'authorization-server-metadata-endpoint',
      ]);
      for (const checks of found.values()) {
        expect(faultsIn(checks)).toEqual([]);
        expect(checks.filter(({ status }) => status === 'SUCCESS')).not.toEqual([]);
      }
      expect(stdout).not.toContain('SKIPPED');
    } finally {
      await browser.close();
    }
  });
});

test('the document lists every scenario that does not apply', async () => {
  const page = await readFile(new URL('../../docs/mcp/conformance.md', import.meta.url), 'utf8');
  const listed = [...page.matchAll(/`([a-z\d-]+\*?)`/g)].map(([, name = '']) => name);
  const isListed = (scenario: string) =>
    listed.some((name) =>
      name.endsWith('*') ? scenario.startsWith(name.slice(0, -1)) : scenario === name,
    );
  const names = [...Object.keys(NOT_APPLICABLE), ...Object.keys(UNTESTABLE_CHECKS)];
  const plain = names.map((name) => name.replace(/ on .*/, ''));
  expect(plain.filter((name) => !isListed(name))).toEqual([]);
});
