import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { request } from 'undici';
import { freePort } from '../../../deploy/local/free-ports.ts';
import { temporaryFolder } from '../postgres/temporary-folder.ts';
import { StopWaitingError, until } from '../until.ts';
import { type Language, pathOf } from './languages.ts';

/** A request of a webhook. */
export interface Message {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

/** A receiver of `docs/receivers`, in a process of its own. */
export interface RunningReceiver {
  /** Sends a message, and returns the status of the response. */
  post(message: Message): Promise<number>;
  /** The complete lines that it printed for this `webhook-id`. */
  printed(id: string): readonly string[];
  stop(): Promise<void>;
}

/** Maximum time of a start: Go compiles first. Milliseconds. */
const START_MS = 120_000;

/**
 * Starts a receiver with this secret, and waits until it responds.
 *
 * @param ids the folder for ids of the receiver in PHP.
 */
export async function startLanguage(
  language: Language,
  secret: string,
  ids = join(temporaryFolder(), 'ids'),
): Promise<RunningReceiver> {
  const port = await freePort();
  const { command, args } = language;
  // Its own group, because `go run` starts the receiver as another process.
  const child = spawn(command, args(pathOf(language), port), {
    detached: true,
    env: {
      ...process.env,
      NODE_OPTIONS: '',
      WEBHOOK_SECRET: secret,
      PORT: String(port),
      WEBHOOK_IDS: ids,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  let hasEnded = false;
  const closed = new Promise<void>((done) => {
    child.once('close', () => {
      hasEnded = true;
      done();
    });
  });
  child.once('error', (error) => {
    output += error.message;
  });
  const kill = () => endGroup(child.pid);
  process.once('exit', kill);
  const stop = async () => {
    kill();
    await closed;
    process.removeListener('exit', kill);
  };

  const post = async ({ headers, body }: Message) => {
    const url = `http://127.0.0.1:${port}/hook`;
    const response = await request(url, { method: 'POST', headers, body });
    await response.body.dump();
    return response.statusCode;
  };
  try {
    const responds = async () => {
      if (hasEnded) throw new StopWaitingError('it has ended');
      return (await post({ headers: {}, body: '{}' })) > 0;
    };
    await until(responds, { withinMs: START_MS, everyMs: 50, despiteErrors: true });
  } catch (cause) {
    await stop();
    throw new Error(`the receiver in ${language.name} did not start: ${output}`, { cause });
  }
  return {
    post,
    // The last line may not be complete.
    printed: (id) =>
      output
        .split('\n')
        .slice(0, -1)
        .filter((line) => line.startsWith(`${id} `)),
    stop,
  };
}

function endGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended already.
  }
}
