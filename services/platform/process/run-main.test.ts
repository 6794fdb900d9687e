import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { newKeyringText } from '../security/keyring.ts';
import { ConfigError, flag, list, loadConfig, serviceShape, wholeNumber } from './config.ts';

const MODULE = new URL('./run-main.ts', import.meta.url).href;

/** A process that runs `start`, an expression for the function given to runMain. */
function run(start: string): ChildProcess {
  const script = `import { runMain } from '${MODULE}'; await runMain('part', ${start});`;
  return spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

async function resultOf(child: ChildProcess) {
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

test.each(['SIGTERM', 'SIGINT'] as const)(
  '%s stops gracefully and ends with status 0',
  async (signal) => {
    const child = run(READY);
    const ended = resultOf(child);
    if (child.stdout) await once(child.stdout, 'data');
    child.kill(signal);
    expect(await ended).toEqual({ code: 0, out: 'started\nstopped\n', err: '' });
  },
);

test('a Ctrl-C that npm forwards once more still stops gracefully', async () => {
  // Its clock stands still, so the second signal counts as a duplicate however late it arrives.
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
  const ended = resultOf(child);
  child.stdout?.on('data', () => child.kill('SIGINT'));
  expect(await ended).toMatchObject({ code: 0, out: 'started\nstopping\nstopped\n' });
});

test('a signal during the start ends the process immediately with status 0', async () => {
  const child = run(`async () => {
    console.log('starting');
    setInterval(() => {}, 1000);
    return new Promise(() => {});
  }`);
  const ended = resultOf(child);
  child.stdout?.once('data', () => child.kill('SIGTERM'));
  expect(await ended).toEqual({ code: 0, out: 'starting\n', err: '' });
});

test('a signal while modules are loaded ends the process with status 0', async () => {
  // A module that never finishes stands for modules that take long.
  const slow = `data:text/javascript,${encodeURIComponent(
    "console.log('loading'); setInterval(() => {}, 1000); await new Promise(() => {});",
  )}`;
  const early = new URL('./early-exit.ts', import.meta.url).href;
  const child = spawn(process.execPath, ['--import', early, '--import', slow, '--eval', '0'], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = resultOf(child);
  child.stdout?.once('data', () => child.kill('SIGTERM'));
  expect(await ended).toEqual({ code: 0, out: 'loading\n', err: '' });
});

test('a process that starts others finishes its start before it stops', async () => {
  const child = run(`async () => {
    const keep = setInterval(() => {}, 1000);
    console.log('starting');
    await new Promise((go) => process.once('SIGTERM', () => setTimeout(go)));
    return { stop: async () => { clearInterval(keep); console.log('stopped'); } };
  }, { finishStart: true }`);
  const ended = resultOf(child);
  child.stdout?.once('data', () => child.kill('SIGTERM'));
  expect(await ended).toEqual({ code: 0, out: 'starting\nstopped\n', err: '' });
});

test('an error at the start ends with status 1 and one line with the reason', async () => {
  const child = run(`async () => { throw new Error('no port', { cause: new Error('in use') }); }`);
  expect(await resultOf(child)).toEqual({ code: 1, out: '', err: 'part: no port: in use\n' });
});

test('an unhandled rejection ends the process too', async () => {
  const child = run(`async () => {
    setTimeout(() => Promise.reject(new Error('lost')), 1);
    return { stop: async () => {} };
  }`);
  expect(await resultOf(child)).toMatchObject({ code: 1, err: 'part: lost\n' });
});

test('a second signal ends a stop that hangs', async () => {
  const child = run(`async () => {
    console.log('started');
    setInterval(() => {}, 1000);
    return { stop: () => new Promise(() => { console.log('stopping'); }) };
  }`);
  const ended = resultOf(child);
  child.stdout?.once('data', () => child.kill('SIGTERM'));
  child.stdout?.on('data', (chunk) => {
    if (String(chunk).includes('stopping')) child.kill('SIGTERM');
  });
  expect(await ended).toMatchObject({ code: 1 });
});

/** A part that logs without a pause, reports its progress on standard error, and stops on SIGTERM. */
const TALKING = `async () => {
  const { createLogger } = await import('${new URL('../telemetry/log.ts', import.meta.url).href}');
  const logger = createLogger({ service: 'part', level: 'info' });
  let rounds = 0;
  const talking = setInterval(() => {
    for (let n = 0; n < 1000; n += 1) logger.info({ n, text: 'x'.repeat(100) }, 'line');
    rounds += 1;
    if (rounds === 50) process.stderr.write('serving');
  }, 1);
  return { stop: async () => { clearInterval(talking); process.stderr.write(' stopped'); } };
}`;

/** That part with the given standard output. It gets the signal after it has logged much. */
async function talkInto(
  stdout: 'pipe' | number,
  onStart: (child: ChildProcess) => void = () => {},
) {
  const script = `import { runMain } from '${MODULE}'; await runMain('part', ${TALKING});`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', stdout, 'pipe'],
  });
  const exited = once(child, 'exit');
  onStart(child);
  let err = '';
  child.stderr?.on('data', (chunk) => {
    err += String(chunk);
    if (err === 'serving') child.kill('SIGTERM');
  });
  const [code] = await exited;
  child.stdout?.destroy();
  return { code, err };
}

const IN_ORDER = { code: 0, err: 'serving stopped' };

test('a full log disk blocks neither the work nor the stop', async () => {
  const full = openSync('/dev/full', 'w');
  expect(await talkInto(full)).toEqual(IN_ORDER);
  closeSync(full);
});

test('a reader of the log that stops reading blocks neither', async () => {
  expect(await talkInto('pipe', (child) => child.stdout?.pause())).toEqual(IN_ORDER);
});

test('a reader of the log that has ended blocks neither', async () => {
  expect(await talkInto('pipe', (child) => child.stdout?.destroy())).toEqual(IN_ORDER);
});

test('an error ends the process even if its message cannot be written', async () => {
  const full = openSync('/dev/full', 'w');
  const script = `import { runMain } from '${MODULE}'; await runMain('part', async () => { throw new Error('no port'); });`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', full, full],
  });
  expect(await once(child, 'exit')).toEqual([1, null]);
  closeSync(full);
});

const complete = {
  DATABASE_URL: 'postgres://rms_returns:secret@db:5432/rms',
  KAFKA_BROKERS: 'a:9092, b:9092,',
  EVENT_KEYRING: newKeyringText(),
  SERVICE_TOKEN: 'x'.repeat(32),
};

function problemsOf(env: Record<string, string>): string {
  try {
    loadConfig(serviceShape, env);
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  return '';
}

describe('configuration', () => {
  test('a complete environment is parsed, with defaults for the rest', () => {
    expect(loadConfig(serviceShape, complete)).toMatchObject({
      PORT: 8080,
      HOST: '127.0.0.1',
      KAFKA_BROKERS: ['a:9092', 'b:9092'],
      SERVICE_AUTH: 'static',
      LOG_PRETTY: false,
      MAX_CALLS_IN_FLIGHT: 512,
      RETENTION_DAYS: 7,
    });
  });

  test('one message lists all invalid variables with their expected form', () => {
    const message = problemsOf({ PORT: '70000', LOG_LEVEL: 'loud', DATABASE_URL: 'mysql://x' });
    expect(message).toContain('PORT: must be a whole number from 0 to 65535');
    expect(message).toContain('LOG_LEVEL: must be one of fatal, error');
    expect(message).toContain('DATABASE_URL: must be postgres://');
    expect(message).toContain('KAFKA_BROKERS is missing');
    expect(message).toContain('SERVICE_TOKEN is missing');
  });

  test('values are not repeated in the message, because they may be secrets', () => {
    expect(problemsOf({ ...complete, SERVICE_TOKEN: 'short-secret' })).toContain('at least 32');
    expect(problemsOf({ ...complete, SERVICE_TOKEN: 'short-secret' })).not.toContain(
      'short-secret',
    );
  });

  test('an empty variable counts as unset', () => {
    expect(loadConfig(serviceShape, { ...complete, PORT: '' }).PORT).toBe(8080);
    expect(problemsOf({ ...complete, DATABASE_URL: '' })).toContain('DATABASE_URL is missing');
  });

  test.each(['1.5', '-1', '1e3', ' 1', '0x10', 'abc'])('%j is not a whole number', (text) => {
    expect(() => loadConfig({ N: wholeNumber(0, 9_999) }, { N: text })).toThrow('N: must be');
  });

  test('flags and lists', () => {
    expect(loadConfig({ F: flag, L: list }, { F: 'true', L: 'a, ,b' })).toEqual({
      F: true,
      L: ['a', 'b'],
    });
    expect(() => loadConfig({ F: flag }, { F: 'yes' })).toThrow('F: must be true or false');
  });

  describe('service identity', () => {
    test('production rejects the static token, also by default', () => {
      const expected = 'SERVICE_AUTH: production allows kubernetes only';
      expect(problemsOf({ ...complete, NODE_ENV: 'production' })).toContain(expected);
      expect(problemsOf({ ...complete, NODE_ENV: 'production', SERVICE_AUTH: 'static' })).toContain(
        expected,
      );
    });

    test('service accounts have their namespace, internal ones also their caller', () => {
      const load = (more: object) => loadConfig(serviceShape, { ...complete, ...more });
      const callers = 'system:serviceaccount:logistics:post=labels';
      expect(load({ SERVICE_CALLERS: callers }).SERVICE_CALLERS).toEqual(
        new Map([['system:serviceaccount:logistics:post', 'labels']]),
      );
      for (const subject of [
        '*',
        'system:serviceaccount:*',
        'system:serviceaccount:rms*:gateway',
      ]) {
        expect(() => load({ SERVICE_SUBJECTS: subject })).toThrow('SERVICE_SUBJECTS: must be');
      }
      // No configuration turns an internal service into the gateway.
      for (const role of ['gateway', 'nobody', '']) {
        const value = `system:serviceaccount:logistics:post=${role}`;
        expect(() => load({ SERVICE_CALLERS: value })).toThrow('SERVICE_CALLERS: must be');
      }
    });

    test('SERVICE_AUTH=kubernetes reports every missing setting, and needs no SERVICE_TOKEN', () => {
      const env = { ...complete, SERVICE_TOKEN: '', SERVICE_AUTH: 'kubernetes' };
      expect(problemsOf(env)).toContain('SERVICE_TOKEN_FILE is missing');
      expect(problemsOf(env)).toContain('SERVICE_JWKS_FILE is missing');
      expect(problemsOf(env)).toContain('SERVICE_ISSUER is missing');
      expect(problemsOf(env)).toContain('SERVICE_SUBJECTS is missing');
      const full = {
        SERVICE_TOKEN_FILE: '/t',
        SERVICE_JWKS_FILE: '/j',
        SERVICE_ISSUER: 'https://issuer',
        SERVICE_SUBJECTS: 'system:serviceaccount:rms:*',
        NODE_ENV: 'production',
        TRANSPORT_SECURITY: 'mesh',
      };
      expect(problemsOf({ ...env, ...full })).toBe('');
    });
  });
});
