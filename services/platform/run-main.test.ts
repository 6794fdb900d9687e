import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from '@jest/globals';

const MODULE = new URL('./run-main.ts', import.meta.url).href;

/** A process that runs `start`, an expression of the function given to runMain. */
function run(start: string): ChildProcess {
  const script = `import { runMain } from '${MODULE}'; await runMain('part', ${start});`;
  return spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

async function outcome(child: ChildProcess) {
  const out: string[] = [];
  const err: string[] = [];
  child.stdout?.on('data', (chunk) => out.push(String(chunk)));
  child.stderr?.on('data', (chunk) => err.push(String(chunk)));
  const [code] = await once(child, 'close');
  return { code, out: out.join(''), err: err.join('') };
}

const READY = `async () => {
  console.log('started');
  const keep = setInterval(() => {}, 1000);
  return { stop: async () => { clearInterval(keep); console.log('stopped'); } };
}`;

test.each(['SIGTERM', 'SIGINT'] as const)('%s stops in order and ends with 0', async (signal) => {
  const child = run(READY);
  const ended = outcome(child);
  if (child.stdout) await once(child.stdout, 'data');
  child.kill(signal);
  expect(await ended).toEqual({ code: 0, out: 'started\nstopped\n', err: '' });
});

test('a Ctrl-C that npm passes on once more still stops in order', async () => {
  // Its clock stands still: the second signal is an echo however late it comes.
  const child = run(`async () => {
    performance.now = () => 0;
    console.log('started');
    const keep = setInterval(() => {}, 1000);
    const stop = async () => {
      console.log('stopping');
      await new Promise((go) => process.once('SIGINT', go));
      clearInterval(keep);
      console.log('stopped');
    };
    return { stop };
  }`);
  const ended = outcome(child);
  child.stdout?.on('data', () => child.kill('SIGINT'));
  expect(await ended).toMatchObject({ code: 0, out: 'started\nstopping\nstopped\n' });
});

test('a fault at the start ends with 1 and one line that says what is wrong', async () => {
  const child = run(`async () => { throw new Error('no port', { cause: new Error('in use') }); }`);
  expect(await outcome(child)).toEqual({ code: 1, out: '', err: 'part: no port: in use\n' });
});

test('a fault that nobody awaited ends the process too', async () => {
  const child = run(`async () => {
    setTimeout(() => Promise.reject(new Error('lost')), 1);
    return { stop: async () => {} };
  }`);
  expect(await outcome(child)).toMatchObject({ code: 1, err: 'part: lost\n' });
});

test('a second signal ends a stop that hangs', async () => {
  const child = run(`async () => {
    console.log('started');
    setInterval(() => {}, 1000);
    return { stop: () => new Promise(() => { console.log('stopping'); }) };
  }`);
  const ended = outcome(child);
  child.stdout?.once('data', () => child.kill('SIGTERM'));
  child.stdout?.on('data', (chunk) => {
    if (String(chunk).includes('stopping')) child.kill('SIGTERM');
  });
  expect(await ended).toMatchObject({ code: 1 });
});
