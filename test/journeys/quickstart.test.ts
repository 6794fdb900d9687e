import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { freePort } from '../../deploy/local/free-ports.ts';
import { ROOT } from '../kit/process.ts';
import { startTestStack, type TestStack } from '../kit/stack.ts';

let stack: TestStack;
beforeAll(async () => {
  stack = await startTestStack();
});
afterAll(() => stack?.stop());

/** The blocks of commands of a served page, in order, as a reader copies them. */
async function blocks(path: string): Promise<string[]> {
  const response = await fetch(`${stack.file.base_url}${path}`);
  const page = await response.text();
  return [...page.matchAll(/<pre[^>]*><code>([\s\S]*?)<\/code><\/pre>/g)].map(([, code = '']) =>
    code.replaceAll(/&#(\d+);/g, (_, number: string) => String.fromCharCode(Number(number))),
  );
}

/** Waits until the receiver has printed this line, at most 30 s. */
const untilPrinted = (text: string) =>
  `for _ in $(seq 300); do grep -q '${text}' printed && break; sleep 0.1; done; grep '${text}' printed || exit 1`;

/** Says what the copy of the returns has. */
const COUNTED = `echo "pages: $(grep -c next_cursor returns.jsonl), closed: $(grep -o '"state":"closed"' returns.jsonl | wc -l)"`;

/** Runs a script of bash in a new folder, and returns its output. */
async function bash(script: string): Promise<{ code: number | null; output: string }> {
  const cwd = await mkdtemp(join(tmpdir(), 'quickstart-'));
  const child = spawn('bash', ['-c', script], {
    cwd,
    env: { ...process.env, NODE_OPTIONS: '' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  const code = await new Promise<number | null>((done) => child.once('close', done));
  await rm(cwd, { recursive: true });
  return { code, output };
}

test.each([
  ['Node', 'receiver.mjs', 'receiver.py'],
  ['Python', 'receiver.py', 'receiver.mjs'],
])(
  'the commands of the quickstart work as they are, with %s',
  async (_, file, other) => {
    const port = String(await freePort());
    const key = stack.shop.api_keys.all ?? '';
    const script = (await blocks('/docs/quickstart'))
      .filter((block) => !block.includes(other))
      .map((block) =>
        block
          .replace('<your API key>', key)
          .replace('<the https address of the tunnel>', `http://127.0.0.1:${port}`)
          .replaceAll('8000', port)
          .replace(' & RECEIVER=$!', ' > printed 2>&1 & RECEIVER=$!'),
      )
      .map((block) => {
        if (block.includes(file)) return `${block}\n${untilPrinted('ready')}`;
        if (block.includes('/test')) return `${block}\n${untilPrinted('return.created')}`;
        return block;
      });
    const { code, output } = await bash(`set -e\n${script.join('\n')}\n${COUNTED}\necho complete`);
    expect({ code, output }).toMatchObject({ code: 0 });
    expect(output).toMatch(/"secret":"whsec_/);
    expect(output).toMatch(/^\S+ test return\.created \{/m);
    expect(output).toMatch(/"returns":\[\{/);
    // The copy has returns that are archived, and the last command read it again.
    expect(output).toMatch(/^pages: (?!1$)\d+, closed: [1-9]/m);
    // Nothing but the test event was sent, and a replay does not send it again.
    expect(output).toMatch(/"matched":0/);
    expect(output).toMatch(/"state":"(running|done)"/);
    expect(output).not.toMatch(/"errors":|"message":|Uncaught|Traceback/);
    expect(output).toMatch(/complete\n$/);
  },
  120_000,
);

test('the commands for storefronts and warehouses work as they are', async () => {
  const { 'returns:submit': store = '', warehouse = '' } = stack.shop.api_keys;
  const script = (await blocks('/docs/storefront')).map((block) =>
    block.replace('<key of the storefront>', store).replace('<key of the warehouse>', warehouse),
  );
  const { code, output } = await bash(`set -e\n${script.join('\n')}`);
  expect({ code, output }).toMatchObject({ code: 0 });
  expect(output).toMatch(/"returnable_quantity":2/);
  expect(output).toMatch(/"state":"open"/);
  expect(output).toMatch(/"arrival_id":/);
  expect(output).not.toMatch(/"errors":/);
}, 60_000);

test('the lines of the README refund a return, as they are', async () => {
  const readme = await readFile(join(ROOT, 'README.md'), 'utf8');
  const [first = ''] = readme.split('\n## Run it');
  const [, ...pasted] = [...first.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(
    ([, code = '']) => code,
  );
  expect(pasted).toHaveLength(2);
  expect(pasted[1]?.trimEnd().split('\n')).toHaveLength(6);
  const script = pasted.join('').replaceAll('.local/stack.json', stack.path);
  // The last line asks for the state, which changes a moment after the answer to the line before it.
  const until = 'for _ in $(seq 100); do LAST; sleep 0.1; done';
  const last = script.trimEnd().split('\n').at(-1) ?? '';
  const { code, output } = await bash(
    `set -e\n${script}\n${until.replace('LAST', `${last} | grep closed && exit 0`)}; exit 1`,
  );
  expect({ code, output }).toMatchObject({ code: 0 });
  expect(output).not.toMatch(/"errors":/);
}, 60_000);
