import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { freePort } from '../../deploy/local/free-ports.ts';
import { startTestStack, type TestStack } from '../kit/stack.ts';

let stack: TestStack;
beforeAll(async () => {
  stack = await startTestStack();
}, 180_000);
afterAll(() => stack?.stop(), 60_000);

/** The blocks of commands of the served page, in order, as a reader copies them. */
async function blocks(): Promise<string[]> {
  const response = await fetch(`${stack.file.base_url}/docs/quickstart`);
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
    const script = (await blocks())
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
